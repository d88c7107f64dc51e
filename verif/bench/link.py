"""Figures of NeuronLink: load-latency of the torus beside BookSim 2, goodput of the link, wait in the switch.

A load is searched with the cycle-exact model; then the RTL runs at that load in the compiled model, and every flit on
every link has to be the model's in the same cycle, or the bench stops.
"""

import functools
import itertools
import time
from collections.abc import Callable

import numpy as np

from golden.link import flow
from golden.link.link import goodput_bound
from golden.link.router import run
from golden.link.traffic import PATTERNS, Traffic, bernoulli, transfers
from hdl.link.link import LinkPair
from spec.link import LinkConfig, RouterConfig, SwitchConfig
from spec.results import Record
from spec.topology import Kind, Torus
from verif.harness.model import Model
from verif.harness.packing import to_words
from verif.link.curves import Peer, Point, bound, peers, point, port_bound, saturation
from verif.link.layer import flips
from verif.link.replay import fabric_model, replay
from verif.link.switch import arrivals, compare, switch_model, unfairness, wait

CYCLES = {2: 20_000, 3: 6_000}
"""Length of one run of the search, by dimensions: as many packets each, so equally steady means."""

ZERO_CYCLES = 40_000
"""Length of the run at the lowest load."""

RTL_CYCLES = {2: 2_000, 3: 400}
"""Length of the run on RTL."""

UNIFORM = {4: 0.90, 8: 0.95}
"""Channels -> load of 8-flit packets that uniform traffic shall reach."""

TRANSPOSE = {2: 0.80, 3: 0.55}
"""Dimensions -> load that the adaptive kind shall reach on transpose."""

NO_WORSE = 0.97
"""Part of dimension order's load that the adaptive kind shall reach where dimension order is as good as can be."""

FLOW_PACKETS = {2: 256, 3: 128}
"""Packets each chip sends in a set of transfers, by dimensions."""

FLOW_ERROR = 5
FLOW_CYCLES = 100_000
ENDLESS = 1_000_000
BOOKSIM_RATE = 10_359
"""Cycles BookSim 2 simulates in a second of processor time: 4x4x4, uniform, 4 channels, 8-flit packets, load 0.1."""

HOP_CYCLES = 2
RATES = (1e-6, 1e-4, 1e-3)


SWITCH_SLOTS = {16: 100_000, 64: 40_000, 144: 40_000}
"""Slots of one run of the switch, a quarter of them warm-up; the reference simulated 15,000."""

SWITCH_RTL_SLOTS = {16: 400, 64: 400, 144: 40}
"""Slots of each run on RTL, at full load, by ports."""

Figure = functools.partial(Record, "link.router")


def bench_link(dimensions: tuple[int, ...] = (2, 3)) -> list[Record]:
    """All figures: about 40 minutes of processor time, most of it compiling six tori and the switch of 144 ports."""
    records = _latency() + _narrow() + _goodput() + _switch() + _flow()
    for size in dimensions:
        records += _adaptive(size) + _uniform(size)
    for peer in peers():
        if peer.dimensions in dimensions:
            records += _row(peer)
    return records


@functools.cache
def _model(config: RouterConfig) -> Model:
    return fabric_model(config)


def _on_rtl(config: RouterConfig, pattern: str, load: float, flits: int, kind: Kind = Kind.FREE) -> float:
    """Flits a chip and cycle that RTL accepted at ``load``, after having been equal to the model in every cycle."""
    cycles = RTL_CYCLES[config.torus.dimensions]
    traffic = bernoulli(config.torus, pattern, load, cycles, flits=flits, kind=kind)
    found = replay(_model(config), config, traffic, cycles)
    if found.mismatches:
        raise AssertionError(f"{pattern} at {load}: RTL is not the model: {found.first}")
    return found.flits / cycles / config.torus.nodes


def _measure(config: RouterConfig, pattern: str, flits: int, kind: Kind = Kind.FREE) -> Callable[[float], Point]:
    cycles = CYCLES[config.torus.dimensions]
    return functools.cache(lambda load: point(config, pattern, load, flits, kind=kind, cycles=cycles))


