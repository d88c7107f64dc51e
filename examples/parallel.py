"""A two-layer network on four chips: its weights divided, or its batch divided.

    python -m examples.parallel           # on golden chips
    python -m examples.parallel rtl       # on a compiled 2x2 torus too, compared in every bit

*Tensor parallel*: each chip holds a quarter of the hidden units. It computes what they add to the output, and an
all-reduce adds the four parts. *Data parallel*: each chip holds a quarter of the batch. It computes the gradient of the
first weights from it, and an all-reduce adds those.
"""

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from examples.kernels import as_format, blocks, loaded, product
from sdk.collectives import Ring
from sdk.program import Program
from sdk.run import Result
from sdk.system import SystemProgram
from sdk.tensors import View
from spec.system import SystemConfig
from verif.system.system import SQUARE

Array = npt.NDArray[Any]
RING = (0, 1, 3, 2)
"""Around the 2x2 torus, neighbour by neighbour."""
INPUTS, HIDDEN, OUTPUTS, BATCH = 8, 16, 8, 8


def torus() -> SystemConfig:
    """Four chips of one small core, those of the bench."""
    return SQUARE


def _results(p: Program, target: View) -> Any:
    """What takes each tile of a product: into HBM."""

    def store(rows: slice, columns: slice, found: View) -> None:
        tile = p.sbuf((found.partitions, found.elements), "fp32")
        p.vector.tensor_copy(tile, found)
        p.dma(target[rows, columns], tile)

    return store


def tensor_parallel(
    config: SystemConfig, rng: np.random.Generator
) -> tuple[SystemProgram, list[dict[str, Array]], Array]:
    """``y.T = w2.T @ relu(w1.T @ x.T)``, the hidden units divided; programs, inputs, and what numpy says."""
    system = SystemProgram(config)
    share = HIDDEN // config.chips
    for p in system.programs:
        w1, x = p.input("w1", (INPUTS, share), "bf16"), p.input("x", (INPUTS, BATCH), "bf16")
        w2, y = p.input("w2", (share, OUTPUTS), "bf16"), p.output("y", (OUTPUTS, BATCH), "fp32")
        hidden = blocks(p, share, BATCH, "bf16")

        def activate(rows: slice, columns: slice, found: View, p: Program = p, hidden: View = hidden) -> None:
            number = rows.start // p.config.partitions
            p.scalar.activation(hidden[: found.partitions, number, columns], found, "relu")

        product(p, loaded(p, w1, "bf16"), loaded(p, x, "bf16"), INPUTS, activate)
        product(p, loaded(p, w2, "bf16"), hidden, share, _results(p, y))
    Ring([system.programs[core] for core in RING], RING, "y").run("all_reduce")
    w1_, w2_, x_ = (
        as_format(rng.normal(size=s), "bf16") for s in ((INPUTS, HIDDEN), (HIDDEN, OUTPUTS), (INPUTS, BATCH))
    )
    parts = [slice(chip * share, (chip + 1) * share) for chip in range(config.chips)]
    inputs = [{"w1": w1_[:, part], "x": x_, "w2": w2_[part]} for part in parts]
    return system, inputs, w2_.T @ as_format(np.maximum(w1_.T @ x_, 0), "bf16")


def data_parallel(
    config: SystemConfig, rng: np.random.Generator
) -> tuple[SystemProgram, list[dict[str, Array]], Array]:
    """The gradient ``x.T @ e`` of a layer's weights for a batch of inputs ``x`` and errors ``e``, the batch divided."""
    system = SystemProgram(config)
    share = BATCH // config.chips
    for p in system.programs:
        x, e = p.input("x", (share, INPUTS), "bf16"), p.input("e", (share, HIDDEN), "bf16")
        gradient = p.output("y", (INPUTS, HIDDEN), "fp32")
        product(p, loaded(p, x, "bf16"), loaded(p, e, "bf16"), share, _results(p, gradient))
    Ring([system.programs[core] for core in RING], RING, "y").run("all_reduce")
    x_, e_ = (as_format(rng.normal(size=(BATCH, width)), "bf16") for width in (INPUTS, HIDDEN))
    parts = [slice(chip * share, (chip + 1) * share) for chip in range(config.chips)]
    return system, [{"x": x_[part], "e": e_[part]} for part in parts], x_.T @ e_


LAYERS = {"tensor parallel": tensor_parallel, "data parallel": data_parallel}


def outputs(results: list[Result]) -> Array:
    """The result on every chip."""
    return np.stack([result["y"] for result in results])


def main() -> None:
    """Both layers on golden, and on the hardware if it is asked for."""
    machine: Any = None
    for name, layer in LAYERS.items():
        config = torus()
        system, inputs, expected = layer(config, np.random.default_rng(1))
        golden = system.run("golden", inputs)
        found = outputs(golden)
        error = float(np.abs(found - expected).max())
        print(f"{name}: {max(one.cycles for one in golden)} cycles, largest difference from numpy {error:.1e}")
        if "rtl" in sys.argv[1:]:
            from verif.system.driver import RtlSystem

            machine = machine or RtlSystem(config)
            rtl = system.run(machine, inputs)
            differ = int((outputs(rtl).view(np.uint32) != found.view(np.uint32)).sum())
            print(
                f"  compiled hardware: {max(one.cycles for one in rtl)} cycles, {differ} of {found.size} numbers differ"
            )


if __name__ == "__main__":
    main()
