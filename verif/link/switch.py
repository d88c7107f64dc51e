"""Bench of the switch: every cell on every output, and every ready, in golden's cycle; wait and throughput."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.link.switch import run
from hdl.link.switch import Switch
from spec.link import SwitchConfig
from verif.harness import counts
from verif.harness.bench import Bench, Trial
from verif.harness.model import Model


@dataclasses.dataclass(frozen=True)
class Cells:
    """Cells sorted by (source, created); ``targets`` is one output each, or rows of booleans."""

    created: NDArray[np.int64]
    source: NDArray[np.int64]
    targets: NDArray[Any]


def arrivals(
    config: SwitchConfig, load: float, slots: int, rng: np.random.Generator, *, burst: int = 1, hot: float = 0.0
) -> Cells:
    """At most one cell a slot and input. Bursts are of geometric length with this mean, each to one output.

    ``hot`` is the share of cells for output 0, in addition to its part of the rest.
    """
    ports, slot = config.ports, config.slot_cycles
    active = np.zeros(ports, np.bool_)
    target = np.zeros(ports, np.int64)
    rise = load / (burst * (1 - load) + load) if load < 1 else 1.0
    sends, goes = np.zeros((slots, ports), np.bool_), np.zeros((slots, ports), np.int64)
    for index in range(slots):
        ends = rng.random(ports) < 1 / burst
        begins = (~active | ends) & (rng.random(ports) < (load if burst == 1 else rise))
        active = (active & ~ends) | begins
        fresh = np.where(rng.random(ports) < hot, 0, rng.integers(0, ports, ports))
        target = np.where(begins, fresh, target)
        sends[index], goes[index] = active, target
    source, when = np.nonzero(sends.T)
    return Cells(when * slot + ports, source, goes[when, source])


def compare(model: Model, config: SwitchConfig, cells: Cells, cycles: int, fault: Any = None) -> dict[str, Any]:
    """Replay golden's offers on RTL and compare outputs and readys of every cycle; returns golden's arrays."""
    golden = run(config, cells.created, cells.source, cells.targets, cycles)
    mask = (1 << config.cell_bits) - 1
    drive: dict[str, Any] = {}
    for port in range(config.ports):
        offer = golden["offers"][:, port]
        drive[f"i__{port}__valid"] = offer >= 0
        drive[f"i__{port}__cell"] = np.where(offer >= 0, offer, 0) & mask
        whole = [sum(int(word) << 64 * n for n, word in enumerate(row)) for row in golden["words"]]
        drive[f"i__{port}__targets"] = [whole[cell] if cell >= 0 else 0 for cell in offer]
    names = [f"o__{port}" for port in range(config.ports)] + [f"i__{port}__ready" for port in range(config.ports)]
    model.power_on()
    found = model.run(drive=drive, hold={"open": (1 << config.ports) - 1}, sample=["valid", *names], limit=cycles)
    words = found.samples["valid"]
    expected = golden["out"] if fault is None else fault(golden["out"].copy())
    wrong = 0
    for port in range(config.ports):
        valid = (words[:, port // 32] >> np.uint32(port % 32)) & np.uint32(1)
        seen = np.where(valid == 1, found.sampled(f"o__{port}").astype(np.int64), -1)
        want = np.where(expected[:, port] >= 0, expected[:, port] & mask, -1)
        wrong += int((seen != want).sum())
        wrong += int((found.sampled(f"i__{port}__ready") != golden["ready"][:, port]).sum())
    counts.add(2 * cycles * config.ports, wrong)
    golden["wrong"] = wrong
    return golden


def switch_model(config: SwitchConfig) -> Model:
    """A compiled model whose inputs, turns and columns are each compiled once: 144 ports fit."""
    switch = Switch(config)
    parts = (switch.inputs[0], switch.grants[0], switch.columns[0])
    return Model(switch, no_inline=[part.module_name for part in parts])


def wait(
    config: SwitchConfig, load: float, slots: int, *, burst: int = 1, hot: float = 0.0, seed: int = 1
) -> tuple[float, float]:
    """Mean wait [slots] beyond the time of a cell that is alone, and cells an output and slot, after warm-up."""
    cells = arrivals(config, load, slots, np.random.default_rng(seed), burst=burst, hot=hot)
    out = run(config, cells.created, cells.source, cells.targets, slots * config.slot_cycles)["out"]
    alone = run(
        config, [config.slot_cycles * config.ports + config.ports], [0], [0], 4 * config.slot_cycles * config.ports
    )
    fastest = int(np.nonzero(alone["out"][:, 0] >= 0)[0][0]) - config.slot_cycles * config.ports - config.ports
    cycle, output = np.nonzero(out >= 0)
    cell = out[cycle, output]
    warm = slots * config.slot_cycles // 4
    late = cells.created[cell] >= warm
    latency = (cycle - cells.created[cell])[late].mean()
    return float(latency - fastest) / config.slot_cycles, float((cycle >= warm).sum() / (0.75 * slots * config.ports))


def unfairness(config: SwitchConfig, slots: int) -> float:
    """Largest deviation [%] of an input's share when all inputs always want output 0, after warm-up."""
    cells = arrivals(config, 1.0, slots, np.random.default_rng(2), hot=1.0)
    out = run(config, cells.created, cells.source, cells.targets, slots * config.slot_cycles)["out"][:, 0]
    left = out[slots * config.slot_cycles // 4 :]
    share = np.bincount(cells.source[left[left >= 0]], minlength=config.ports)
    return float(abs(share * config.ports / share.sum() - 1).max() * 100)


def check(trial: Trial) -> None:
    """Uniform, bursty, hot and multicast cells; overload with full queues; order; reset."""
    config: SwitchConfig = trial.config
    model = trial.model()
    slots = 400 if trial.long else 60
    cycles = (slots + 20) * config.slot_cycles + config.ports
    patterns: dict[str, dict[str, Any]] = {
        "uniform 0.5": {"load": 0.5},
        "uniform 1.0": {"load": 1.0},
        "bursts of 8, 0.8": {"load": 0.8, "burst": 8},
        "half of it to one output": {"load": 0.9, "hot": 0.5},
    }
    for name, options in patterns.items():
        with trial.test(f"{name}: golden's cells in golden's cycles"):
            cells = arrivals(config, slots=slots, rng=trial.rng, **options)
            golden = compare(model, config, cells, cycles)
            assert not golden["wrong"], f"{golden['wrong']} outputs or readys differ"
            for output in range(config.ports):
                left = golden["out"][:, output]
                left = left[left >= 0]
                for source in range(config.ports):
                    flow = left[cells.source[left] == source]
                    assert (np.diff(flow) > 0).all(), "cells of one flow overtook each other"
    with trial.test("multicast: one copy at each target, none without"):
        count = 4 * config.ports
        sources = np.sort(trial.rng.integers(0, config.ports, count))
        copies = trial.rng.random((count, config.ports)) < 0.4
        copies[0] = False
        cells = Cells(np.full(count, config.ports, np.int64), sources, copies)
        golden = compare(model, config, cells, 40 * cycles)
        assert not golden["wrong"], f"{golden['wrong']} outputs or readys differ"
        for output in range(config.ports):
            left = golden["out"][:, output]
            assert sorted(left[left >= 0]) == np.nonzero(copies[:, output])[0].tolist()


BENCH = Bench(
    "link.switch",
    block=Switch,
    quick=(SwitchConfig(ports=5, depth=3, iterations=2, cell_bits=16),),
    long=(
        SwitchConfig(ports=4, depth=2, iterations=1),
        SwitchConfig(ports=16),
        SwitchConfig(ports=16, iterations=4, depth=64, cell_bits=40),
    ),
    check=check,
)
