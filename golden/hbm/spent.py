"""Where a trace's slots went: what the data bus did, and what it waited for when it did nothing."""

import numpy as np
from numpy.typing import NDArray

from golden.compiled import compiled
from golden.hbm.controller import ACT, REF, WR, Replay
from spec.hbm_controller import HbmControllerConfig

Ints = NDArray[np.int64]

PARTS = ("data", "turnaround", "refresh", "activate", "spacing")
"""``refresh``, ``activate``: the next access waited for its bank's REFpb, its row. ``spacing``: its row was open, or
nothing was there to send: distances between columns and stack ids, an empty window."""

DATA, TURN, REFRESH, ACTIVATE, SPACING = range(len(PARTS))


def spent(config: HbmControllerConfig, run: Replay) -> dict[str, float]:
    """Percent of the slots of all pseudo channels, by part; they add up to 100."""
    channels, slots = config.geometry.pseudo_channels, config.slots
    total = np.zeros(len(PARTS), np.int64)
    for channel in range(channels):
        mine = run.commands[run.commands[:, 1] == channel]
        opens = np.array([slots.rcd_rd, slots.rcd_wr])
        total += _spent(mine, run.slots, config.geometry.all_banks, opens, slots.rfc_pb)
    return dict(zip(PARTS, (100 * total / (run.slots * channels)).tolist(), strict=True))


@compiled
def _spent(commands: Ints, slots: int, banks: int, opens: Ints, rfc_pb: int) -> Ints:
    """Each gap before a column command belongs to what that command waited for; the rest after the last to spacing."""
    total = np.zeros(5, np.int64)
    act, freed = np.full(banks, -(1 << 30)), np.full(banks, -(1 << 30))
    before, last = -1, -1
    for k in range(len(commands)):
        slot, kind, bank = commands[k, 0], commands[k, 2], commands[k, 3]
        if kind == ACT:
            act[bank] = slot
        elif kind == REF:
            freed[bank] = slot + rfc_pb
        elif kind <= WR:
            gap = slot - before - 1
            turn = last >= 0 and kind != last
            late = slot - act[bank] <= opens[kind] + 1
            part = TURN if turn else SPACING if not late else REFRESH if act[bank] - freed[bank] <= 2 else ACTIVATE
            total[DATA] += 1
            total[part] += gap
            before, last = slot, kind
    total[SPACING] += slots - 1 - before
    return total
