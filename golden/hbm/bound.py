"""What no scheduler with these windows could exceed on a trace: bounds that follow from the standard's timings alone.

Each is a lower bound on the slots a pseudo channel needs; the utilisation bound is data slots over the largest of them.

*Balance*: every access takes a slot of its own pseudo channel.

*Activation*: four ACT a tFAW. The windows hold ``held`` lines, so a line that is more than ``held`` places behind
another of its pseudo channel is sent after it. Two lines of one row between which a third line of the same bank, more
than ``held`` places from both, wants another row cannot share an ACT: the row is closed in between. So the lines of
each row fall into runs, cut wherever a third line forces it, and each run needs an ACT of its own (its first line and
the first line of the next run are sent before and after the third one).

*Row cycle*: a bank's own ACTs are tRC apart, counted in the same way, and its refreshes take tRFCpb each tREFI.

*Turnaround*: reads pending are at most the read window, writes at most the write buffer. Starting a write batch as late
and ending it as late as the order of the trace then allows gives the fewest round trips; each costs tRTW and tWTR_S.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from golden.compiled import compiled
from golden.hbm.controller import lines_of
from spec.hbm import LINE_ACCESSES, SLOT_CK
from spec.hbm_controller import HbmControllerConfig

Ints = NDArray[np.int64]

ACTS = 4
"""Activations a tFAW may hold."""


@dataclass(frozen=True)
class Bound:
    """Slots each limit alone takes, of the pseudo channel where it takes longest, and the bound they give together."""

    balance: float
    activation: float
    row_cycle: float
    turnaround: float
    accesses: int
    channels: int

    @property
    def slots(self) -> float:
        """Slots that no scheduler can undercut."""
        return max(self.balance, self.activation, self.row_cycle, self.turnaround)

    @property
    def utilisation(self) -> float:
        """Bus utilisation that no scheduler can exceed."""
        return self.accesses / (self.channels * self.slots)

    @property
    def limit(self) -> str:
        """Name of the limit that binds."""
        return max(("balance", "activation", "row_cycle", "turnaround"), key=lambda name: float(getattr(self, name)))


def bound(config: HbmControllerConfig, addresses: Ints, writes: Ints) -> Bound:
    """The bound of a trace for the map, timings and window sizes of ``config``."""
    lines = lines_of(config, addresses, writes)
    t, channels = config.timing, config.geometry.pseudo_channels
    limits = np.zeros((channels, 4))
    for channel in range(channels):
        mine = lines[lines[:, 0] == channel]
        data = LINE_ACCESSES * len(mine)
        activations = _activations(config, mine)
        trips = _round_trips(mine[:, 4], config.read_lines, config.write_lines)
        lost = (t.t_rtw + t.t_wtr_rd_s) / SLOT_CK - 2
        away = 1 - t.t_rfc_pb / t.t_refi
        limits[channel] = (
            data,
            max(0, activations.sum() - ACTS) * t.t_faw / ACTS / SLOT_CK,
            max(0, activations.max(initial=0) - 1) * t.t_rc / SLOT_CK / away,
            data + trips * lost,
        )
    balance, activation, row_cycle, turnaround = limits.max(axis=0).tolist()
    return Bound(balance, activation, row_cycle, turnaround, LINE_ACCESSES * len(lines), channels)


def _activations(config: HbmControllerConfig, lines: Ints) -> Ints:
    """Activations each bank must have at least."""
    held = (config.read_lines + 1) * bool((lines[:, 4] == 0).any()) + (config.write_lines + 1) * bool(lines[:, 4].any())
    needed = np.zeros(config.geometry.all_banks, np.int64)
    for bank in range(len(needed)):
        position = np.flatnonzero(lines[:, 1] == bank)
        order = np.argsort(lines[position, 2], kind="stable")
        row, line = lines[position[order], 2], position[order]
        same = row[1:] == row[:-1]  # neighbours here are the row's lines in the order of the trace
        after = np.searchsorted(position, line[:-1] + held, "right")
        before = np.searchsorted(position, line[1:] - held, "left")
        needed[bank] = len(line) - np.count_nonzero(same & (after >= before))
    return needed


@compiled
def _round_trips(write: Ints, reads: int, buffer: int) -> int:
    """Fewest changes from reading to writing and back that get ``write`` (1 for a write, in order) through."""
    trips, at = 0, 0
    while at < len(write):
        pending = 0
        while at < len(write) and pending + write[at] <= buffer + 1:
            pending += write[at]
            at += 1
        if pending == 0 or at == len(write):
            break
        trips += 1
        waiting = 0
        while at < len(write) and waiting + 1 - write[at] <= reads + 1:
            waiting += 1 - write[at]
            at += 1
    return trips
