"""Peaks of cores and chips, as the machine description gives them."""

from spec.machine import ChipConfig, CoreConfig


def dense_tflops(core: CoreConfig, products: float = 1) -> float:
    """TFLOPS of one core's array at ``products`` multiply-adds an element and cycle (0.25 for fp32 in four passes)."""
    return 2 * core.tensor.rows * core.tensor.columns * products * core.tensor_clock_ghz / 1e3


def chip_pflops(chip: ChipConfig, products: float) -> float:
    """PFLOPS of all arrays of a chip."""
    return chip.cores * dense_tflops(chip.core, products) / 1e3


def hbm_gib(chip: ChipConfig) -> float:
    """HBM capacity of a chip in GiB."""
    return chip.hbm_stacks * chip.hbm_stack_gib
