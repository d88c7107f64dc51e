"""The format table against libraries that nobody here wrote."""

import ml_dtypes
import numpy as np
import pytest

from spec.formats import BLOCKS, FLOATS, FORMATS, INTS, SCALES, FloatFormat, float_named, format_named
from spec.parameters import ParameterError
from verif.numerics.references import ML_DTYPES

DTYPES = {name: dtype for name, dtype in ML_DTYPES.items() if name in FLOATS}
"""Every float of the table but tf32, which no library has; tf32 is fp32 with a shorter mantissa."""


def value(entry: FloatFormat, pattern: int) -> float:
    """What the fields of the table say a pattern means, in plain arithmetic."""
    exponent = pattern >> entry.mantissa_bits & ((1 << entry.exponent_bits) - 1)
    mantissa = pattern & ((1 << entry.mantissa_bits) - 1)
    sign = -1.0 if pattern >> (entry.width - 1) else 1.0
    if entry.infinity and exponent == (1 << entry.exponent_bits) - 1:
        return sign * np.inf if mantissa == 0 else np.nan
    if entry.nan and not entry.infinity and pattern & ((1 << entry.width - 1) - 1) == entry.nan_pattern:
        return np.nan
    if exponent == 0:
        return sign * mantissa * 2.0 ** (entry.exponent_min - entry.mantissa_bits)
    return sign * ((1 << entry.mantissa_bits) + mantissa) * 2.0 ** (exponent - entry.bias - entry.mantissa_bits)


def patterns(entry: FloatFormat) -> np.ndarray:
    """All patterns up to 16 bits; for wider formats each exponent with the mantissas at its ends."""
    if entry.width <= 16:
        return np.arange(1 << entry.width, dtype=np.uint32)
    ends = [0, 1, 1 << entry.mantissa_bits - 1, (1 << entry.mantissa_bits) - 1]
    heads = np.arange(1 << entry.exponent_bits + 1, dtype=np.uint32) << entry.mantissa_bits
    return (heads[:, None] | np.array(ends, np.uint32)).ravel()


@pytest.mark.parametrize("name", DTYPES)
def test_the_table_means_what_the_library_means(name: str) -> None:
    entry = FLOATS[name]
    codes = patterns(entry)
    storage = {4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32}[entry.width]
    with np.errstate(invalid="ignore"):  # widening a signalling NaN raises the flag, as IEEE 754 wants
        theirs = codes.astype(storage).view(DTYPES[name]).astype(np.float64)
    ours = np.array([value(entry, int(code)) for code in codes])
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(np.signbit(ours[~np.isnan(ours)]), np.signbit(theirs[~np.isnan(theirs)]))


@pytest.mark.parametrize("name", DTYPES)
def test_limits_are_those_of_the_library(name: str) -> None:
    entry, info = FLOATS[name], ml_dtypes.finfo(DTYPES[name])
    assert value(entry, entry.max_finite) == float(info.max)
    assert 2.0**entry.exponent_min == float(info.smallest_normal)
    assert entry.exponent_max == np.frexp(float(info.max))[1] - 1


def test_tf32_is_fp32_with_ten_mantissa_bits() -> None:
    tf32, fp32 = FLOATS["tf32"], FLOATS["fp32"]
    assert (tf32.exponent_bits, tf32.bias, tf32.mantissa_bits) == (fp32.exponent_bits, fp32.bias, 10)
    assert (tf32.width, tf32.storage) == (19, 32)


def test_a_planted_wrong_bias_is_seen() -> None:
    wrong = FloatFormat("fp8_e4m3", 4, 3, 8)
    codes = patterns(wrong)
    theirs = codes.astype(np.uint8).view(ml_dtypes.float8_e4m3).astype(np.float64)
    assert any(value(wrong, int(code)) != theirs[code] for code in codes if not np.isnan(theirs[code]))


@pytest.mark.parametrize("name", INTS)
def test_integer_limits_are_numpys(name: str) -> None:
    info = np.iinfo(name)
    assert (INTS[name].minimum, INTS[name].maximum) == (info.min, info.max)


def test_scales_are_powers_of_two_and_all_ones_is_nan() -> None:
    scale = SCALES["e8m0"]
    codes = np.arange(256, dtype=np.uint8)
    theirs = codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    assert np.isnan(theirs[scale.nan_pattern])
    np.testing.assert_array_equal(2.0 ** (codes[:-1].astype(float) - scale.bias), theirs[:-1])


@pytest.mark.parametrize("name", BLOCKS)
def test_block_formats_are_made_of_known_formats(name: str) -> None:
    block = BLOCKS[name]
    assert all(element in FLOATS for element in block.elements)
    assert block.scale in SCALES
    assert block.block == 32


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match=r"format 'fp9': legal is one of bf16, e8m0, .*uint8"):
        format_named("fp9")
    with pytest.raises(ParameterError, match="floating-point format 'int8'"):
        float_named("int8")
    assert format_named("bf16") is FORMATS["bf16"]
