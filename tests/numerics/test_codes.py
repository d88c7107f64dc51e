"""Bit patterns against ml_dtypes and gfloat, exhaustively but for fp32."""

from typing import Any

import gfloat
import numpy as np
import pytest

from golden.numerics import code_dtype, decode, encode
from golden.numerics.codes import ELEMENTS
from spec.formats import FLOATS, INTS
from spec.parameters import ParameterError
from verif.numerics.references import GFLOAT, ML_DTYPES
from verif.numerics.vectors import all_codes, patterns


def codes_of(name: Any) -> Any:
    return patterns(name, 1_000_000, np.random.default_rng(1)) if name == "fp32" else all_codes(name)


def assert_same_numbers(actual: Any, expected: Any) -> None:
    numbers = ~np.isnan(expected)
    assert np.array_equal(np.isnan(actual), ~numbers)
    assert np.array_equal(actual[numbers].view(np.uint64), expected[numbers].view(np.uint64))


@pytest.mark.parametrize("name", ML_DTYPES)
def test_codes_stand_for_the_numbers_of_ml_dtypes(name: Any) -> None:
    codes = codes_of(name)
    with np.errstate(invalid="ignore"):
        expected = codes.view(ML_DTYPES[name]).astype(np.float64)
    assert_same_numbers(decode(name, codes), expected)


@pytest.mark.parametrize("name", GFLOAT)
def test_codes_stand_for_the_numbers_of_gfloat(name: Any) -> None:
    codes = codes_of(name)[:: 7 if name == "fp32" else 1]
    entry = FLOATS[name]
    shifted = codes.astype(np.int64) >> (entry.storage - entry.width)
    assert_same_numbers(decode(name, codes), gfloat.decode_ndarray(GFLOAT[name], shifted))


@pytest.mark.parametrize("name", [name for name in ELEMENTS if not name.endswith("32")])
def test_every_code_but_nan_encodes_back_to_itself(name: Any) -> None:
    codes = all_codes(name)
    values = decode(name, codes)
    back = encode(name, values)
    assert back.dtype == code_dtype(name)
    assert np.array_equal(back[~np.isnan(values)], codes[~np.isnan(values)])
    assert len(np.unique(back[np.isnan(values)])) <= 1, "NaN is canonical"


@pytest.mark.parametrize("name", INTS)
def test_integers_are_those_of_numpy(name: Any) -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 1 << INTS[name].width, 10_000).astype(code_dtype(name))
    assert np.array_equal(decode(name, codes), codes.view(name).astype(np.float64))


def test_an_unknown_format_is_refused_in_one_line() -> None:
    with pytest.raises(ParameterError, match="element format 'fp7'"):
        decode("fp7", [0])
