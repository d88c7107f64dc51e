"""Casts of golden against ml_dtypes, gfloat, SoftFloat and numpy; stochastic rounding against its definition."""

from fractions import Fraction
from typing import Any

import gfloat
import numpy as np
import pytest
import softfloatpy

from golden.numerics import Xorshift32, cast, decode, encode
from golden.numerics.codes import ELEMENTS
from spec.formats import FLOATS, INTS
from spec.numerics import STOCHASTIC_BITS
from verif.numerics.references import GFLOAT, ML_DTYPES, softfloat
from verif.numerics.vectors import all_codes, codes_of, patterns

RANDOM = 100_000


def sources(name: Any, seed: Any = 3) -> Any:
    return codes_of(name, RANDOM, np.random.default_rng(seed), exhaust=True)


def misplaced_by_ml_dtypes(values: Any) -> Any:
    """Between 1 and 1.5 times the smallest scale, ml_dtypes rounds up to twice the scale; gfloat, as we do, down."""
    return (values > 2.0**-127) & (values < 1.5 * 2.0**-127)


@pytest.mark.parametrize("target", ML_DTYPES)
@pytest.mark.parametrize("source", ML_DTYPES)
def test_nearest_is_the_cast_of_ml_dtypes(source: Any, target: Any) -> None:
    codes = patterns(source, 1_000_000, np.random.default_rng(4)) if source == "fp32" else all_codes(source)
    actual, values = cast(codes, source, target), decode(source, codes)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = values.astype(np.float32).astype(ML_DTYPES[target]).view(actual.dtype)
    wrong = actual != expected
    if target == "e8m0":
        assert np.all(misplaced_by_ml_dtypes(values[wrong]))
        return
    nan = np.isnan(values) | np.isnan(decode(target, actual))
    assert not np.any(wrong & ~nan)
    pattern = FLOATS[target].nan_pattern
    assert np.all(actual[nan] == (1 << (FLOATS[target].width - 1) if pattern is None else pattern))
    assert pattern is None or np.all(np.isnan(decode(target, expected[nan])))


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("target", GFLOAT)
@pytest.mark.parametrize("source", ["fp32", "fp16", "fp8_e5m2", "int32"])
def test_every_mode_is_that_of_gfloat(source: Any, target: Any, stochastic: Any, saturate: Any) -> None:
    codes = sources(source)
    values = decode(source, codes)
    random = np.random.default_rng(5).integers(0, 1 << 32, len(codes), dtype=np.uint32)
    if target == "fp4_e2m1":  # gfloat refuses what a format cannot express
        finite = np.isfinite(values)
        codes, values, random = codes[finite], values[finite], random[finite]
    actual = decode(target, cast(codes, source, target, bits=random if stochastic else None, saturate=saturate))
    mode = gfloat.RoundMode.StochasticFastest if stochastic else gfloat.RoundMode.TiesToEven
    fraction = (random >> np.uint32(32 - STOCHASTIC_BITS)).astype(np.int64)
    expected = gfloat.round_ndarray(
        GFLOAT[target], values, mode, saturate or target == "fp4_e2m1", fraction, STOCHASTIC_BITS
    )
    assert np.array_equal(actual, expected, equal_nan=True)
    assert np.array_equal(np.signbit(actual), np.signbit(expected) & ~np.isnan(actual))


@pytest.mark.parametrize(("target", "bits"), [("fp16", 16), ("bf16", 16)])
def test_nearest_from_fp32_is_that_of_softfloat(target: Any, bits: Any) -> None:
    codes = patterns("fp32", RANDOM, np.random.default_rng(6))
    codes = codes[~np.isnan(codes.view(np.float32))]
    operation = softfloatpy.f32_to_f16 if target == "fp16" else softfloatpy.f32_to_bf16
    expected = [int.from_bytes(operation(x).to_bytes()) for x in map(softfloatpy.Float32.from_float, codes.view("f4"))]
    assert np.array_equal(cast(codes, "fp32", target), expected)


