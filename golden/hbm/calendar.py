"""From a controller's slots to command clocks: when each logged command stands on the channel's buses."""

import numpy as np
from numpy.typing import NDArray

from golden.hbm.device import Command, Device
from spec.hbm import SLOT_CK
from spec.hbm_controller import ACTIVATE_PHASE, COLUMN_PHASES, HALF, PRECHARGE_PHASE

Ints = NDArray[np.int64]


def times(commands: Ints) -> Ints:
    """Half CK of each command, rows of (slot, pseudo channel, kind, …) with the slots counted for the whole channel."""
    slot, channel, kind = commands[:, 0], commands[:, 1], commands[:, 2]
    column = np.array(COLUMN_PHASES)[channel]
    phase = np.where(kind <= Command.WR.value, column, ACTIVATE_PHASE)
    return slot * (SLOT_CK * HALF) + np.where(kind == Command.PRE.value, PRECHARGE_PHASE, phase)


def check(device: Device, commands: Ints, slots: int) -> None:
    """Give a whole log to ``device``, in order of time, and finish it after ``slots``."""
    when = times(commands)
    order = np.argsort(when, kind="stable")
    kinds = list(Command)
    for time, (_, channel, kind, bank, place, *_) in zip(when[order].tolist(), commands[order].tolist(), strict=True):
        device.command(time, channel, kinds[kind], bank, place)
    device.finish(slots * SLOT_CK * HALF)
