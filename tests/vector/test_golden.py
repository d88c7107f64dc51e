"""Golden of the vector engine against numpy, ml_dtypes and plain Python."""

import dataclasses
from typing import Any

import gfloat
import gfloat.formats
import numpy as np
import pytest

from golden.vector.instructions import Instruction, VectorEngine, cycles
from golden.vector.movement import stream_shuffle, transpose
from golden.vector.operations import ARITHMETIC, RAW, apply, reciprocal
from golden.vector.power import power, rsqrt
from golden.vector.quantize import quantize_mx, rows_of_blocks
from golden.vector.search import find_index8, match_replace8, max8
from golden.vector.statistics import bn_aggr, bn_stats
from spec.parameters import ParameterError
from spec.vector import OPERATIONS, VectorConfig
from verif.scalar.references import ulp_error

CORNERS = np.array([0, -0.0, 1, -1, 2.5, np.inf, -np.inf, np.nan, 1e-45, 3.4e38], np.float32)
PYTHON: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "is_equal": np.equal,
    "not_equal": np.not_equal,
    "is_ge": np.greater_equal,
    "is_gt": np.greater,
    "is_le": np.less_equal,
    "is_lt": np.less,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "abs_max": lambda a, b: np.maximum(np.abs(a), np.abs(b)),
    "abs_min": lambda a, b: np.minimum(np.abs(a), np.abs(b)),
    "abs": lambda a, b: np.abs(a) + 0 * np.zeros_like(b),
    "square": lambda a, b: a * a + np.zeros_like(b),
    "relu": lambda a, b: np.maximum(a, 0) + np.zeros_like(b),
    "bypass": lambda a, b: np.broadcast_to(a, np.broadcast_shapes(a.shape, b.shape)),
}
WORDS: dict[str, Any] = {
    "bitwise_not": lambda a, b: ~a,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "shift_left": lambda a, b: a << b,
    "logical_shift_right": lambda a, b: a >> b,
    "arithmetic_shift_right": lambda a, b: (a - (a >> 31 << 32)) >> b,
    "int_add": lambda a, b: a + b,
    "int_subtract": lambda a, b: a - b,
    "int_multiply": lambda a, b: a * b,
}


def test_every_operation_of_the_specification_exists() -> None:
    assert {name: name in RAW for name in (*ARITHMETIC, *RAW)} == {e.name: e.raw for e in OPERATIONS.values()}


@pytest.mark.parametrize("name", PYTHON)
def test_arithmetic_operations_are_those_of_numpy(name: str) -> None:
    rng = np.random.default_rng(1)
    values = np.r_[CORNERS, rng.normal(0, 4, 200).astype(np.float32)]
    a, b = values[:, None], values[None, :]
    with np.errstate(all="ignore"):
        truth = PYTHON[name](a, b).astype(np.float32)
    assert np.array_equal(apply(name, a, b), truth, equal_nan=True)


@pytest.mark.parametrize("name", WORDS)
def test_raw_operations_are_those_of_integers(name: str) -> None:
    words = [0, 1, 2, 31, 32, 40, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x12345678]
    for a in words:
        for b in words:
            far = name.startswith(("shift", "logical_shift", "arithmetic")) and b > 40
            truth = WORDS[name](a, min(b, 64) if far else b) & 0xFFFFFFFF
            assert int(apply(name, np.array([a], np.uint32), np.array([b], np.uint32))[0]) == truth, (a, b)


