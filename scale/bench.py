"""The figures of the time model: `systola bench --block scale`.

Collectives stand beside the link bound (bytes that must leave or cross, over all links, no latency) and beside
ASTRA-sim on the same networks, hop latency and units; neither has a cost of starting a step here. Efficiencies of the
step are stated assumptions, so that this bench measures the model and needs no other bench to have run.
"""

import os
import time
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np

from scale.cluster import CURVE, Cluster
from scale.collectives import Collectives, Timing
from scale.fabric import Fabric, machine_scope
from scale.measured import load
from scale.network import Network, PortNetwork, RoutedNetwork
from scale.peers import ASTRA_DIRECT_US, ASTRA_SIM, ASTRA_US, TWO_RANKS, TWO_RANKS_US
from scale.step import Step
from scale.sweep import Point, evaluate, layouts, on_dask, sweep
from spec.models import model_named
from spec.parallelism import ParallelConfig, WorkloadConfig
from spec.results import BUILD, Record
from spec.topology import Torus

GB, MIB, HOP = 2**30, 2**20, 1e-6
ASSUMED = {"hbm": 0.95, "link": 0.9, "hop_cycles": 3.0}
"""Design targets of the HBM controller and the router, until a user loads what their benches measured."""


def networks() -> dict[str, Collectives]:
    """The networks of the comparison."""
    made: dict[str, tuple[Network, tuple[int, ...], tuple[float, ...]]] = {
        "torus4x4": (RoutedNetwork(Torus(sizes=(4, 4)), unit_bytes=128 * GB, hop_seconds=HOP), (4, 4), (1, 1)),
        "torus4x4x4": (
            RoutedNetwork(Torus(sizes=(4, 4, 4), cycles=(1, 1, 2)), unit_bytes=128 * GB, hop_seconds=HOP),
            (4, 4, 4),
            (2, 2, 1),
        ),
        "switch64": (PortNetwork(64, port_bytes=160 * GB, latency=HOP), (64,), (1,)),
        "ring64": (RoutedNetwork(Torus(sizes=(64,)), unit_bytes=128 * GB, hop_seconds=HOP), (64,), (1,)),
    }
    return {
        name: Collectives(network, np.arange(network.chips)[None], shape, widths, Timing())
        for name, (network, shape, widths) in made.items()
    }


def bound_seconds(collectives: Collectives, operation: str, size: float) -> float:
    """No algorithm is faster: what must leave each chip over all its links, or for all-to-all cross each dimension."""
    network, ranks = collectives.network, collectives.ranks
    if operation == "all_to_all" and isinstance(network, RoutedNetwork):
        widths = [width * network.widths.max() / max(collectives.widths) for width in collectives.widths]
        apart = [sum(min(step, extent - step) for step in range(extent)) / extent for extent in collectives.shape]
        return float(max(size * hops / (2 * width) for hops, width in zip(apart, widths, strict=True)))
    away = float(network.widths.sum()) / ranks / (2 if isinstance(network, PortNetwork) else 1)
    passes = {"all_reduce": 2 / ranks, "all_gather": 1.0}.get(operation, 1 / ranks)
    return (ranks - 1) * passes * size / away


def bench_collectives() -> list[Record]:
    """Each collective and size beside ASTRA-sim, and the share of the bound at 1 GiB."""
    records = []
    for name, collectives in networks().items():
        for operation, sizes in ASTRA_US[name].items():
            for mib, astra in sizes.items():
                best = collectives.best(operation, mib * MIB)
                us = best.time(mib * MIB) * 1e6
                label = f"{operation} {mib} MiB, {name}, {best.schedule.algorithm}"
                records.append(Record("scale.collectives", label, us, "us", astra, ASTRA_SIM, "lower"))
            size = 1024 * MIB
            bound = bound_seconds(collectives, operation, size)
            reached = bound / collectives.best(operation, size).time(size)
            peer = f"ASTRA-sim {bound / (sizes[1024] * 1e-6):.0%}"
            figure = f"{operation} 1 GiB, {name}: of the link bound"
            records.append(Record("scale.collectives", figure, reached, "", 0.8, peer))
    switch, size = networks()["switch64"], 1024 * MIB
    bound = bound_seconds(switch, "all_to_all", size)
    reached = bound / switch.best("all_to_all", size).time(size)
    peer = f"ASTRA-sim {bound / (ASTRA_DIRECT_US * 1e-6):.0%}: its switch has no ports"
    figure = "all_to_all 1 GiB, switch64: of the link bound"
    return [*records, Record("scale.collectives", figure, reached, "", 0.8, peer)]


