"""The plots of the docs page: where each trace's slots went, and utilisation against area.

``python -m verif.hbm.plots``, after ``make bench-hbm`` and ``make bench-hbm_area``, whose figures the second shows.
"""

import re
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from golden.hbm.controller import replay
from golden.hbm.spent import PARTS, spent
from spec.hbm_controller import HbmControllerConfig
from spec.results import BUILD, records_of
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


def draw_area() -> Path:
    """Utilisation of the deepest traces against the cells of one window, by the depth of either kind."""
    cells: dict[int, float] = {}
    for record in records_of(BUILD / "bench" / "hbm_area.json"):
        if match := re.fullmatch(r"(\d+) lines: generic cells", record["figure"]):
            cells[int(match[1])] = float(record["value"])
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for record in records_of(BUILD / "bench" / "hbm.json"):
        if match := re.fullmatch(r"(\w+): (read window|write buffer) of (\d+) lines \(model\)", record["figure"]):
            points = curves.setdefault(match[2], {}).setdefault(match[1], [])
            points.append((int(match[3]), float(record["value"])))
    figure, axes = _figure(8, 3, len(curves))
    for axis, (kind, traces) in zip(axes, curves.items(), strict=True):
        for trace, points in traces.items():
            axis.plot([cells[lines] for lines, _ in points], [value for _, value in points], marker="o", label=trace)
        depths = [lines for lines, _ in next(iter(traces.values()))]
        axis.set_xscale("log", base=2)
        axis.set_xticks([cells[lines] for lines in depths], [f"{lines}\n{cells[lines]:,.0f}" for lines in depths])
        axis.minorticks_off()
        axis.set_xlabel(f"{kind}: lines, and generic cells of that window")
        axis.set_ylabel("bus utilisation [%]")
        axis.grid(alpha=0.3)
    axes[-1].legend(loc="lower right")
    return _save(figure, "hbm_area.svg")


def _figure(width: float, height: float, columns: int = 1) -> tuple[Any, Any]:
    matplotlib.use("Agg")
    plt.rcParams.update({"svg.hashsalt": "systola", "font.size": 8})
    return plt.subplots(1, columns, figsize=(width, height), layout="constrained")


def _save(figure: Any, name: str) -> Path:
    target = FOLDER / name
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)
    return target


if __name__ == "__main__":
    print(draw_spent(), draw_area())