def test_reciprocal_is_correctly_rounded() -> None:
    x = np.random.default_rng(2).integers(1, 0x7F800000, 100_000, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        truth = (1 / x.astype(np.float64)).astype(np.float32)  # float64 holds enough bits: 2 * 24 + 2 < 53
    assert np.array_equal(reciprocal(x), truth)


def test_scan_and_reduce_run_in_element_order() -> None:
    config = VectorConfig(lanes=3)
    rng = np.random.default_rng(3)
    x, y = (rng.normal(0, 1, (20, 3)).astype(np.float32) for _ in range(2))
    engine = VectorEngine(config)
    scan = Instruction(
        opcode="tensor_tensor_scan", op0="multiply", op1="add", length=20, c0=int(np.float32(0.5).view(np.uint32))
    )
    rows, _, status = engine.execute(scan, x.view(np.uint32), y.view(np.uint32))
    state = np.full(3, 0.5, np.float32)
    for index in range(20):
        state = x[index] * state + y[index]
        assert np.array_equal(rows[index].view(np.float32), state)
    total, _, _ = engine.execute(Instruction(opcode="tensor_reduce", op1="add", length=20), x.view(np.uint32))
    assert status == "done"
    assert np.array_equal(total[0].view(np.float32), np.cumsum(x, axis=0, dtype=np.float32)[-1])


def test_two_operands_cost_no_more_than_one() -> None:
    config = VectorConfig(lanes=2)
    for opcode, most in (("tensor_copy", 512), ("tensor_tensor", 1024), ("tensor_tensor_scan", 1024)):
        program = [Instruction(opcode=opcode, op0="add", op1="add", length=512)] * 2
        rows, _ = cycles(config, program)
        assert rows[-1] - rows[511] <= most
    assert config.latency + 2 < 20


def test_max8_finds_and_replaces_what_sorting_finds() -> None:
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 12, (40, 5)).astype(np.float32)
    largest = max8(rows)
    assert np.array_equal(largest, -np.sort(-rows, axis=0)[:8])
    where = find_index8(rows, largest)
    for lane in range(5):
        order = np.argsort(-rows[:, lane], kind="stable")[:8]
        assert where[:, lane].tolist() == order.tolist()
    replaced = match_replace8(rows, largest, np.float32(-1))
    assert (replaced == -1).sum(axis=0).tolist() == [8] * 5
    assert find_index8(rows, np.full((8, 5), 99, np.float32)).tolist() == [[0xFFFFFFFF] * 5] * 8


def test_shuffle_and_transpose_move_bits() -> None:
    rows = np.arange(64 * 64, dtype=np.uint32).reshape(64, 64)
    mask = np.array(([31 - lane for lane in range(31)] + [255]) * 2, np.uint32)
    moved, written = stream_shuffle(rows, mask)
    assert moved[0, 0] == rows[0, 31]
    assert moved[3, 33] == rows[3, 62]
    assert not written[[31, 63]].any()
    block = transpose(rows, 32)
    assert np.array_equal(block[:32, 32:], rows[:32, 32:].T)


def test_statistics_aggregate_to_mean_and_variance() -> None:
    rows = np.random.default_rng(5).normal(3, 2, (101, 4)).astype(np.float32)
    mean, variance = bn_aggr(np.concatenate([bn_stats(rows[:60]), bn_stats(rows[60:])]))
    # Sums of 101 elements, one rounding each: relative error below 101 * 2**-24, twice for the variance.
    assert np.allclose(mean, rows.astype(np.float64).mean(axis=0), rtol=101 * 2.0**-24)
    assert np.allclose(variance, rows.astype(np.float64).var(axis=0), rtol=4 * 101 * 2.0**-24)
    with pytest.raises(ValueError, match="legal is 1 to 512"):
        bn_stats(np.zeros((513, 1), np.float32))


def test_statistics_of_a_large_mean_do_not_cancel() -> None:
    """Distances are taken from the first element: a thousand deviations away from 0, the variance keeps its digits."""
    rows = np.random.default_rng(8).normal(1000, 1, (512, 8)).astype(np.float32)
    _, variance = bn_aggr(bn_stats(rows))
    exact = rows.astype(np.float64).var(axis=0)
    # The squares are larger by (first - mean)**2 each, less than 16 here, and rounded 256 times in a half.
    assert (np.abs(variance - exact) <= 17 * 258 * 2.0**-24 * exact).all()


def test_statistics_of_one_and_of_equal_elements() -> None:
    assert bn_stats(np.full((1, 1), 7, np.float32)).ravel().tolist() == [1, 7, 0, 0, 0, 0]
    assert bn_stats(np.full((5, 1), 0.1, np.float32))[[2, 5]].ravel().tolist() == [0, 0]


def test_power_is_within_its_bound_and_has_the_special_values_of_c() -> None:
    rng = np.random.default_rng(9)
    a = np.exp2(rng.uniform(-126, 128, 1 << 16)).astype(np.float32)
    a[::2] = 1 + rng.normal(0, 1, 1 << 15) * np.exp2(rng.uniform(-24, -2, 1 << 15))
    exponents = rng.uniform(-151, 128, a.size)
    with np.errstate(all="ignore"):
        b = (exponents / np.log2(a.astype(np.float64))).astype(np.float32)
        b = np.where(np.isfinite(b), b, np.float32(2))
        truth = np.power(a.astype(np.longdouble), b.astype(np.longdouble)).astype(np.float64)
        assert ulp_error(power(a, b), truth).max() <= 0.65
        corners = np.array(
            [0, -0.0, 1, -1, 2, -2, 0.5, 3, -3, np.inf, -np.inf, np.nan, 1e-45, 16777217, 1e10], np.float32
        )
        x, y = np.meshgrid(corners, corners)
        truth = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
    found = power(x, y)
    assert np.array_equal(found, truth, equal_nan=True)
    assert np.array_equal(np.signbit(found), np.signbit(truth) & ~np.isnan(truth))