def bench_two_ranks() -> list[Record]:
    """The published curve of two ranks, taken as neighbouring Trainium-1 chips: launch as published, link as preset.

    The published time does not grow below 64 KiB and by 10 us up to 1 MiB, which takes the link of the large sizes
    18 us: bytes move while the launch still goes on. So a collective takes the longer of the two, not their sum. What
    is left at large sizes is the link: the sample moves 57 GB/s, the preset's link has 48.
    """
    machine, scope = machine_scope("trn1-instance")
    fabric = Fabric(machine, scope, load(ASSUMED | {"link": 1.0, "step_ns": 0.0}))
    pair = fabric.collectives(np.array([[0, 1]]))
    launch = TWO_RANKS_US[64 << 10]
    records = []
    for size, published in TWO_RANKS_US.items():
        us = max(launch, pair.best("all_reduce", size).time(size) * 1e6)
        records.append(
            Record(
                "scale.collectives",
                f"2-rank all-reduce {size >> 10} KiB: deviation from the published time",
                abs(us / published - 1),
                "",
                0.2,
                f"{us:.0f} us computed, {published:g} us published; the sample does not name its machine. {TWO_RANKS}",
                "lower",
            )
        )
    return records


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of this process: what one core alone would take, however busy the machine is."""
    started = time.process_time()
    work()
    return time.process_time() - started


def bench_step() -> list[Record]:
    """What the model itself takes for the largest step."""
    machine, scope = machine_scope("trn2-ultraserver")
    fabric = Fabric(machine, scope, load(ASSUMED))
    layout = ParallelConfig(tp=32, pp=2, microbatches=16)
    step = Step(fabric, model_named("llama3.1-405b"), layout, WorkloadConfig(batch=64))
    seconds = cpu(step.run)
    figure = "64 chips, 126 layers, Llama 405B training step, 16 microbatches: CPU time of the model"
    return [Record("scale.step", figure, seconds, "s", 10, f"{len(step.stages.model):,} operations", "lower")]


def bench_cluster() -> list[Record]:
    """Scaling curve of an all-reduce to 100,000 chips, and what the model costs when it models every port of them."""
    machine, scope = machine_scope("trn2-ultraserver")
    fabric = Fabric(machine, scope, load(ASSUMED))
    records = [
        Record(
            "scale.cluster",
            f"all-reduce of 1 GiB over {point.chips:,} chips",
            point.seconds * 1e3,
            "ms",
            reference=f"between servers {point.between * 1e3:.3g} ms {point.algorithm}",
        )
        for point in Cluster(fabric).curve(GB)
    ]
    costs: dict[int, float] = {}
    for servers in (CURVE[-1] // 10, CURVE[-1]):
        tracemalloc.start()
        costs[servers] = cpu(partial(Cluster(fabric, every_port=True).all_reduce, servers, GB))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    few, many = costs
    growth = costs[many] / costs[few] / (many / few)
    chips = many * fabric.chips
    return [
        *records,
        Record("scale.cluster", f"memory of the model at {chips:,} chips", peak / 2**30, "GiB", 4, None, "lower"),
        Record(
            "scale.cluster",
            f"cost of the model, {few * fabric.chips:,} to {chips:,} chips, over the growth in chips",
            growth,
            "",
            1,
            f"{costs[many]:.2f} s CPU",
            "lower",
        ),
    ]


def bench_sweep() -> list[Record]:
    """The same sweep on one and on two Dask workers."""
    import distributed

    values = tuple((name, v.value, v.unit, v.source) for name, v in load(ASSUMED).items())
    points = [
        Point(preset="trn2-instance", model="llama3.1-8b", parallel=layout, batch=256, values=values)
        for layout in layouts(16, (8, 16))
    ]
    wall: dict[int, float] = {}
    for workers in (1, 2):
        path = BUILD / "sweep" / f"bench-{workers}.jsonl"
        path.unlink(missing_ok=True)
        options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": ":0"}
        with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
            client.wait_for_workers(workers)
            client.run(evaluate, points[0])  # imports are not what is measured
            started = time.perf_counter()
            sweep(points, path, on_dask(client))
            wall[workers] = time.perf_counter() - started
    busy = f"load average of the host {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    text = f"{wall[1]:.1f} s against {wall[2]:.1f} s, {len(points)} points, {busy}"
    return [Record("scale.sweep", "two Dask workers against one", wall[1] / wall[2], "x", 1.7, text)]


def bench_scale() -> list[Record]:
    """Every figure of the time model; sweeps have a bench of their own, which needs idle cores."""
    return [*bench_collectives(), *bench_two_ranks(), *bench_step(), *bench_cluster()]
