"""Golden values of the tensor engine against exact rational arithmetic, and its programs against their own rules."""

import itertools
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from golden.numerics import decode
from golden.tensor.array import Engine, gemm, matmul, operand_values, quads
from golden.tensor.gemm import gemm_steps, passes, transpose_steps
from golden.tensor.program import Instruction, timing
from spec.formats import FLOATS
from spec.parameters import ParameterError
from spec.tensor import FP32_HALVES, Operation, Status, TensorConfig, operand_code

DTYPES = {"bf16": ml_dtypes.bfloat16, "fp16": np.float16, "fp8_e4m3": ml_dtypes.float8_e4m3}
SMALL = TensorConfig(rows=3, columns=5, load_columns=2, psum_banks=3, psum_bank_bytes=32)
BF16 = operand_code("bf16")


def rounded(exact: Fraction) -> np.float32:
    """Nearest fp32, ties to even, by comparing the neighbours with the exact number."""
    guess = np.float32(float(exact))
    candidates = [guess, np.nextafter(guess, np.float32(-np.inf)), np.nextafter(guess, np.float32(np.inf))]
    best = min(abs(Fraction(float(candidate)) - exact) for candidate in candidates)
    nearest = [candidate for candidate in candidates if abs(Fraction(float(candidate)) - exact) == best]
    even = [candidate for candidate in nearest if candidate.view(np.uint32) % 2 == 0]
    return (even or nearest)[0]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("span", [2, 14])
def test_one_rounding_for_each_row_in_row_order(name: str, span: int) -> None:
    rng = np.random.default_rng(span)
    scale = np.exp2(rng.integers(-span, span // 2, (7, 1)))
    w, x = ((rng.standard_normal((7, 3)) * scale).astype(DTYPES[name]) for _ in range(2))
    w, x = (np.where(np.isfinite(part.astype(np.float64)), part, 1).astype(DTYPES[name]) for part in (w, x))
    width = np.uint8 if name.startswith("fp8") else np.uint16
    ours = matmul(w.view(width), x.view(width), name, name).view(np.float32)
    for m in range(3):
        for n in range(3):
            total = np.float32(0)
            for k in range(7):
                product = Fraction(float(w[k, m])) * Fraction(float(x[k, n]))
                total = rounded(Fraction(float(total)) + product)
            assert ours[m, n] == total


def test_psum_adds_the_finished_sum_with_one_more_rounding() -> None:
    one = np.array([[0x3F80]], np.uint16)
    half_ulp = np.array([[0x3380]], np.uint16)  # 2**-24
    above_one = np.array([[0x3F800001]], np.uint32)
    assert matmul(one, half_ulp, "bf16", "bf16", above_one)[0, 0] == 0x3F800002


def test_products_beyond_fp32_are_kept_until_the_sum_is_rounded() -> None:
    large = np.array([[0x7F00], [0x7F00], [0x3F80]], np.uint16)  # 2**127
    other = np.array([[0x4000], [0xC000], [0x3F80]], np.uint16)  # 2, -2, 1
    assert matmul(large[:1], other[:1], "bf16", "bf16")[0, 0] == 0x7F800000
    tiny = np.array([[0x0001]], np.uint16)
    assert matmul(tiny, tiny | np.uint16(0x8000), "bf16", "bf16")[0, 0] == 0x80000000


def test_padding_rows_change_no_bit() -> None:
    rng = np.random.default_rng(5)
    w, x = rng.integers(0, 1 << 16, (2, 3, 4), dtype=np.uint16)
    full_w = np.concatenate([w, np.zeros((2, 4), np.uint16)])
    full_x = np.concatenate([x, np.full((2, 4), 0x8000, np.uint16)])
    assert np.array_equal(matmul(w, x, "bf16", "bf16"), matmul(full_w, full_x, "bf16", "bf16"))


def test_a_product_of_many_tiles_runs_as_its_program_says() -> None:
    rng = np.random.default_rng(6)
    w, x = (
        rng.integers(0x3F00, 0x4080, (10, 7), dtype=np.uint16),
        rng.integers(0x3F00, 0x4080, (10, 20), dtype=np.uint16),
    )
    engine, result = Engine(SMALL), np.zeros((7, 20), np.uint32)
    for step in gemm_steps(SMALL, 10, 7, 20, "bf16", "bf16"):
        loading = step.instruction.operation == Operation.LOAD_STATIONARY
        source, columns = (w, step.m) if loading else (x, step.n)
        codes = np.full((3, len(columns)), 0 if loading else 0x8000, np.uint16)
        codes[: len(step.k)] = source[step.k.start : step.k.stop, columns.start : columns.stop]
        assert engine.execute(step.instruction, codes) == Status.OK
        if not loading:
            start = engine.judge.address(step.instruction)
            part = engine.psum[: len(step.m), start : start + len(step.n)]
            result[step.m.start : step.m.stop, step.n.start : step.n.stop] = part
    assert np.array_equal(result, gemm(SMALL, w, x, "bf16", "bf16"))


def instruction(operation: Operation, columns: int, **fields: Any) -> Instruction:
    return Instruction(operation=operation, format=fields.pop("format", BF16), columns=columns, **fields)


LOAD, MATMUL = Operation.LOAD_STATIONARY, Operation.MATMUL


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ([(LOAD, 5, {"format": 15})], Status.FORMAT),
        ([(LOAD, 0, {})], Status.COLUMNS),
        ([(LOAD, 6, {})], Status.COLUMNS),
        ([(LOAD, 5, {}), (MATMUL, 0, {})], Status.COLUMNS),
        ([(LOAD, 5, {}), (MATMUL, 9, {})], Status.COLUMNS),
        ([(LOAD, 5, {}), (MATMUL, 8, {"bank": 3})], Status.ADDRESS),
        ([(LOAD, 5, {}), (MATMUL, 2, {"offset": 7})], Status.ADDRESS),
        ([(MATMUL, 1, {})], Status.STATIONARY),
        ([(LOAD, 5, {}), (LOAD, 6, {}), (MATMUL, 1, {})], Status.STATIONARY),
        ([(LOAD, 5, {}), (MATMUL, 1, {"accumulate": 1})], Status.UNWRITTEN),
        ([(LOAD, 5, {}), (MATMUL, 4, {}), (MATMUL, 5, {"accumulate": 1})], Status.UNWRITTEN),
        ([(LOAD, 5, {}), (MATMUL, 5, {}), (MATMUL, 5, {"accumulate": 1})], Status.OK),
    ],
)
def test_what_is_refused(program: list[tuple[Operation, int, dict[str, int]]], status: Status) -> None:
    steps = [instruction(operation, columns, **dict(fields)) for operation, columns, fields in program]
    assert timing(SMALL, steps)[-1].status == status