def _row(peer: Peer) -> list[Record]:
    """One row of the reference: zero load, saturation at the peer's latency and at our own, what RTL accepts there."""
    config = peer.config()
    measure = _measure(config, peer.pattern, peer.flits)
    zero = point(config, peer.pattern, 0.002, peer.flits, cycles=ZERO_CYCLES).latency
    theirs, ours = 3 * peer.zero_load, 3 * zero
    high = port_bound(config.torus, peer.pattern)
    load = saturation(measure, theirs, high=high)
    own = saturation(measure, ours, high=high)
    unit, half = "flits/chip/cycle", peer.zero_load / 2
    note = f"BookSim 2: {peer.saturation}; links and ports allow {bound(config.torus, peer.pattern):.4f}"
    budget = f"{note}; in {ours:.0f} cycles, not {theirs:.0f}"
    accepted = round(_on_rtl(config, peer.pattern, load, peer.flits), 4)
    return [
        Figure(f"{peer.name}: zero-load latency", round(zero, 2), "cycles", half, "half of BookSim 2's", "lower"),
        Figure(f"{peer.name}: load at BookSim's 3x zero-load latency", round(load, 4), unit, peer.saturation, note),
        Figure(f"{peer.name}: load at our own 3x zero-load latency", round(own, 4), unit, peer.saturation, budget),
        Figure(f"{peer.name}: RTL accepts there, flit for flit as the model", accepted, unit),
    ]


def _latency() -> list[Record]:
    """Cycles of one more hop at zero load, link included, on RTL."""
    config = RouterConfig(torus=Torus(sizes=(8,)), flit_bits=24, channels=2, escape_channels=2)
    arrivals_of = {}
    for target in (1, 3):
        found = replay(_model(config), config, Traffic.of([5], [0], [target]), 60)
        if found.mismatches:
            raise AssertionError(found.first)
        arrivals_of[target] = int(found.delivered[0])
    hop = (arrivals_of[3] - arrivals_of[1]) / 2
    return [
        Figure("latency of a hop at zero load, link included", hop, "cycles", HOP_CYCLES, "BookSim 2: 6.3", "lower")
    ]


def _narrow() -> list[Record]:
    """Uniform traffic on 4x4x4 whose third dimension is half as wide; its links allow a load of 1 too."""
    config = Peer(3, 4, 8, 8, "uniform", 0, 0, 0).config().replace(torus=Torus(sizes=(4, 4, 4), cycles=(1, 1, 2)))
    found = point(config, "uniform", 1.0, 8, cycles=CYCLES[3])
    note = f"links and ports allow {bound(config.torus, 'uniform'):.4f}"
    name = "4x4x4 uniform, third dimension of half the width, 4 channels, 8-flit packets: accepted at full load"
    return [Figure(name, round(found.accepted, 4), "flits/chip/cycle", reference=note)]


def _flow() -> list[Record]:
    """The flow-level model: its error on the time of a set of transfers, and how fast it is."""
    records = []
    for dimensions, channels in itertools.product((2, 3), (2, 4, 8)):
        config = Peer(dimensions, channels, 8, 8, "", 0, 0, 0).config()
        errors = {}
        for pattern in PATTERNS:
            traffic = transfers(config.torus, pattern, FLOW_PACKETS[dimensions])
            exact = run(config, traffic, ENDLESS, stop=traffic.created.size)["delivered"]
            found = flow.run(config, traffic, ENDLESS)["delivered"]
            if min(exact.min(), found.min()) < 0:
                raise AssertionError(f"{pattern}: a packet never arrived")
            errors[pattern] = 100 * (int(found.max()) / int(exact.max()) - 1)
        worst = max(errors, key=lambda pattern: abs(errors[pattern]))
        name = f"{'x'.join(['4'] * dimensions)}, {channels} channels: flow-level model, largest error of seven patterns"
        note = f"at {worst}; others at most {sorted(map(abs, errors.values()))[-2]:.1f}"
        records.append(Figure(name, round(abs(errors[worst]), 1), "%", FLOW_ERROR, note, "lower"))
    traffic = bernoulli(config.torus, "uniform", 0.1, FLOW_CYCLES, flits=8)
    started = time.process_time()
    flow.run(config, traffic, FLOW_CYCLES)
    rate = FLOW_CYCLES / (time.process_time() - started)
    note = f"BookSim 2: {BOOKSIM_RATE:,} on a core as fast"
    name = "flow-level model of 4x4x4 at load 0.1"
    return [*records, Figure(name, round(rate), "cycles/s", 20 * BOOKSIM_RATE, note)]


