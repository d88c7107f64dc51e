"""Cycle-exact time model of the HBM controller: the same command in the same slot as ``hdl.hbm.scheduler``.

``replay`` runs lines through one channel (its pseudo channels side by side, lines handed over in order, head of line)
and returns every command. The policy, slot by slot, every decision taken on the state at the start of the slot;
*batch* is the direction (reads or writes) that owns the column bus, and both windows keep their lines in order of
arrival:

*Column* (every slot). The oldest line of the batch whose row is open and whose timers have run out; lower column first.

*ACT* (even slots). A refresh that is urgent and ready; else the oldest line of the batch whose bank is closed; else,
when the batch is about to end, the oldest such line of the other direction whose bank no line of the batch wants; else
a refresh that is aimed and ready.

*PRE* (odd slots). The oldest line of the batch that finds another row open which no line of the batch hits; else the
same for the other direction under the rule above; else the bank a refresh is aimed at; else the first open bank no
line wants.

*Batch*. A write batch begins at ``high_water`` writes; at half the buffer, if no read hits an open row or the other
pseudo channel writes (a requester in order would wait for one of the two anyway); after ``idle_slots`` without reads;
or when the next request must wait for a pending write. It ends at ``low_water`` once reads wait.

*Refresh*. One REFpb is owed each tREFI / banks. A bank that a column command has just left is the least likely to be
wanted soon: refreshes are aimed there, up to ``refresh_ahead`` early. Otherwise the first bank without demand is taken
when a refresh is due. Demand takes the aim back, until ``refresh_urgent`` are owed: then any bank is taken and gets no
column command before its refresh. No bank is refreshed twice before all were once.

*Age*. When the oldest read has been the oldest for ``age_limit`` slots, it alone may use the column bus and its bank.
"""

import dataclasses
from collections import namedtuple
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from golden.compiled import compiled
from spec.hbm import LINE_ACCESSES, SLOT_CK
from spec.hbm_controller import HbmControllerConfig, HbmSlots

RD, WR, ACT, PRE, REF = range(5)
"""Command kinds in a log."""

READ, WRITE = 0, 1
"""Directions: the index of a window, and the batch."""

BANK, ROW, COLUMN, LINE, SENT = range(5)
"""Fields of a window entry: the place, the index of the line, and how many of its accesses were sent."""

Ints = NDArray[np.int64]


_CHOICES = [field.name for field in dataclasses.fields(HbmControllerConfig) if field.type in (int, bool)]
_SLOTS = [field.name for field in dataclasses.fields(HbmSlots)]
_SHAPE = ("pcs", "banks", "banks_in_group", "groups", "t_refi")
_Config = cast(Any, namedtuple)("_Config", [*_SHAPE, *_CHOICES, *_SLOTS])
"""``HbmControllerConfig`` and its ``HbmSlots`` as numbers that compiled code can hold."""


def _compiled_config(config: HbmControllerConfig) -> Any:
    g = config.geometry
    shape = (g.pseudo_channels, g.all_banks, g.banks, g.groups, config.timing.t_refi)
    choices, slots = (getattr(config, name) for name in _CHOICES), (getattr(config.slots, name) for name in _SLOTS)
    return _Config(*shape, *choices, *slots)


class _State(NamedTuple):
    """One pseudo channel. Timers hold the first slot at which the command is legal."""

    window: Ints  # direction, position, field
    held: Ints  # direction: lines
    wants: Ints  # direction, bank: lines held
    hits: Ints  # direction, bank: lines held whose row is open
    row: Ints  # bank: open row, -1 closed
    act_bank: Ints
    col_bank: Ints  # direction, bank
    pre_bank: Ints
    act_group: Ints
    col_group: Ints  # direction, group
    col_sid: Ints
    col_all: Ints  # direction
    faw: Ints
    done: Ints  # bank: refreshed in this round
    v: Ints  # the scalars below


REG, MODE, IDLE, AGE, ACT_ALL, REF_ALL, FAW_AT, OWED, DUE, AIM, SCALARS = range(11)
"""Index into ``_State.v``: register line or -1, batch, slots without reads, age of the oldest read, timers of all
banks, slot of ``faw`` next used, refreshes owed, CK times banks since the last one fell due, bank aimed at or -1."""


