"""Figures of the HBM controller: bus utilisation of every trace beside target, bound and peers, latency, refresh.

Every trace is played through the RTL of a whole channel (two pseudo channels behind one player) in the compiled model.
Each command has to be golden's in the same slot and legal for the device model, or the bench stops. Figures marked
*model* are golden's alone; they vary a parameter that the RTL's commands do not depend on in any other way.
"""

import time
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from golden.hbm.bound import bound
from golden.hbm.calendar import check
from golden.hbm.controller import REF, WR, lines_of, replay
from golden.hbm.device import Device
from golden.hbm.spent import spent
from spec.hbm import LINE_ACCESSES, SLOT_CK
from spec.hbm_controller import HbmControllerConfig
from spec.results import Record
from verif.harness.model import Model
from verif.hbm.player import HbmPlayer
from verif.hbm.replay import FIRST_OFFER, expected, first_difference, run
from verif.hbm.traces import DEFAULT_BYTES, TRACES, best_peer, lines

Ints = NDArray[np.int64]

CONFIG = HbmControllerConfig()
"""The size all figures are of: 64 lines (128 accesses) of reads and 128 lines of writes a pseudo channel."""

TARGETS = {
    "seq_read": 98, "seq_write": 98, "dma16_2048_rand": 97, "gather_2048": 97, "dma16_2048_pow2": 95,
    "dma16_512_rand": 95, "dma16_512_pow2": 95, "dma16_2048_rw": 95, "dma16_512_rw": 92, "triad_4096": 95,
    "triad_512": 92, "triad_64": 88, "gemm_tile": 95, "gemm_tile_rw": 90, "rand_1024": 95, "rand_512": 93,
    "rand_256": 92, "rand_64": 64, "rand_64_rw": 55,
}  # fmt: skip
"""Percent of the bus; strides have ``STRIDE_TARGET``, the others must be above every peer."""

STRIDE_TARGET = 60
MOST_OWED = CONFIG.refresh_urgent + CONFIG.geometry.all_banks
NEAR_BOUND = 3.0
LOAD = 0.8
SAME_DEPTH = 64
"""Entries of a channel in the peers' default: 16 lines a pseudo channel of ours."""

DEPTHS = (4, 8, 16, 32, 64)
BUFFERS = (8, 16, 32, 64, 128, 256)
SWEPT = ("dma16_512_rand", "rand_256", "triad_512", "dma16_2048_rw")