@pytest.mark.parametrize("near_one", [False, True])
@pytest.mark.parametrize("largest", [0.5, 8, 64, 149])
def test_power_keeps_its_bound_for_subnormal_bases_and_results_of_every_size(largest: float, near_one: bool) -> None:
    rng = np.random.default_rng(11)
    a = np.exp2(rng.uniform(-149, 128, 1 << 16)).astype(np.float32)
    if near_one:
        a = (1 + rng.normal(0, 1, a.size) * np.exp2(rng.uniform(-24, -6, a.size))).astype(np.float32)
    with np.errstate(all="ignore"):
        b = (rng.uniform(-largest, largest, a.size) / np.log2(a.astype(np.float64))).astype(np.float32)
        a, b = a[np.isfinite(b)], b[np.isfinite(b)]
        truth = np.power(a.astype(np.longdouble), b.astype(np.longdouble)).astype(np.float64)
        assert ulp_error(power(a, b), truth).max() <= 0.65


@pytest.mark.parametrize("exponent", [0, 1, 2, 127, 254])
def test_rsqrt_is_within_its_bound(exponent: int) -> None:
    """Every 17th significand; the error depends on the exponent little, the significand decides."""
    x = (np.arange(0, 1 << 23, 17, dtype=np.uint32) | np.uint32(exponent << 23)).view(np.float32)[1:]
    assert ulp_error(rsqrt(x), 1 / np.sqrt(x.astype(np.float64))).max() <= 0.52
    assert np.array_equal(rsqrt(x), power(x, np.full_like(x, -0.5)))


@pytest.mark.parametrize("ways", [2, 4])
def test_packed_instructions_are_the_unpacked_ones(ways: int) -> None:
    rng = np.random.default_rng(10)
    elements = rng.integers(0, 1 << 16, (24, 3)).astype(np.uint32)
    other = rng.integers(0, 1 << 16, (24, 3)).astype(np.uint32)
    formats: dict[str, Any] = {"left_format": "bf16", "right_format": "fp16", "output_format": "fp16"}
    plain = Instruction(opcode="tensor_scalar", op0="multiply", op1="add", c0=0x40400000, length=24, **formats)
    if ways == 2:
        plain = Instruction(opcode="tensor_tensor", op0="subtract", length=24, **formats)
    engine = VectorEngine(VectorConfig(lanes=3, ways=ways))
    truth, _, _ = engine.execute(plain, elements, other)

    def words(rows: Any) -> Any:
        return rows[0::2] | rows[1::2] << np.uint32(16)

    packed = dataclasses.replace(plain, packed=ways // 2)
    left, right = (words(elements), words(other)) if ways == 2 else (words(elements)[0::2], words(elements)[1::2])
    found, _, status = engine.execute(packed, left, right)
    assert status == "done"
    assert len(found) == 24 // ways
    parts = [(found >> found.dtype.type(16 * index)) & found.dtype.type(0xFFFF) for index in range(ways)]
    assert np.array_equal(np.stack(parts, axis=1).reshape(24, 3), truth)


@pytest.mark.parametrize(
    ("element", "info"),
    [
        ("fp8_e4m3fn", gfloat.formats.format_info_mxfp8_e4m3),
        ("fp8_e5m2", gfloat.formats.format_info_mxfp8_e5m2),
        ("fp4_e2m1", gfloat.formats.format_info_mxfp4_e2m1),
    ],
)
def test_mx_blocks_are_those_of_gfloat(element: str, info: Any) -> None:
    rows = np.random.default_rng(6).normal(0, 30, (4, 8)).astype(np.float32)
    codes, scales = quantize_mx(rows, element)
    scale = 2.0 ** (int(scales[0, 0]) - 127)
    amax = gfloat.compute_scale_amax(info.etype.emax, rows.reshape(-1))
    # gfloat takes elements that the caller has divided by the scale.
    truth = list(gfloat.encode_block(info, amax, rows.reshape(-1).astype(np.float64) / amax))
    assert truth[0] == scales[0, 0]
    assert codes.reshape(-1).tolist() == truth[1:]
    assert np.abs(rows).max() / scale < 2.0 ** (info.etype.emax + 1)
    if element != "fp4_e2m1":
        words = rows_of_blocks(codes, scales, 8)
        assert words[1, 5] == int.from_bytes(bytes(codes[:, 5].tolist()), "little")


def test_an_unknown_operation_is_refused() -> None:
    with pytest.raises(ParameterError, match="operation 'modulo': legal is one of abs"):
        apply("modulo", np.float32(1), np.float32(1))