@compiled
def _new(c):  # type: ignore[no-untyped-def]  # compiled: numba infers the types
    groups = c.banks // c.banks_in_group
    v = np.zeros(SCALARS, np.int64)
    v[REG] = -1
    v[AIM] = -1
    depth = max(c.read_lines, c.write_lines)

    def zeros(n: int) -> Ints:
        return np.zeros(n, np.int64)

    def pair(n: int) -> Ints:
        return np.zeros((2, n), np.int64)

    return _State(
        np.zeros((2, depth, 5), np.int64), zeros(2), pair(c.banks), pair(c.banks), zeros(c.banks) - 1, zeros(c.banks),
        pair(c.banks), zeros(c.banks), zeros(groups), pair(groups), zeros(groups // c.groups), zeros(2), zeros(4),
        zeros(c.banks), v,
    )  # fmt: skip


@compiled
def _column(c, t, s, batch, urgent, kept):  # type: ignore[no-untyped-def]
    """Position of the line whose access goes out, or -1. ``kept``: bank that an urgent refresh keeps free, or -1."""
    if s < t.col_all[batch] or t.hits[batch].sum() == 0:
        return -1
    for i in range(t.held[batch]):
        b = t.window[batch, i, BANK]
        g = b // c.banks_in_group
        if (
            t.row[b] == t.window[batch, i, ROW] and b != kept and s >= t.col_bank[batch, b]
            and s >= t.col_group[batch, g] and s >= t.col_sid[g // c.groups]
        ):  # fmt: skip
            return i
        if c.in_order or urgent:
            break
    return -1


@compiled
def _row(c, t, s, even, batch, urgent, must):  # type: ignore[no-untyped-def]
    """Kind (or -1), bank and row of the row command."""
    v = t.v
    reads, writes = t.held[READ], t.held[WRITE]
    few, many = writes <= c.low_water + c.prepare, writes + c.prepare >= c.high_water
    ending = few and reads > 0 if batch == WRITE else many
    aim = v[AIM]
    ready = aim >= 0 and even and t.row[aim] < 0 and s >= t.act_bank[aim] and s >= v[REF_ALL]
    blocked = even and (s < v[ACT_ALL] or s < t.faw[v[FAW_AT]] or (ready and must))
    for turn in range(0 if blocked else 2 if ending else 1):
        d = batch if turn == 0 else 1 - batch
        for i in range(t.held[d]):
            b = t.window[d, i, BANK]
            first = urgent and i == 0 and d == READ
            if turn == 0 or t.wants[batch, b] == 0:
                if even:
                    if t.row[b] < 0 and b != aim and s >= t.act_bank[b] and s >= t.act_group[b // c.banks_in_group]:
                        return ACT, b, t.window[d, i, ROW]
                elif (
                    t.row[b] >= 0 and t.row[b] != t.window[d, i, ROW] and s >= t.pre_bank[b]
                    and (t.hits[d, b] == 0 or first)
                ):  # fmt: skip
                    return PRE, b, 0
            if c.in_order or first:
                break
    if ready:
        return REF, aim, 0
    if not even:
        if aim >= 0 and t.row[aim] >= 0 and s >= t.pre_bank[aim] and (must or t.hits[batch, aim] == 0):
            return PRE, aim, 0
        for b in range(c.banks):
            if t.row[b] >= 0 and t.wants[READ, b] == 0 and t.wants[WRITE, b] == 0 and s >= t.pre_bank[b]:
                return PRE, b, 0
    return -1, 0, 0


@compiled
def _refresh(c, t, batch, pick, must):  # type: ignore[no-untyped-def]
    """Choose or drop the bank the next refresh is aimed at, and count what is owed."""
    v = t.v
    aim = v[AIM]
    if aim >= 0:
        if not must and (t.wants[READ, aim] > 0 or (batch == WRITE and t.wants[WRITE, aim] > 0)):
            v[AIM] = -1
    elif v[OWED] > -c.refresh_ahead:
        left = -1
        if pick >= 0 and t.window[batch, pick, SENT] == LINE_ACCESSES - 1:
            b = t.window[batch, pick, BANK]
            if t.wants[READ, b] + (t.wants[WRITE, b] if batch == WRITE else 0) == 1 and t.done[b] == 0:
                left = b
        if left >= 0:
            v[AIM] = left
        elif v[OWED] > 0:
            for b in range(c.banks):
                idle = t.wants[READ, b] == 0 and (batch == READ or t.wants[WRITE, b] == 0)
                if t.done[b] == 0 and (must or idle):
                    v[AIM] = b
                    break
    v[DUE] += SLOT_CK * c.banks
    if v[DUE] >= c.t_refi:
        v[DUE] -= c.t_refi
        v[OWED] += 1


@compiled
def _intake(c, t, lines):  # type: ignore[no-untyped-def]
    """Whether the registered line may enter its window, and whether it must wait for a pending write."""
    k = t.v[REG]
    if k < 0:
        return False, False
    b, row, column, d = lines[k, 1], lines[k, 2], lines[k, 3], lines[k, 4]
    same = np.zeros(2, np.bool_)
    for other in range(2):
        if t.wants[other, b] > 0 and (other == WRITE or d == WRITE):
            for i in range(t.held[other]):
                w = t.window[other, i]
                if w[BANK] == b and w[ROW] == row and w[COLUMN] == column:
                    same[other] = True
    turn = c.in_order and t.held[1 - d] > 0
    flush = same[WRITE] or (turn and d == READ)
    room = t.held[d] < (c.write_lines if d == WRITE else c.read_lines)
    return room and not turn and not same[READ] and not same[WRITE], flush


@compiled
def _slot(c, t, s, p, partner, lines, log, logged, accepted, finished):  # type: ignore[no-untyped-def]
    """One slot of pseudo channel ``p``; ``partner`` is the batch of the other one.

    Returns the length of the log and how many lines finished.
    """
    v = t.v
    batch = v[MODE]
    even = (s + p) % 2 == 0
    reads, writes = t.held[READ], t.held[WRITE]
    urgent = reads > 0 and v[AGE] >= c.age_limit
    no_hits = t.hits[READ].sum() == 0
    must = v[OWED] >= c.refresh_urgent
    pick = _column(c, t, s, batch, urgent, v[AIM] if must else -1)
    kind, bank, row = _row(c, t, s, even, batch, urgent, must)
    enters, flush = _intake(c, t, lines)
    _refresh(c, t, batch, pick, must)

    gone = -1
    if pick >= 0:
        w = t.window[batch, pick]
        b, g = w[BANK], w[BANK] // c.banks_in_group
        log[logged, 0], log[logged, 1], log[logged, 2], log[logged, 3] = s, p, batch, b
        log[logged, 4], log[logged, 5] = w[COLUMN] + w[SENT], w[LINE]
        logged += 1
        for k in range(len(t.col_sid)):
            if k != g // c.groups:
                t.col_sid[k] = s + c.ccd_r
        t.col_group[batch, g] = max(t.col_group[batch, g], s + c.ccd_l)
        if batch == WRITE:
            t.col_all[READ] = s + c.wtr_s
            t.col_group[READ, g] = max(t.col_group[READ, g], s + c.wtr_l)
        else:
            t.col_all[WRITE] = s + c.rtw
        t.pre_bank[b] = max(t.pre_bank[b], s + (c.wr_pre if batch == WRITE else c.rtp))
        w[SENT] += 1
        if w[SENT] == LINE_ACCESSES:
            finished[w[LINE]] = s
            gone = pick
            t.wants[batch, b] -= 1
            t.hits[batch, b] -= 1
            t.held[batch] -= 1
            for i in range(pick, t.held[batch]):
                t.window[batch, i] = t.window[batch, i + 1]
    if kind >= 0:
        log[logged, 0], log[logged, 1], log[logged, 2], log[logged, 3], log[logged, 4] = s, p, kind, bank, row
        log[logged, 5] = -1
        logged += 1
    if kind == ACT:
        t.row[bank] = row
        t.act_bank[bank] = s + c.rc
        t.col_bank[READ, bank] = s + c.rcd_rd
        t.col_bank[WRITE, bank] = s + c.rcd_wr
        t.pre_bank[bank] = s + c.ras
        v[ACT_ALL] = max(v[ACT_ALL], s + c.rrd_s)
        t.act_group[bank // c.banks_in_group] = s + c.rrd_l
        v[REF_ALL] = max(v[REF_ALL], s + c.rrd_s)
        t.faw[v[FAW_AT]] = s + c.faw
        v[FAW_AT] = (v[FAW_AT] + 1) % 4
        for d in range(2):
            for i in range(t.held[d]):
                t.hits[d, bank] += t.window[d, i, BANK] == bank and t.window[d, i, ROW] == row
    elif kind == PRE:
        t.row[bank] = -1
        t.act_bank[bank] = max(t.act_bank[bank], s + c.rp)
        t.hits[:, bank] = 0
    elif kind == REF:
        t.act_bank[bank] = s + c.rfc_pb
        v[ACT_ALL] = max(v[ACT_ALL], s + c.rrefd)
        v[REF_ALL] = s + c.rrefd
        v[OWED] -= 1
        v[AIM] = -1
        t.done[bank] = 1
        if t.done.sum() == c.banks:
            t.done[:] = 0
    if enters:
        k = v[REG]
        b, d = lines[k, 1], lines[k, 4]
        w = t.window[d, t.held[d]]
        w[BANK], w[ROW], w[COLUMN], w[LINE], w[SENT] = b, lines[k, 2], lines[k, 3], k, 0
        t.held[d] += 1
        t.wants[d, b] += 1
        t.hits[d, b] += t.row[b] == w[ROW]
        accepted[k] = s
        v[REG] = -1

    v[AGE] = 0 if (gone == 0 and batch == READ) or reads == 0 else min(v[AGE] + 1, c.age_limit)
    idle = v[IDLE]
    v[IDLE] = 0 if reads > 0 else min(idle + 1, c.idle_slots)
    if batch == WRITE:
        if urgent or writes == 0 or (reads > 0 and not flush and writes <= c.low_water):
            v[MODE] = READ
    elif not urgent and writes > 0:
        worthwhile = (no_hits or partner == WRITE) and 2 * writes >= c.write_lines
        if flush or writes >= c.high_water or worthwhile or idle >= c.idle_slots:
            v[MODE] = WRITE
    return logged, 1 if gone >= 0 else 0


@compiled
def _run(c, lines, arrive, limit):  # type: ignore[no-untyped-def]
    """Play ``lines`` (rows of pseudo channel, bank, row, column, write) until all are finished."""
    n = len(lines)
    first, second = _new(c), _new(c)
    log = np.zeros((6 * n + limit // 8, 6), np.int64)
    accepted = np.zeros(n, np.int64)
    finished = np.zeros(n, np.int64)
    logged, following, s, left = 0, 0, 0, n
    while left > 0 and s < limit:
        batches = first.v[MODE], second.v[MODE]
        logged, over = _slot(c, first, s, 0, batches[1], lines, log, logged, accepted, finished)
        left -= over
        if c.pcs == 2:
            logged, over = _slot(c, second, s, 1, batches[0], lines, log, logged, accepted, finished)
            left -= over
        taken = 0
        while following < n and arrive[following] <= s:
            p = lines[following, 0]
            v = second.v if p == 1 else first.v
            if v[REG] >= 0 or taken >> p & 1:
                break
            v[REG] = following
            taken |= 1 << p
            following += 1
        s += 1
    owed = np.array([first.v[OWED], second.v[OWED]])[: c.pcs]
    return log[:logged], accepted, finished, s, owed, left


@dataclass(frozen=True)
class Replay:
    """Result of ``replay``. ``commands``: rows of (slot, pseudo channel, kind, bank, row or column, line or -1)."""

    commands: Ints
    accepted: Ints
    finished: Ints
    slots: int
    owed: Ints

    def utilisation(self) -> float:
        """Share of the data buses' time that carried data, refresh included."""
        return float(np.count_nonzero(self.commands[:, 2] <= WR)) / (self.slots * len(self.owed))


def lines_of(config: HbmControllerConfig, addresses: Ints, writes: Ints) -> Ints:
    """Rows of (pseudo channel, bank, row, column, write) for byte addresses of lines."""
    lines = np.zeros((len(addresses), 5), np.int64)
    for place, name in enumerate(("pseudo_channel", "bank", "row", "column")):
        for bit, mask in enumerate(config.map.masks[name]):
            lines[:, place] |= (np.bitwise_count(addresses & mask).astype(np.int64) & 1) << bit
    lines[:, 4] = writes
    return lines


def replay(
    config: HbmControllerConfig, addresses: Ints, writes: Ints, arrive: Ints | Sequence[int] | None = None
) -> Replay:
    """Run lines through one channel; ``arrive`` gives the first slot each may be offered in (default: at once)."""
    lines = lines_of(config, np.asarray(addresses, np.int64), np.asarray(writes, np.int64))
    when = np.zeros(len(lines), np.int64) if arrive is None else np.asarray(arrive, np.int64)
    limit = int(when.max(initial=0)) + 200 * len(lines) + 4 * config.timing.t_refi
    *result, left = _run(_compiled_config(config), lines, when, limit)
    if left:
        raise RuntimeError(f"{left} of {len(lines)} lines unfinished after {limit} slots")
    return Replay(*result)
