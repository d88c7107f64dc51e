"""The same lines through RTL and golden: every command in the same slot."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.hbm.controller import ACT, PRE, READ, REF, WR, Replay, lines_of
from spec.hbm_controller import HbmControllerConfig
from verif.harness.model import Model
from verif.harness.packing import unpack_array
from verif.hbm.player import PlayerLayouts

Ints = NDArray[np.int64]

FIRST_OFFER = 1
"""Slot of a run in which the player offers its first line: what golden is told as arrival of every line."""

KINDS = np.array([-1, ACT, PRE, REF])
"""Golden's kind of each ``RowKind``."""


def pairs(config: HbmControllerConfig, lines: Ints) -> dict[str, object]:
    """Stimulus of ``HbmPlayer`` for rows of (pseudo channel, bank, row, column, write); the tag counts lines."""
    tags = 1 << PlayerLayouts(config).tag_bits
    padded = np.concatenate([lines, lines[-1:]]) if len(lines) % 2 else lines
    halves = []
    for half in range(2):
        channel, bank, row, column, write = padded[half::2].T
        tag = (np.arange(len(channel)) * 2 + half) % tags
        place = {"bank": bank, "row": row, "column": column}
        halves.append({"channel": channel, "request": {"write": write, "place": place, "tag": tag}})
    both = np.ones(len(padded) // 2, np.int64)
    both[-1] = 1 - len(lines) % 2
    return {"lines": halves, "both": both}


def run(model: Model, config: HbmControllerConfig, addresses: Ints, writes: Ints, slots: int) -> tuple[Ints, Ints]:
    """RTL's commands, as :func:`logged` gives them, and the refreshes owed at the end."""
    channels = range(config.geometry.pseudo_channels)
    names = [f"commands_{p}" for p in channels] + [f"owed_{p}" for p in channels]
    lines = lines_of(config, addresses, writes)
    result = model.run({"pairs": pairs(config, lines)}, sample=names, limit=slots + 1, tail=slots + 1)
    rows = []
    for p in channels:
        sampled = unpack_array(PlayerLayouts(config).commands, result.samples[f"commands_{p}"])
        rows += logged(p, sampled)
    owed = np.array([int(result.sampled(f"owed_{p}")[-1]) for p in channels])
    commands = np.concatenate(rows).astype(np.int64)
    return in_order(commands[commands[:, 0] < slots]), owed


def logged(channel: int, sampled: dict[str, Any]) -> list[Ints]:
    """Commands of one pseudo channel, sampled in each slot.

    Rows of (slot, pseudo channel, kind, bank, row or column, tag, last, open row), the last three 0 for row commands.
    """
    column, row = sampled["column"], sampled["row"]
    columns = np.flatnonzero(column["enable"])
    rows = np.flatnonzero(row["kind"])
    kind = KINDS[row["kind"][rows].astype(np.int64)]
    fields = [column[name][columns] for name in ("bank", "column", "tag", "last", "row")]
    none = [np.zeros(len(rows), np.int64)] * 3
    found = (
        (columns, column["write"][columns] + READ, *fields),
        (rows, kind, row["bank"][rows], np.where(kind == ACT, row["row"][rows], 0), *none),
    )
    return [np.stack([at, np.full(len(at), channel), *rest], 1).astype(np.int64) for at, *rest in found]


def in_order(commands: Ints) -> Ints:
    """Commands by slot, pseudo channel and bus: the order in which two logs are compared."""
    return commands[np.lexsort((commands[:, 2], commands[:, 1], commands[:, 0]))]


def expected(config: HbmControllerConfig, golden: Replay, addresses: Ints, writes: Ints) -> Ints:
    """Golden's commands as :func:`run` gives those of RTL."""
    slot, channel, kind, bank, place, line = golden.commands.T
    row = lines_of(config, addresses, writes)[line, 2]
    marks = line % (1 << PlayerLayouts(config).tag_bits), place & 1, row
    column = kind <= WR
    return in_order(np.stack([slot, channel, kind, bank, place, *(np.where(column, m, 0) for m in marks)], 1))


def first_difference(rtl: Ints, wanted: Ints) -> str | None:
    """What differs first, or None if every command is the same in the same slot."""
    length = min(len(rtl), len(wanted))
    bad = np.flatnonzero((rtl[:length] != wanted[:length]).any(axis=1))
    if len(bad):
        return f"command {bad[0]}: RTL {rtl[bad[0]].tolist()}, golden {wanted[bad[0]].tolist()}"
    if len(rtl) != len(wanted):
        return f"RTL gave {len(rtl)} commands, golden {len(wanted)}"
    return None
