import random

import pytest

from golden.tensor.gemm import gemm_cycles
from scale.costs import attention_seconds, pass_seconds, product_bytes, product_cycles, product_seconds
from spec.parameters import ParameterError
from spec.presets import machine_named
from spec.tensor import TensorConfig

SMALL = TensorConfig(rows=4, columns=4, psum_banks=2, psum_bank_bytes=64)
CHIP = machine_named("TRN2").chip
MIB = 2**20


@pytest.mark.parametrize("config", [SMALL, SMALL.replace(psum_banks=3), SMALL.replace(psum_banks=1), TensorConfig()])
@pytest.mark.parametrize("tiles", [(1, 1, 1), (9, 1, 1), (1, 15, 1), (1, 1, 15), (7.5, 13.25, 14.1)])
def test_large_products_cost_exactly_what_the_golden_program_costs(
    config: TensorConfig, tiles: tuple[float, float, float]
) -> None:
    group = config.bank_depth * max(1, config.psum_banks // 2)
    k, m, n = int(tiles[0] * config.rows), int(tiles[1] * config.columns), int(tiles[2] * group)
    assert product_cycles(config, k, m, n) == gemm_cycles(config, k, m, n)


@pytest.mark.parametrize("seed", range(40))
def test_random_products_cost_exactly_what_the_golden_program_costs(seed: int) -> None:
    draw = random.Random(seed)
    banks, side = draw.choice([1, 2, 3, 8]), draw.choice([4, 16])
    config = SMALL.replace(
        rows=side, columns=draw.choice([4, 16]), psum_banks=banks, load_columns=draw.choice([1, 2, 4])
    )
    k, m = draw.randrange(1, 14 * config.rows), draw.randrange(1, 16 * config.columns)
    n = draw.randrange(1, draw.choice([8, 20 * config.bank_depth]))
    assert product_cycles(config, k, m, n) == gemm_cycles(config, k, m, n)


def test_a_large_product_runs_near_the_peak_of_the_arrays() -> None:
    core = CHIP.core
    peak = CHIP.cores * core.tensor.rows * core.tensor.columns * core.tensor_clock_ghz * 1e9
    assert 0.97 < 8192 * 16384 * 13312 / peak / product_seconds(CHIP, 8192, 16384, 13312) <= 1.0


@pytest.mark.parametrize("name", ["fp32", "fp8_e4m3", "fp8_e4m3_x2"])
@pytest.mark.parametrize("tiles", [(9, 2, 2), (1, 15, 1), (3, 1, 15), (7.5, 13.25, 3)])
def test_other_formats_cost_what_golden_says_too(name: str, tiles: tuple[float, float, float]) -> None:
    config = SMALL.replace(formats=("bf16", "fp32", "fp8_e4m3"), double_row=True)
    k, m, n = (int(count * step) for count, step in zip(tiles, (8, 4, config.bank_depth), strict=True))
    assert product_cycles(config, k, m, n, name) == gemm_cycles(config, k, m, n, name)


def test_fp32_takes_four_times_and_an_unknown_width_is_refused() -> None:
    slow, fast = product_seconds(CHIP, 4096, 8192, 8192, width=4), product_seconds(CHIP, 4096, 8192, 8192)
    assert slow == pytest.approx(4 * fast, rel=0.01)
    with pytest.raises(ParameterError, match="values of 3 bytes: legal is"):
        product_seconds(CHIP, 1, 1, 1, width=3)


def test_fp8_takes_half_the_time_of_bf16() -> None:
    slow, fast = product_seconds(CHIP, 4096, 8192, 8192), product_seconds(CHIP, 4096, 8192, 8192, width=1)
    assert fast == pytest.approx(slow / 2, rel=0.01)


def test_one_token_is_bound_by_loading_weights() -> None:
    """A product of one row cannot use the array: it costs about one load of each stationary tile."""
    tiles = (8192 // 128) * (8192 // 128) / CHIP.cores
    cycles = product_seconds(CHIP, 1, 8192, 8192) * CHIP.core.tensor_clock_ghz * 1e9
    assert cycles >= tiles * CHIP.core.tensor.load_cycles


def test_more_units_than_cores_take_turns_and_fewer_share() -> None:
    one = attention_seconds(CHIP, 8, 512, 4096, 128)
    assert attention_seconds(CHIP, 16, 512, 4096, 128) == pytest.approx(2 * one)
    assert attention_seconds(CHIP, 9, 512, 4096, 128) == pytest.approx(2 * one)
    assert attention_seconds(CHIP, 1, 512, 4096, 128) < 0.3 * one


def test_passes_take_one_row_a_cycle() -> None:
    assert pass_seconds(CHIP, 128 * 8 * 1000, 1.0, passes=3) == pytest.approx(3e-6)
    assert pass_seconds(CHIP, 1, 1.0) == pytest.approx(1e-9)


def test_bytes_of_a_product_count_what_must_be_read_again() -> None:
    sbuf = 64 * MIB
    assert product_bytes(1000 * MIB, MIB, MIB, sbuf) == (1000 * MIB, 0.0)
    assert product_bytes(MIB, 1000 * MIB, 100 * MIB, sbuf) == (MIB, 1100 * MIB)
    weights, others = product_bytes(100 * MIB, 40 * MIB, 0.0, sbuf)
    assert weights + others == min(2 * 100 + 40, 100 + 4 * 40) * MIB
