"""Sparsity, tiles and bf16 results: golden against dense products, separate products and ml_dtypes."""

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from golden.tensor.array import Engine, gemm, matmul, narrowed
from golden.tensor.gemm import gemm_cycles
from golden.tensor.program import Instruction, Judge
from golden.tensor.sparsity import TAG_SHIFT, compress, planes
from spec.parameters import ParameterError
from spec.tensor import PATTERNS, Operation, ResultFormat, Status, TensorConfig, operand_code

BF16 = operand_code("bf16")
CONFIG = TensorConfig(
    rows=8, columns=4, formats=("bf16", "fp8_e4m3"), double_row=True, sparsity=True, tiles=2, bf16_results=True
)
LOAD = Instruction(operation=Operation.LOAD_STATIONARY, format=BF16, columns=4)
MATMUL = Instruction(operation=Operation.MATMUL, format=BF16, columns=5)


def numbers(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape).astype(ml_dtypes.bfloat16).view(np.uint16)


def pruned(rng: np.random.Generator, k: int, m: int, kept: int, block: int) -> Any:
    """A stationary with ``kept`` numbers in each block, anywhere."""
    order = rng.permuted(np.tile(np.arange(block), (k // block, m, 1)), axis=2).swapaxes(1, 2)
    return np.where(order.reshape(k, m) < kept, numbers(rng, k, m), 0).astype(np.uint16)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_sparse_pass_is_the_dense_product_of_all_its_rows(pattern: str) -> None:
    kept, block = PATTERNS[pattern]
    rng = np.random.default_rng(1)
    k = CONFIG.rows * block // kept
    w, x = pruned(rng, k, 4, kept, block), numbers(rng, k, 7)
    assert np.array_equal(gemm(CONFIG, w, x, "bf16", "bf16", pattern), matmul(w, x, "bf16", "bf16"))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_tag_says_where_its_number_was(pattern: str) -> None:
    kept, block = PATTERNS[pattern]
    rng = np.random.default_rng(2)
    k = 8 * block // kept
    dense = np.where(pruned(rng, k, 3, kept, block) != 0, np.arange(1, k + 1)[:, None], 0).astype(np.uint16)
    words = compress(pattern, dense == 0, dense)
    moving = planes(pattern, np.arange(1, k + 1, dtype=np.uint16)[:, None])
    for row, column in np.ndindex(words.shape):
        plane, index = divmod(int(words[row, column] >> np.uint64(TAG_SHIFT)), 4)
        number = int(words[row, column]) & 0xFFFF
        assert number in (0, moving[plane * 8 + row // 4 * 4 + index, 0])


def test_a_block_with_too_many_numbers_is_refused() -> None:
    codes = np.ones((8, 1), np.uint16)
    with pytest.raises(ParameterError, match="at most 2 numbers in each 4 rows"):
        compress("2:4", codes == 0, codes)


def test_sparsity_is_worth_as_many_dense_passes_as_its_ratio() -> None:
    config = TensorConfig(sparsity=True)
    for pattern, (kept, block) in PATTERNS.items():
        k = 16 * 128 * block // kept
        assert gemm_cycles(config, k, 128, 512, "bf16", pattern) == gemm_cycles(config, 16 * 128, 128, 512, "bf16")


def test_split_rows_make_a_product_each_in_a_bank_each() -> None:
    rng = np.random.default_rng(3)
    w, x = numbers(rng, 8, 4), numbers(rng, 8, 5)
    engine = Engine(CONFIG)
    engine.execute(LOAD, w)
    split = dataclasses.replace(MATMUL, split=1, bank=2, offset=1)
    assert engine.execute(split, x) == Status.OK
    for tile in range(2):
        rows, start = slice(4 * tile, 4 * tile + 4), (2 + tile) * CONFIG.bank_depth + 1
        assert np.array_equal(engine.psum[:, start : start + 5], matmul(w[rows], x[rows], "bf16", "bf16"))
    assert engine.written.sum() == 2 * 2 * 5


def test_masked_columns_keep_what_they_had_and_stay_unwritten() -> None:
    rng = np.random.default_rng(4)
    w, x = numbers(rng, 8, 4), numbers(rng, 8, 5)
    engine = Engine(CONFIG)
    engine.execute(LOAD, w)
    engine.execute(dataclasses.replace(MATMUL, masked=0b01), x)
    assert not engine.psum[:2].any()
    assert engine.execute(dataclasses.replace(MATMUL, accumulate=True), x) == Status.UNWRITTEN
    assert engine.execute(dataclasses.replace(MATMUL, accumulate=True, masked=0b01), x) == Status.OK


def test_bf16_results_are_those_of_ml_dtypes() -> None:
    bits = np.random.default_rng(5).integers(0, 1 << 32, 100_000, dtype=np.uint32)
    bits = np.where(np.isnan(bits.view(np.float32)), np.uint32(0x7FC00000), bits)
    expected = bits.view(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
    assert np.array_equal(narrowed(bits), expected.astype(np.uint32) << 16)


def test_stochastic_results_are_right_on_average_and_exact_where_bf16_is() -> None:
    engine = Engine(CONFIG.replace(rows=8, columns=512))
    number = np.array([0x3F804000], np.uint32)  # a quarter of the way from 1 to the next bf16
    drawn = engine.random[0].stream(2_000)
    rounded = narrowed(np.broadcast_to(number, drawn.shape), drawn)
    up = (rounded == 0x3F810000).mean()
    assert set(np.unique(rounded)) == {0x3F800000, 0x3F810000}
    assert abs(up - 0.25) < 5 * np.sqrt(0.25 * 0.75 / drawn.size)
    assert (narrowed(np.full_like(drawn, 0xC0490000), drawn) == 0xC0490000).all()


def test_generators_begin_apart_and_any_seed_is_legal() -> None:
    engine = Engine(CONFIG)
    assert len(np.unique([generator.state for generator in engine.random])) == 8
    engine.reseed(int(engine.first_states[1, 2]))
    assert engine.random[1].state[2] == engine.first_states[1, 2]


@pytest.mark.parametrize(
    ("program", "status"),
    [
        ([dataclasses.replace(LOAD, sparse=True)], Status.OK),
        ([dataclasses.replace(LOAD, sparse=True, format=operand_code("fp8_e4m3_x2"))], Status.FORMAT),
        ([dataclasses.replace(LOAD, offset=4, columns=1)], Status.ADDRESS),
        ([dataclasses.replace(LOAD, offset=1, columns=1)], Status.ADDRESS),
        ([LOAD, dataclasses.replace(MATMUL, split=2)], Status.ADDRESS),
        ([LOAD, dataclasses.replace(MATMUL, split=1, bank=7)], Status.ADDRESS),
        ([LOAD, dataclasses.replace(MATMUL, masked=0b100)], Status.ADDRESS),
        ([LOAD, dataclasses.replace(MATMUL, result=3)], Status.FORMAT),
        ([LOAD, dataclasses.replace(MATMUL, result=ResultFormat.BF16_STOCHASTIC)], Status.OK),
    ],
)
def test_what_is_refused(program: list[Instruction], status: Status) -> None:
    judge = Judge(CONFIG)
    assert [judge.status(instruction) for instruction in program][-1] == status


@pytest.mark.parametrize("change", [{"sparsity": True}, {"tiles": 2}, {"bf16_results": True}])
def test_what_is_not_built_in_is_refused(change: dict[str, Any]) -> None:
    plain = TensorConfig(rows=8, columns=4)
    uses = {
        "sparsity": dataclasses.replace(LOAD, sparse=True),
        "tiles": dataclasses.replace(MATMUL, split=1),
        "bf16_results": dataclasses.replace(MATMUL, result=1),
    }
    for config, refused in ((plain, True), (plain.replace(**change), False)):
        judge = Judge(config)
        judge.status(LOAD)
        assert (judge.status(uses[next(iter(change))]) != Status.OK) == refused


@pytest.mark.parametrize(
    "change",
    [{"rows": 6, "sparsity": True}, {"rows": 6, "tiles": 4}, {"columns": 6, "tiles": 4}, {"psum_banks": 2, "tiles": 4}],
)
def test_configurations_that_do_not_divide_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ParameterError, match=r"with (sparsity|tiles)"):
        TensorConfig(rows=8, columns=8).replace(**change)
