"""Bench of the HBM scheduler: every command of a channel is golden's in the same slot, and legal for the device."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.hbm.calendar import check as check_device
from golden.hbm.controller import REF, WR, Replay, replay
from golden.hbm.device import Device, DeviceError
from spec.hbm import HBM3E_9600, LINE_BYTES, HbmGeometry
from spec.hbm_controller import SMALL_CHANNEL, HbmControllerConfig
from verif.harness import counts
from verif.harness.bench import Bench, Trial
from verif.harness.coverage import CoverGroup
from verif.hbm.player import HbmPlayer
from verif.hbm.replay import FIRST_OFFER, expected, first_difference, run

Ints = NDArray[np.int64]

TRAFFIC = {
    # longest run of lines, share of writes, lines of the channel that are used (0: all)
    "rows hit": (40, 0.0, 0),
    "rows miss": (1, 0.0, 0),
    "writes": (8, 1.0, 0),
    "mixed": (12, 0.3, 0),
    "same places": (3, 0.5, 24),
}

COVER = CoverGroup(
    "hbm.scheduler",
    {
        "traffic": tuple(TRAFFIC),
        "command": ("RD", "WR", "ACT", "PRE", "REF"),
        "turn": ("read to write", "write to read"),
        "reset": ("under load",),
        "order": ("any", "of arrival"),
    },
)

SMALL = HbmControllerConfig(
    geometry=SMALL_CHANNEL,
    read_lines=4,
    write_lines=8,
    high_water=7,
    low_water=1,
    prepare=2,
    age_limit=60,
    refresh_ahead=4,
    refresh_urgent=6,
)


def traffic(config: HbmControllerConfig, name: str, count: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """``count`` lines in runs: addresses and writes."""
    longest, share, span = TRAFFIC[name]
    total = span or config.geometry.channel_bytes // LINE_BYTES
    runs = [(rng.integers(total) + np.arange(rng.integers(1, longest + 1)), rng.random() < share) for _ in range(count)]
    places = np.concatenate([places for places, _ in runs])[:count] % total
    writes = np.concatenate([np.full(len(places), write) for places, write in runs])[:count]
    return places * LINE_BYTES, writes.astype(np.int64)


def check(trial: Trial) -> None:
    """Kinds of traffic, each from power-on; reset under load; planted faults."""
    config: HbmControllerConfig = trial.config
    model = trial.model()
    count = 3_000 if trial.long else 600
    COVER.hit(order="of arrival" if config.in_order else "any")
    wanted: Any = None
    golden: Replay | None = None
    commands: Any = None
    for name in TRAFFIC:
        with trial.test(name):
            addresses, writes = traffic(config, name, count, trial.rng)
            golden = replay(config, addresses, writes, np.full(count, FIRST_OFFER))
            model.power_on()
            commands, owed = run(model, config, addresses, writes, golden.slots)
            wanted = expected(config, golden, addresses, writes)
            compare(commands, wanted)
            assert (owed == golden.owed).all(), f"refreshes owed: RTL {owed}, golden {golden.owed}"
            check_device(Device(config.timing, config.geometry), commands, golden.slots)
            _cover(name, commands)
            trial.row.utilisation = golden.utilisation()

    with trial.test("reset under load forgets everything"):
        addresses, writes = traffic(config, "mixed", count, trial.rng)
        golden = replay(config, addresses, writes, np.full(count, FIRST_OFFER))
        model.power_on()
        run(model, config, addresses, writes, golden.slots // 2)
        model.run(limit=1, resets=[(0, 1)])
        commands, _ = run(model, config, addresses, writes, golden.slots)
        wanted = expected(config, golden, addresses, writes)
        compare(commands, wanted)
        COVER.hit(reset="under load")

    with trial.test("planted faults are noticed"):
        assert golden is not None
        notices(config, commands, wanted, golden.slots)


def compare(commands: Ints, wanted: Ints) -> None:
    """Every command equal, or an assertion that names the first that is not."""
    difference = first_difference(commands, wanted)
    counts.add(len(wanted), 1 if difference else 0)
    assert difference is None, difference


def notices(config: HbmControllerConfig, commands: Ints, wanted: Ints, slots: int) -> None:
    """Dropped, late, doubled and wrong commands are noticed; the device notices a row command left out."""
    middle = len(commands) // 2
    late = commands.copy()
    late[middle, 0] += 1
    wrong = [commands.copy() for _ in range(3, commands.shape[1])]
    for field, one in enumerate(wrong, 3):
        one[middle, field] ^= 1
    dropped = np.delete(commands, middle, axis=0)
    doubled = np.insert(commands, middle, commands[middle], axis=0)
    for fault in (late, *wrong, dropped, doubled, np.zeros_like(commands)):
        assert first_difference(fault, wanted), "a planted fault went unnoticed"
    act = np.flatnonzero(commands[:, 2] == 2)[-4]
    try:
        check_device(Device(config.timing, config.geometry), np.delete(commands, act, axis=0), slots)
    except DeviceError:
        return
    raise AssertionError("the device took column commands of a row that was never opened")


def _cover(name: str, commands: Ints) -> None:
    COVER.hit(traffic=name)
    for kind in np.unique(commands[:, 2]):
        COVER.hit(command=("RD", "WR", "ACT", "PRE", "REF")[kind])
    assert REF in commands[:, 2]
    columns = commands[(commands[:, 1] == 0) & (commands[:, 2] <= WR)][:, 2]
    turns = np.diff(columns)
    if (turns == 1).any():
        COVER.hit(turn="read to write")
    if (turns == -1).any():
        COVER.hit(turn="write to read")


BENCH = Bench(
    "hbm.scheduler",
    quick=(SMALL, SMALL.replace(in_order=True)),
    long=(
        SMALL.replace(timing=HBM3E_9600, read_lines=7, write_lines=11, refresh_ahead=0, refresh_urgent=1),
        SMALL.replace(hashed=False, read_lines=16, geometry=HbmGeometry(sids=1, groups=4, banks=2, rows=64)),
    ),
    block=HbmPlayer,
    check=check,
    cover=COVER,
)