def _adaptive(dimensions: int) -> list[Record]:
    """The adaptive kind with two escape lanes of four: transpose past dimension order's bound, the rest no worse."""
    config = Peer(dimensions, 4, 8, 8, "transpose", 0, 0, 0).config(escape_channels=2)
    records = []
    for flits, pattern in itertools.product((1, 8), ("transpose", "uniform", "tornado")):
        measure = _measure(config, pattern, flits, Kind.ADAPTIVE)
        threshold = 3 * measure(0.02).latency
        load = saturation(measure, threshold)
        plain = saturation(_measure(config.replace(escape_channels=4), pattern, flits), threshold)
        target = TRANSPOSE[dimensions] if pattern == "transpose" else round(NO_WORSE * plain, 4)
        note = f"dimension order: {plain:.4f} measured, bound {bound(config.torus, pattern):.3f}"
        name = f"{'x'.join(['4'] * dimensions)} {pattern}, adaptive kind, 4 channels, {flits}-flit packets: load at 3x"
        records.append(Figure(name, round(load, 4), "flits/chip/cycle", target, note))
        if pattern == "transpose":
            _on_rtl(config, pattern, load, flits, Kind.ADAPTIVE)
    return records


def _uniform(dimensions: int) -> list[Record]:
    """What uniform traffic of 8-flit packets gets through when every chip offers all it can."""
    records = []
    for peer in peers():
        if (peer.dimensions, peer.flits, peer.pattern) == (dimensions, 8, "uniform") and peer.channels in UNIFORM:
            full = point(peer.config(), "uniform", 1.0, 8, cycles=CYCLES[dimensions]).accepted
            note, unit = f"BookSim 2: {peer.accepted:.4f}", "flits/chip/cycle"
            records.append(
                Figure(f"{peer.name}: accepted at full load", round(full, 4), unit, UNIFORM[peer.channels], note)
            )
    return records


def _goodput() -> list[Record]:
    """Payloads a cycle through the RTL of a link at each bit error rate, all of them checked."""
    config, cycles = LinkConfig(), 20_000
    model, rng, records = Model(LinkPair(config)), np.random.default_rng(1), []
    items = list(range(cycles))
    for rate in RATES:
        model.power_on()
        found = model.run(
            {"i__0": to_words(items, config.payload_bits)},
            drive={f"flips__{n}": flips(rng, config, rate, cycles) for n in range(2)},
            expect={"o__0": cycles},
            limit=cycles,
        ).values("o__0")
        if found != items[: len(found)]:
            raise AssertionError(f"at bit error rate {rate} a payload was lost, doubled or out of order")
        note = f"go-back-N, round trip of {config.round_trip} cycles: at most {goodput_bound(config, rate):.4f}"
        figure = f"goodput at bit error rate {rate:g}"
        records.append(Record("link.link", figure, round(len(found) / cycles, 4), "payloads/cycle", reference=note))
    model.close()
    return records


def _switch() -> list[Record]:
    """Wait and throughput of the cycle-exact model, and RTL of the same size beside it, uniform and in bursts."""
    records = []
    for ports, slots in SWITCH_SLOTS.items():
        config = SwitchConfig(ports=ports, depth=256)
        name = f"{ports} ports, {config.iterations} iterations"
        waited = wait(config, 0.9, slots)[0]
        ideal = "ideal iSLIP with endless queues, 4 iterations: 9.7 to 10.0 slots; 1 iteration: 114 to 580"
        uniform, bursts = wait(config, 1.0, slots)[1], wait(config, 1.0, slots, burst=8)[1]
        unfair = round(unfairness(config, slots), 2)
        records += [
            Record("link.switch", f"{name}: mean wait at load 0.9", round(waited, 2), "slots", 10, ideal, "lower"),
            Record("link.switch", f"{name}: uniform, full load", round(100 * uniform, 2), "% of line rate", 99),
            Record("link.switch", f"{name}: bursts of 8, full load", round(100 * bursts, 2), "% of line rate", 95),
            Record("link.switch", f"{name}: unfairness at a hot output", unfair, "%", 2, better="lower"),
            *_switch_rtl(config, name),
        ]
    return records


def _switch_rtl(config: SwitchConfig, name: str) -> list[Record]:
    """Every output and every ready of RTL against the model, in every cycle."""
    slots = SWITCH_RTL_SLOTS[config.ports]
    cycles, wrong, compared = slots * config.slot_cycles + config.ports, 0, 0
    with switch_model(config) as model:
        for burst in (1, 8):
            cells = arrivals(config, 1.0, slots, np.random.default_rng(burst), burst=burst)
            wrong += compare(model, config, cells, cycles)["wrong"]
            compared += 2 * cycles * config.ports
        speed = round(model.cycles / model.seconds)
    note = f"{compared:,} values compared, uniform and bursts of 8 at full load"
    return [
        Record("link.switch", f"{name}: RTL values that differ from the model", wrong, "values", 0, note, "lower"),
        Record("link.switch", f"{name}: RTL", speed, "cycles/s"),
    ]
