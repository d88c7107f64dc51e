"""The plots of the docs page: where each trace's slots went, and utilisation against depth and area.

python -m verif.hbm.plots
"""

from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from golden.hbm.controller import replay
from golden.hbm.spent import PARTS, spent
from spec.hbm_controller import HbmControllerConfig
from verif.hbm.traces import DEFAULT_BYTES, TRACES, lines

FOLDER = Path(__file__).parents[2] / "docs" / "blocks"
COLOURS = ("#4878a8", "#d8863b", "#6aa06a", "#b04a4a", "#c9c9c9")


def draw_spent(total: int = DEFAULT_BYTES) -> Path:
    """One bar a trace, from golden, which issues the RTL's commands in the RTL's slots."""
    config = HbmControllerConfig()
    shares = {name: spent(config, replay(config, *lines(name, total))) for name in TRACES}
    figure, axis = _figure(7, 8)
    left = np.zeros(len(shares))
    for part, colour in zip(PARTS, COLOURS, strict=True):
        widths = [share[part] for share in shares.values()]
        axis.barh(list(shares), widths, left=left, label=part, color=colour)
        left += widths
    axis.invert_yaxis()
    axis.set_xlim(50, 100)
    axis.set_xlabel("slots of both pseudo channels [%], from 50")
    axis.legend(loc="lower left", ncols=len(PARTS), bbox_to_anchor=(0, 1))
    return _save(figure, "hbm_spent.svg")


def _figure(width: float, height: float) -> tuple[Any, Any]:
    matplotlib.use("Agg")
    plt.rcParams.update({"svg.hashsalt": "systola", "font.size": 8})
    return plt.subplots(figsize=(width, height), layout="constrained")


def _save(figure: Any, name: str) -> Path:
    target = FOLDER / name
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)
    return target


if __name__ == "__main__":
    print(draw_spent())
