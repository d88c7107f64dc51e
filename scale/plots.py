"""Plots of the docs: roofline, collectives, scaling curves, and how full the links of the torus are."""

from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np

from scale.bench import ASSUMED, MIB, bound_seconds, networks
from scale.cluster import CURVE, Cluster
from scale.fabric import Fabric, machine_scope
from scale.kernels import Builder
from scale.measured import load
from scale.network import RoutedNetwork
from scale.peak import chip_pflops
from scale.peers import ASTRA_US
from scale.step import Step, StepResult
from spec.models import model_named
from spec.parallelism import ParallelConfig, WorkloadConfig

STYLE: Any = {
    "svg.hashsalt": "systola",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "figure.constrained_layout.use": True,
}


def _fabric(preset: str) -> Fabric:
    machine, scope = machine_scope(preset)
    return Fabric(machine, scope, load(ASSUMED))


def roofline(axes: Any) -> None:
    """Kernels of one layer of Llama 3.1 70B under the roof of a Trn2 chip: decode and prefill, sixteen chips."""
    fabric = _fabric("trn2-instance")
    chip, model = fabric.machine.chip, model_named("llama3.1-70b")
    peak, rate = chip_pflops(chip, 1) * 1e15, chip.hbm_tbytes * 1e12
    intensity = np.logspace(-1, 5, 200)
    axes.loglog(intensity, np.minimum(peak, intensity * rate) / 1e12, "k-", label="roof: arrays, HBM")
    cases = [("decode", 16, "o"), ("decode", 256, "s"), ("prefill", 4, "^")]
    for kind, batch, marker in cases:
        workload = WorkloadConfig(kind=kind, batch=batch, sequence=8192)
        builder = Builder(chip, model, ParallelConfig(tp=16), workload)
        points = []
        for kernel in builder.layer(0):
            moved = kernel.ahead_bytes + kernel.bytes
            if kernel.flops and moved:
                seconds = max(*kernel.engines.values(), moved / fabric.hbm_rate)
                points.append((kernel.flops / moved, kernel.flops / seconds / 1e12))
        axes.loglog(*zip(*points, strict=True), marker, label=f"{kind}, batch {batch}")
    axes.set(xlabel="operations a byte of HBM", ylabel="TFLOPS of a chip", title="Roofline, Trn2 chip, bf16")
    axes.legend()


def collectives(axes: Any) -> None:
    """All-reduce on the tori and the switch: share of the link bound by size, beside ASTRA-sim."""
    for name, made in networks().items():
        if name == "ring64":
            continue
        sizes = np.array([2.0**exponent for exponent in range(16, 31)])
        reached = [bound_seconds(made, "all_reduce", size) / made.best("all_reduce", size).time(size) for size in sizes]
        (line,) = axes.semilogx(sizes / MIB, reached, label=name)
        peer = ASTRA_US[name]["all_reduce"]
        shares = [bound_seconds(made, "all_reduce", mib * MIB) / (us * 1e-6) for mib, us in peer.items()]
        axes.semilogx(list(peer), shares, "x--", color=line.get_color(), label=f"{name}, ASTRA-sim")
    axes.set(xlabel="MiB each chip puts in", ylabel="share of the link bound", title="All-reduce", ylim=(0, 1.05))
    axes.legend()


def scaling(axes: Any) -> None:
    """All-reduce over an UltraCluster of Trn2 UltraServers."""
    cluster = Cluster(_fabric("trn2-ultraserver"))
    for size in (1 << 20, 1 << 26, 1 << 30):
        curve = cluster.curve(size)
        axes.loglog(
            [point.chips for point in curve], [point.seconds * 1e3 for point in curve], "o-", label=f"{size >> 20} MiB"
        )
    axes.set(xlabel="chips", ylabel="ms", title=f"All-reduce to {CURVE[-1] * 64:,} chips")
    axes.legend()


def weak_scaling(axes: Any) -> None:
    """Training of Llama 3.1 70B, the same work for each UltraServer: tokens a second against those of one."""
    fabric, model = _fabric("trn2-ultraserver"), model_named("llama3.1-70b")
    counts, rates = CURVE[:-1], []
    for servers in counts:
        layout = ParallelConfig(tp=16, dp=4 * servers, microbatches=1)
        result = Step(fabric, model, layout, WorkloadConfig(batch=4 * servers, sequence=8192), servers=servers).run()
        rates.append(result.tokens / result.seconds / result.chips)
    axes.semilogx([count * 64 for count in counts], np.array(rates) / rates[0], "o-")
    axes.set(
        xlabel="chips", ylabel="tokens a chip, of one UltraServer", title="Llama 3.1 70B, weak scaling", ylim=(0, 1.05)
    )


def heat_map(figure: Any) -> None:
    """How busy each link of the 4x4x4 torus is in a training step: one panel a plane, links up and to the right."""
    fabric = _fabric("trn2-ultraserver")
    layout, workload = ParallelConfig(tp=16, dp=4), WorkloadConfig(batch=4, sequence=8192)
    result = Step(fabric, model_named("llama3.1-70b"), layout, workload).run()
    use = torus_use(fabric, result)
    panels = figure.subplots(1, 4, sharey=True)
    for z, axes in enumerate(panels):
        grid = np.full((7, 7), np.nan)
        grid[1::2, ::2] = use[1, z, :3, :]
        grid[::2, 1::2] = use[0, z, :, :3]
        grid[::2, ::2] = use[2, z]
        image = axes.imshow(grid, origin="lower", vmin=0, vmax=max(0.01, float(np.nanmax(use))), cmap="viridis")
        axes.set(
            title=f"z = {z}", xticks=range(0, 7, 2), xticklabels=range(4), yticks=range(0, 7, 2), yticklabels=range(4)
        )
        axes.grid(False)
    figure.colorbar(image, ax=list(panels), label="share of the step", shrink=0.7)
    figure.suptitle("Links of the torus (chips show their z link): Llama 3.1 70B training, tp = 16 in each plane")


def torus_use(fabric: Fabric, result: StepResult) -> np.ndarray:
    """Use of the links that lead up, by ``[dimension, z, y, x]`` of their source."""
    network = fabric.network
    assert isinstance(network, RoutedNetwork)
    use = np.zeros((3, 4, 4, 4))
    for link, share in zip(network.topology.links, result.link_use, strict=True):
        dimension, down = divmod(link.source_port - 1, 2)
        if not down:
            x, y, z = link.source % 4, link.source // 4 % 4, link.source // 16
            use[dimension, z, y, x] = share
    return use


def draw(folder: Path) -> list[Path]:
    """Write every plot as SVG and return their paths; the same text every time."""
    matplotlib.use("Agg")
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with plt.rc_context(STYLE):
        for name, plot in (
            ("roofline", roofline),
            ("collectives", collectives),
            ("scaling", scaling),
            ("weak", weak_scaling),
        ):
            figure, axes = plt.subplots(figsize=(6, 3.6))
            plot(axes)
            written.append(_save(figure, folder / f"scale_{name}.svg"))
        figure = plt.figure(figsize=(9, 3))
        heat_map(figure)
        written.append(_save(figure, folder / "scale_torus.svg"))
    return written


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
    return path
