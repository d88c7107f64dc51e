"""Weights and images go into an HBM channel and come back; every command that moved them, with its time.

    python -m examples.memory

The network of ``examples/digits.npz`` and the images it is tested on are written line after line, then read. The
controller is the cycle-exact model, which the bench ``hbm.scheduler`` holds to RTL command for command; the device
checks each command against the timing set and keeps the bytes.
"""

import dataclasses
from pathlib import Path

import numpy as np

from golden.hbm.calendar import times
from golden.hbm.controller import Replay, replay
from golden.hbm.device import Command, Device
from spec.hbm import ACCESS_BYTES, LINE_ACCESSES, LINE_BYTES, SLOT_CK
from spec.hbm_controller import HALF, HbmControllerConfig

NETWORK = Path(__file__).with_name("digits.npz")
SHOWN = 24
"""Commands printed at the start and around the turn from writing to reading."""


@dataclasses.dataclass(frozen=True)
class Trip:
    """What went in, what came back, and the run between."""

    sent: bytes
    received: bytes
    run: Replay
    device: Device


def tensors() -> bytes:
    """Both weight matrices in bf16 and 360 images of 8x8 grey values, filled up to whole lines."""
    from sklearn.datasets import load_digits

    network = np.load(NETWORK)
    images = np.asarray(load_digits().images[-360:], np.uint8)
    content = network["first"].tobytes() + network["second"].tobytes() + images.tobytes()
    return content + bytes(-len(content) % LINE_BYTES)


def stream(config: HbmControllerConfig, content: bytes) -> Trip:
    """Write ``content`` from address 0 on, read it again, through controller and device."""
    count = len(content) // LINE_BYTES
    addresses = np.tile(np.arange(count) * LINE_BYTES, 2)
    run = replay(config, addresses, np.repeat([1, 0], count))
    device = Device(config.timing, config.geometry)
    received = bytearray(len(content))
    when = times(run.commands)
    kinds = list(Command)
    for at in np.argsort(when, kind="stable"):
        _, channel, kind, bank, place, line = run.commands[at].tolist()
        start = line % count * LINE_BYTES + place % LINE_ACCESSES * ACCESS_BYTES
        if kinds[kind] is Command.RD:
            received[start : start + ACCESS_BYTES] = device.read(int(when[at]), channel, bank, place)
        else:
            data = content[start : start + ACCESS_BYTES] if kinds[kind] is Command.WR else None
            device.command(int(when[at]), channel, kinds[kind], bank, place, data)
    device.finish(run.slots * SLOT_CK * HALF)
    return Trip(content, bytes(received), run, device)


def timeline(config: HbmControllerConfig, run: Replay, first: int, count: int = SHOWN) -> list[str]:
    """``count`` commands from number ``first`` on, in order of time: row bus on the left, column bus on the right."""
    when = times(run.commands)
    shown = []
    for at in np.argsort(when, kind="stable")[first : first + count]:
        _, channel, kind, bank, place, _ = run.commands[at].tolist()
        name = list(Command)[kind]
        column = name in (Command.RD, Command.WR)
        what = f"{name.name:5} bank {bank:2}"
        what += f" column {place:2}" if column else f" row {place}" if name is Command.ACT else ""
        nanoseconds = when[at] * config.timing.ck_ps / (1000 * HALF)
        shown.append(
            f"{nanoseconds:9.2f} ns  pc {channel}  {'' if column else what:24}{what if column else ''}".rstrip()
        )
    return shown


def main() -> None:
    """Print the trip."""
    config = HbmControllerConfig()
    trip = stream(config, tensors())
    order = np.argsort(times(trip.run.commands), kind="stable")
    first_read = int(np.flatnonzero(trip.run.commands[order, 2] == Command.RD.value)[0])
    print(f"{len(trip.sent)} bytes of weights and images, written and read\n")
    print(*timeline(config, trip.run, 0), "        ...", sep="\n")
    print(*timeline(config, trip.run, first_read - SHOWN // 2), "        ...", sep="\n")
    issued = ", ".join(f"{count} {kind.name}" for kind, count in trip.device.issued.items() if count)
    microseconds = trip.run.slots * SLOT_CK * config.timing.ck_ps / 1e6
    verdict = "the same bytes came back" if trip.received == trip.sent else "BYTES DIFFER"
    print(f"\n{issued}\n{microseconds:.2f} us, {100 * trip.run.utilisation():.1f} % of the bus; {verdict}")


if __name__ == "__main__":
    main()