def bench_hbm(total: int = DEFAULT_BYTES, names: Iterable[str] = tuple(TRACES)) -> list[Record]:
    """All figures; ``total`` bytes a trace."""
    player = HbmPlayer(CONFIG)
    records = []
    with Model(player, no_inline=[player.schedulers[0].module_name]) as model:
        for name in names:
            records += _trace(model, name, total)
        records.append(
            Record("hbm", "RTL in simulation, two pseudo channels", round(model.cycles / model.seconds), "slots/s")
        )
    return [*records, *_speed(total), *_depths(total // 4)]


def _target(name: str) -> float:
    peer = best_peer(name)
    above = round(100 * peer.utilisation, 2) if peer else 0.0
    return TARGETS.get(name, STRIDE_TARGET if name.startswith("stride") else above)


def _trace(model: Model, name: str, total: int) -> list[Record]:
    addresses, writes = lines(name, total)
    golden = replay(CONFIG, addresses, writes, np.full(len(addresses), FIRST_OFFER))
    model.power_on()
    commands, owed = run(model, CONFIG, addresses, writes, golden.slots)
    difference = first_difference(commands, expected(CONFIG, golden, addresses, writes))
    if difference:
        raise AssertionError(f"{name}: {difference}")
    check(Device(CONFIG.timing, CONFIG.geometry), commands, golden.slots)

    reached = 100 * np.count_nonzero(commands[:, 2] <= WR) / (2 * golden.slots)
    limit = bound(CONFIG, addresses, writes)
    peer, rival = best_peer(name), best_peer(name, "HBM3", SAME_DEPTH)
    beside = [f"bound {100 * limit.utilisation:.1f} ({limit.limit})"]
    for label, other in (("HBM3, 64 entries", rival), ("any", peer)):
        if other:
            beside.append(f"best peer {label}: {100 * other.utilisation:.1f} ({other.name} {other.standard})")
    latency = _latency(addresses, writes)
    plain = replay(CONFIG.replace(in_order=True), *(part[: len(part) // 16] for part in (addresses, writes)))
    same = replay(_at(16, 32), addresses, writes)
    due = golden.slots * SLOT_CK * CONFIG.geometry.all_banks // CONFIG.timing.t_refi
    missing = sum(
        due - owed[p] - np.count_nonzero((commands[:, 1] == p) & (commands[:, 2] == REF)) for p in range(len(owed))
    )

    def record(figure: str, value: float, unit: str, target: float | None = None, better: str = "higher") -> Record:
        return Record("hbm", f"{name}: {figure}", round(float(value), 2), unit, target, "; ".join(beside), better)

    rows = [
        record("bus utilisation", reached, "%", _target(name)),
        record("below the bound", 100 * limit.utilisation - reached, "points", NEAR_BOUND, "lower"),
        record("reordering off (model)", 100 * plain.utilisation(), "%"),
        record("at the peers' 64 entries a channel (model)", 100 * same.utilisation(), "%",
               round(100 * rival.utilisation, 2) if rival else None),
        record("refreshes missing", int(missing), "", 0, "lower"),
        record("refreshes owed at the end", int(owed.max()), "", MOST_OWED, "lower"),
        *(record(f"time, {part}", value, "%") for part, value in spent(CONFIG, golden).items()),
    ]  # fmt: skip
    if latency:
        p99, worst = latency
        rows += [
            record("p99 read latency at 80 % load (model)", p99, "ns"),
            record("longest (model)", worst, "ns", _proven(), "lower"),
        ]
    return rows


def _proven() -> float:
    """Nanoseconds no read waits longer than.

    A read is the oldest for at most ``age_limit`` slots, then no other read passes it: the write batch ends, its bank
    closes (after tWR at worst), opens and is read. An urgent refresh of the bank may come first, and a second one where
    a round of refreshes ends and the next begins; a third has to wait for all other banks. Each read before it may need
    as long.
    """
    s = CONFIG.slots
    refreshes = 2 * (s.rfc_pb + s.rrefd)
    service = s.wtr_l + s.wr_pre + s.rp + s.rc + refreshes + s.faw + s.rcd_rd + 8
    slots = CONFIG.read_lines * (CONFIG.age_limit + service)
    return slots * SLOT_CK * CONFIG.timing.ck_ps / 1000


def _latency(addresses: Ints, writes: Ints) -> tuple[float, float] | None:
    """p99 and maximum of acceptance to last data of reads, in ns, when lines come at ``LOAD`` of the bus."""
    if writes.all():
        return None
    arrive = (np.arange(len(addresses)) * LINE_ACCESSES / (CONFIG.geometry.pseudo_channels * LOAD)).astype(np.int64)
    result = replay(CONFIG, addresses, writes, arrive)
    waits = (result.finished - result.accepted + CONFIG.slots.read_latency)[writes == 0] * SLOT_CK
    nanoseconds = waits * CONFIG.timing.ck_ps / 1000
    return float(np.percentile(nanoseconds, 99)), float(nanoseconds.max())


def _at(reads: int, writes: int) -> HbmControllerConfig:
    """``CONFIG`` with other depths and the same proportions."""
    high = max(writes * CONFIG.high_water // CONFIG.write_lines, 2)
    low, prepare = (max(writes * part // CONFIG.write_lines, 1) for part in (CONFIG.low_water, CONFIG.prepare))
    return CONFIG.replace(read_lines=reads, write_lines=writes, high_water=high, low_water=low, prepare=prepare)


def _depths(total: int) -> list[Record]:
    """Utilisation against the depth of window and buffer."""
    records = []
    for name in SWEPT:
        for label, values in (("read window", DEPTHS), ("write buffer", BUFFERS)):
            for depth in values:
                config = _at(depth, CONFIG.write_lines) if label == "read window" else _at(CONFIG.read_lines, depth)
                value = 100 * replay(config, *lines(name, total)).utilisation()
                records.append(Record("hbm", f"{name}: {label} of {depth} lines (model)", round(value, 2), "%"))
    return records


def _speed(total: int) -> list[Record]:
    addresses, writes = lines("triad_512", total)
    lines_of(CONFIG, addresses, writes)
    started = time.process_time()
    replay(CONFIG, addresses, writes)
    speed = len(addresses) * LINE_ACCESSES / (time.process_time() - started)
    return [Record("hbm", "golden", round(speed), "accesses/s", 200_000)]
