"""fp32 operations and accumulation of golden against SoftFloat; a fused multiply-add there is one rounding."""

from typing import Any

import numpy as np
import pytest
import softfloatpy

from golden.numerics import accumulate, add, decode, equal, less, multiply, multiply_add, to_float32, unordered
from golden.numerics.accumulate import exact_in_fp32
from verif.numerics.accumulation import NARROW
from verif.numerics.references import same, softfloat, softfloat_relation
from verif.numerics.vectors import all_pairs, factors, near, pairs, products

COUNT = 1_000_000


def array(values: Any) -> Any:
    return np.array(values, np.float32)


def f32(codes: Any) -> Any:
    return codes.view(np.float32)


def all_pairs_f32(name: Any) -> Any:
    return tuple(to_float32(name, codes).view(np.uint32) for codes in all_pairs(name))


@pytest.mark.parametrize("make", [pairs, factors])
@pytest.mark.parametrize(("ours", "theirs"), [(add, softfloatpy.f32_add), (multiply, softfloatpy.f32_mul)])
def test_random_and_corner_pairs(ours: Any, theirs: Any, make: Any) -> None:
    a, b = make(COUNT // 2, np.random.default_rng(11))
    result = ours(f32(a), f32(b)).view(np.uint32)
    assert np.all(result[np.isnan(f32(result))] == 0x7FC00000), "NaN is canonical"
    reference = softfloat(theirs, a, b)
    assert same(result, reference) == 0
    result[np.flatnonzero(np.isfinite(f32(result)))[0]] ^= 1
    assert same(result, reference) == 1, "one unit in the last place is noticed"


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize(("ours", "theirs"), [(add, softfloatpy.f32_add), (multiply, softfloatpy.f32_mul)])
def test_all_pairs_of_narrow_codes(ours: Any, theirs: Any, name: Any) -> None:
    a, b = all_pairs_f32(name)
    assert same(ours(f32(a), f32(b)).view(np.uint32), softfloat(theirs, a, b)) == 0


@pytest.mark.parametrize(("ours", "theirs"), [(less, softfloatpy.f32_lt_quiet), (equal, softfloatpy.f32_eq)])
def test_relations(ours: Any, theirs: Any) -> None:
    a, b = pairs(COUNT // 4, np.random.default_rng(12))
    relation = ours(f32(a), f32(b))
    assert np.array_equal(relation, softfloat_relation(theirs, a, b))
    assert not np.any(relation & unordered(f32(a), f32(b)))


@pytest.mark.parametrize("name", ["bf16", "tf32", "fp16"])
def test_accumulation_rounds_once(name: Any) -> None:
    one, other, addend = products(name, COUNT // 2, np.random.default_rng(13))
    a, b = to_float32(name, one), to_float32(name, other)
    actual = multiply_add(f32(addend), a, b).view(np.uint32)
    reference = softfloat(softfloatpy.f32_mul_add, a.view(np.uint32), b.view(np.uint32), addend)
    assert same(actual, reference) == 0
    assert same(np.roll(actual, 1), reference) > COUNT // 4, "swapped results are noticed"


@pytest.mark.parametrize("name", NARROW)
def test_accumulation_of_all_pairs_of_narrow_codes(name: Any) -> None:
    a, b = (to_float32(name, codes) for codes in all_pairs(name))
    with np.errstate(all="ignore"):
        addend = near(a.astype(np.float64) * b, len(a), np.random.default_rng(14))
    for other in (addend, np.zeros_like(addend), b.view(np.uint32)):
        actual = multiply_add(f32(other), a, b).view(np.uint32)
        assert same(actual, softfloat(softfloatpy.f32_mul_add, a.view(np.uint32), b.view(np.uint32), other)) == 0


def test_rounding_the_product_first_would_be_noticed() -> None:
    one, other, addend = products("tf32", COUNT // 10, np.random.default_rng(15))
    a, b = to_float32("tf32", one), to_float32("tf32", other)
    with np.errstate(all="ignore"):
        twice = f32(addend) + a * b
    assert same(twice.view(np.uint32), multiply_add(f32(addend), a, b).view(np.uint32)) > COUNT // 1000


@pytest.mark.parametrize("name", ["bf16", "tf32", "fp16", "fp8_e4m3"])
@pytest.mark.parametrize("shape", [(5, 7, 3), (3, 70, 600), (1, 1, 1)])
def test_rows_are_added_in_order_on_both_paths(name: Any, shape: Any) -> None:
    k, m, n = shape
    rng = np.random.default_rng(16)
    columns, rows, _ = products(name, max(k * m, k * n), rng)
    w = to_float32(name, columns[: k * m]).reshape(k, m)
    x = to_float32(name, rows[: k * n]).reshape(k, n)
    w[0], x[0] = np.sign(np.nan_to_num(w[0])), 1.5  # at least one row in range
    expected = np.zeros((m, n), np.float32)
    for row in range(k):
        expected = multiply_add(expected, w[row, :, None], x[row, None, :])
    assert exact_in_fp32(w, x)[0]
    actual = accumulate(np.zeros((m, n), np.float32), w, x)
    assert np.array_equal(actual.view(np.uint32), expected.view(np.uint32))


def test_ranges_decide_the_path() -> None:
    one, tiny, huge = array([[1.0]]), array([[2.0**-75]]), array([[2.0**64]])
    assert exact_in_fp32(one, tiny).all()
    assert not exact_in_fp32(tiny, tiny).any()
    assert not exact_in_fp32(huge, huge).any()
    assert exact_in_fp32(array([[np.inf]]), array([[0.0]])).all()


def test_operands_of_more_than_12_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 12 significant bits"):
        accumulate(np.zeros((1, 1), np.float32), array([[1 + 2.0**-12]]), array([[1.0]]))
    accumulate(np.zeros((1, 1), np.float32), array([[1 + 2.0**-11]]), array([[1.0]]))


def test_decoded_values_of_every_operand_format_are_exact_in_float32() -> None:
    for name in NARROW:
        codes = np.arange(256)
        assert np.array_equal(decode(name, codes), to_float32(name, codes), equal_nan=True)