def test_512_cubed_takes_no_more_than_its_passes_and_one_fill() -> None:
    config = TensorConfig()
    times = timing(config, [step.instruction for step in gemm_steps(config, 512, 512, 512, "bf16", "bf16")])
    matmuls = times[1::2]
    assert all(later.first - before.last == 1 for before, later in itertools.pairwise(matmuls))
    assert times[-1].done + 1 == 16 * 512 + config.load_cycles + config.latency + 1


@pytest.mark.parametrize("columns", [64, 128, 512])
def test_a_new_stationary_each_matmul_costs_no_cycle(columns: int) -> None:
    program = [instruction(LOAD, 128), instruction(MATMUL, columns)] * 5
    firsts = [entry.first for entry in timing(TensorConfig(), program)[1::2]]
    assert np.diff(firsts).tolist() == [columns] * 4


@pytest.mark.parametrize(("one", "other"), [("fp8_e4m3", "fp8_e5m2"), ("fp8_e5m2", "fp8_e4m3fn")])
def test_pairs_round_their_own_sum_before_the_accumulators(one: str, other: str) -> None:
    rng = np.random.default_rng(8)
    types = {name: getattr(ml_dtypes, name.replace("fp8", "float8")) for name in (one, other)}
    w = (rng.standard_normal((5, 3)) * np.exp2(rng.integers(-9, 6, (5, 3)))).astype(types[one])
    x = (rng.standard_normal((5, 4)) * np.exp2(rng.integers(-9, 6, (5, 4)))).astype(types[other])
    config = TensorConfig(rows=3, columns=3, load_columns=1, formats=(one, other), double_row=True)
    ours = gemm(config, w.view(np.uint8), x.view(np.uint8), f"{one}_x2", f"{other}_x2").view(np.float32)
    for m in range(3):
        for n in range(4):
            total = np.float32(0)
            products = [Fraction(float(w[k, m])) * Fraction(float(x[k, n])) for k in range(5)] + [Fraction(0)]
            for k in range(3):  # five rows of K make one pass of three pairs: k and k + 3
                pair = rounded(products[k] + products[k + 3])
                total = rounded(Fraction(float(total)) + Fraction(float(pair)))
            assert ours[m, n] == total


