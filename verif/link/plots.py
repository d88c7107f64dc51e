"""The load-latency plot of the docs: ours as curves, BookSim 2 as the points its reference gives.

python -m verif.link.plots
"""

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from spec.topology import Kind
from verif.link.curves import peers, point

FOLDER = Path(__file__).parents[2] / "docs" / "blocks"
PATTERNS = ("uniform", "transpose", "tornado")
LOADS = np.concatenate([np.arange(0.05, 0.8, 0.1), np.arange(0.8, 1.0, 0.025)])
HIGHEST = 120
"""Latency at which the axis ends."""


def draw(cycles: int = 10_000) -> Path:
    """4x4 and 4x4x4, 4 channels, 8-flit packets; the adaptive kind has two of the four channels as escape."""
    matplotlib.use("Agg")
    plt.rcParams.update({"svg.hashsalt": "systola", "font.size": 8})
    figure, rows = plt.subplots(2, 3, figsize=(9, 5), sharex=True, sharey=True, layout="constrained")
    for dimensions, axes in zip((2, 3), rows, strict=True):
        for pattern, axis in zip(PATTERNS, axes, strict=True):
            wanted = (dimensions, 4, 8, pattern)
            peer = next(p for p in peers() if (p.dimensions, p.channels, p.flits, p.pattern) == wanted)
            for kind, escape in ((Kind.FREE, 4), (Kind.ADAPTIVE, 2)):
                found = []
                for load in LOADS:
                    found.append(point(peer.config(escape), pattern, load, 8, kind=kind, cycles=cycles // dimensions))
                    if found[-1].latency > HIGHEST:
                        break
                label = "dimension order" if kind is Kind.FREE else "adaptive"
                axis.plot([p.load for p in found], [p.latency for p in found], label=f"systola, {label}")
            axis.plot(
                [0, peer.saturation], [peer.zero_load, 3 * peer.zero_load], "k+", label="BookSim 2: zero load, 3x"
            )
            axis.set_title(f"{'x'.join(['4'] * dimensions)} {pattern}")
            axis.set_ylim(0, HIGHEST)
            axis.grid(alpha=0.3)
    rows[0][0].legend()
    figure.supxlabel("offered load [flits/chip/cycle]")
    figure.supylabel("mean latency [cycles]")
    target = FOLDER / "link_curves.svg"
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)
    return target


if __name__ == "__main__":
    print(draw())