@pytest.mark.parametrize("target", ["int32", "uint32"])
def test_integers_from_fp32_are_those_of_softfloat(target: Any) -> None:
    codes = patterns("fp32", RANDOM, np.random.default_rng(7))
    codes = codes[~np.isnan(codes.view(np.float32))]
    operation = softfloatpy.f32_to_i32 if target == "int32" else softfloatpy.f32_to_ui32
    assert np.array_equal(cast(codes, "fp32", target), softfloat(operation, codes))


@pytest.mark.parametrize("source", ["int32", "uint32"])
def test_fp32_from_integers_is_that_of_numpy(source: Any) -> None:
    codes = sources(source)
    assert np.array_equal(cast(codes, source, "fp32").view(np.float32), codes.view(source).astype(np.float32))


@pytest.mark.parametrize("target", INTS)
@pytest.mark.parametrize("source", [*FLOATS, "int32", "uint32", "int16"])
def test_integers_round_to_nearest_even_and_saturate(source: Any, target: Any) -> None:
    values = decode(source, sources(source))
    limits = np.iinfo(target)
    rounded = np.clip(np.rint(np.where(np.isnan(values), 0, values)), limits.min, limits.max)
    assert np.array_equal(encode(target, values).view(target), rounded.astype(np.int64))


@pytest.mark.parametrize("target", ELEMENTS)
def test_stochastic_rounding_leaves_what_the_format_holds(target: Any) -> None:
    codes = codes_of(target, RANDOM, np.random.default_rng(8), exhaust=True)
    values = decode(target, codes)
    codes, values = codes[~np.isnan(values)], values[~np.isnan(values)]
    for bits in (0, 0xFFFFFFFF):
        assert np.array_equal(encode(target, values, bits=np.full(len(values), bits, np.uint32)), codes)


@pytest.mark.parametrize("target", ["tf32", "bf16", "fp16", "fp8_e4m3", "fp8_e5m2", "fp4_e2m1", "int8"])
@pytest.mark.parametrize("fraction", [Fraction(1, 2**12), Fraction(1, 3), Fraction(7, 8)])
@pytest.mark.parametrize("sign", [1, -1])
def test_stochastic_rounding_is_unbiased(target: Any, fraction: Any, sign: Any) -> None:
    """The mean over 10**6 draws lies within 5 sigma of the number rounded."""
    below = 1.0
    above = below + float(last_place_of_one(target))
    value = np.float32(below + float(fraction) * (above - below)).astype(np.float64)
    exact = (value - below) / (above - below)
    lanes = Xorshift32(np.random.default_rng(9).integers(1, 1 << 32, 1000, dtype=np.uint32))
    draws = decode(target, encode(target, np.full(10**6, sign * value), bits=lanes.stream(1000).reshape(-1)))
    assert set(np.unique(draws * sign)) == {below, above}
    sigma = (above - below) * np.sqrt(exact * (1 - exact) / len(draws))
    assert abs(draws.mean() - sign * value) < 5 * sigma
    with pytest.raises(AssertionError):  # rounding to nearest would be noticed
        assert abs(decode(target, encode(target, [value]))[0] - value) < 5 * sigma


def last_place_of_one(target: Any) -> Any:
    return Fraction(1, 2 ** FLOATS[target].mantissa_bits) if target in FLOATS else Fraction(1)


def test_the_generator_is_that_of_marsaglia() -> None:
    lanes = Xorshift32(np.array([2463534242, 1], np.uint32))
    assert lanes.stream(3).tolist() == [[2463534242, 1], [723471715, 270369], [2497366906, 67634689]]
    assert lanes.state.tolist() == [2064144800, 2647435461]


def test_the_generator_refuses_the_state_zero() -> None:
    with pytest.raises(ValueError, match="legal is 1 to"):
        Xorshift32(np.array([1, 0], np.uint32))