def test_fp32_halves_add_up_to_the_number_and_its_product_is_closer_than_tf32s() -> None:
    rng = np.random.default_rng(9)
    codes = rng.integers(0, 1 << 32, 10_000, dtype=np.uint32)
    codes = codes[np.isfinite(codes.view(np.float32))]
    halves = [operand_values(name, codes).astype(np.float64) for name in FP32_HALVES]
    assert np.array_equal(halves[0] + halves[1], codes.view(np.float32))
    w, x = (rng.standard_normal((64, 5)).astype(np.float32) for _ in range(2))
    config = TensorConfig(rows=64, columns=8, formats=("fp32",))
    ours = gemm(config, w.view(np.uint32), x.view(np.uint32), "fp32", "fp32").view(np.float32)
    # 4 * 64 roundings of half an ulp of partial sums that stay below the sum of magnitudes.
    bound = 256 * 2.0**-24 * (np.abs(w).T.astype(np.float64) @ np.abs(x))
    assert np.all(np.abs(ours - w.T.astype(np.float64) @ x) <= bound)


def test_fp32_meets_fp32_only() -> None:
    with pytest.raises(ParameterError, match="fp32 is multiplied with fp32 only"):
        passes("fp32", "bf16")


@pytest.mark.parametrize(
    ("dtype", "names"), [(np.uint8, ["bits8"]), (np.uint16, ["bits16"]), (np.uint32, ["bits32_low", "bits32_high"])]
)
def test_transpose_keeps_every_bit(dtype: Any, names: list[str]) -> None:
    codes = np.random.default_rng(10).integers(0, np.iinfo(dtype).max, (6, 4), dtype=dtype, endpoint=True)
    codes[0, :2] = np.iinfo(dtype).max, 0  # a NaN in every floating-point format
    result: Any = None
    for name in names:
        result = matmul(codes, np.eye(6, dtype=dtype), name, name, result)
    assert np.array_equal(result, codes.T)


def test_a_transpose_takes_one_bank_for_each_tile_and_two_passes_for_words() -> None:
    config = TensorConfig(transpose=True, formats=("tf32",))
    assert [len(list(transpose_steps(config, 200, 300, width))) for width in (8, 16, 32)] == [12, 12, 24]


@pytest.mark.parametrize(("one", "other"), [("fp8_e4m3fn", "fp4_e2m1"), ("fp8_e5m2", "fp8_e4m3fn")])
def test_quads_are_scaled_exactly_and_rounded_in_the_accumulator(one: str, other: str) -> None:
    rng = np.random.default_rng(11)
    names = {name: f"mx_{name.split('_')[1]}_x4" for name in (one, other)}
    elements = [rng.integers(0, 1 << FLOATS[name].width, (4, 8, 3), dtype=np.uint8) for name in (one, other)]
    elements = [
        np.where(np.isfinite(decode(name, part)), part, 0) for name, part in zip((one, other), elements, strict=True)
    ]
    scales = [rng.integers(100, 150, (1, 3), dtype=np.uint8) for _ in range(2)]
    words = [quads(part, scale, names[name]) for part, scale, name in zip(elements, scales, (one, other), strict=True)]
    ours = matmul(words[0], words[1], names[one], names[other]).view(np.float32)
    w, x = (decode(name, part) for name, part in zip((one, other), elements, strict=True))
    for m in range(3):
        for n in range(3):
            total = np.float32(0)
            for k in range(8):
                p = [Fraction(w[index, k, m]) * Fraction(x[index, k, n]) for index in range(4)]
                halves = [rounded(p[0] + p[1]), rounded(p[2] + p[3])]
                four = rounded(Fraction(float(halves[0])) + Fraction(float(halves[1])))
                scale = Fraction(2) ** (int(scales[0][0, m]) + int(scales[1][0, n]) - 254)
                total = rounded(Fraction(float(total)) + Fraction(float(four)) * scale)
            assert ours[m, n] == total


def test_a_scale_that_is_nan_makes_the_sum_nan() -> None:
    words = quads(np.zeros((4, 8, 1), np.uint8), np.array([[255]], np.uint8), "mx_e4m3fn_x4")
    assert matmul(words, words, "mx_e4m3fn_x4", "mx_e4m3fn_x4")[0, 0] == 0x7FC00000
