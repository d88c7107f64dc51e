"""Collectives of chips that RTL simulates, as the time model sees them: held against compiled chips.

A chunk of one line takes what golden's cores say, which are cycle models of engines, sequencers and semaphores but know
no traffic. Each further line of a chunk adds what its busiest resource needs, by the schedule that the chips run, and
the routes and loads of :mod:`scale.collectives`:

* a link and a chip's own port pass a flit a cycle; a line is a packet of ``flits("write")`` and is answered by one;
* a DMA engine moves a beat a cycle, and accumulates at half that rate;
* the receiver adds a chunk with its own DMA once all of it has come.

Time is in cycles.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from scale import exchanges, schedules
from scale.collectives import Timing, plan
from scale.network import RoutedNetwork
from scale.schedules import Moves, Schedule, Step
from spec.core import LINE_BYTES, WORD_BYTES
from spec.system import SystemConfig

ACCUMULATE = 2
"""Cycles of a beat that is added: it reads what it adds to."""
QUEUED = 2
"""Lines that wait in a gate on their way to other chips."""


def schedule_of(operation: str, ranks: int) -> Schedule:
    """What ``sdk.collectives.Ring`` runs: once around the ring, or to each in turn. Ranks are positions of the ring."""
    if operation == "all_to_all":
        return exchanges.pairwise(ranks)
    return schedules.rings(operation, [range(ranks)], turns=(1,))


def cycles(config: SystemConfig, ring: Sequence[int], operation: str, lines: int, first: float) -> float:
    """Cycles of a collective around ``ring``, the chips in their order, with chunks of ``lines`` lines of fp32.

    ``first`` is golden's time with chunks of one line. In a ring nobody sends before the chunk before has come. In an
    all-to-all nobody waits: a DMA engine begins the next block when the last lines of one are in the queue of its gate.
    """
    ranks, beats = len(ring), LINE_BYTES // (WORD_BYTES * config.core.dma_lanes)
    schedule = schedule_of(operation, ranks)
    flit = LINE_BYTES / config.flits("write")
    network = RoutedNetwork(config.torus_router.torus, unit_bytes=flit, hop_seconds=0.0)
    answer = config.flits("done") / config.flits("write")
    size = LINE_BYTES * (1 if operation == "all_gather" else ranks)
    # Everybody copies the block that stays.
    total = first + (beats * (lines - 1) if operation == "all_to_all" else 0)
    for step in schedule.steps:
        alone = dataclasses.replace(schedule, steps=(_answered(step, answer),))
        line = plan(alone, network, np.array([ring]), Timing(local_bytes=flit)).seconds_per_byte * size
        if operation == "all_to_all":
            total += max(beats * lines, line * (lines - QUEUED)) - beats
        else:
            total += (max(line, beats) + (ACCUMULATE * beats if step.adds else 0)) * (lines - 1)
    return total


def _answered(step: Step, answer: float) -> Step:
    """The same step with what comes back for each packet; its transfers only load links, nobody runs them."""
    moves = step.moves
    source, target = np.concatenate([moves.source, moves.target]), np.concatenate([moves.target, moves.source])
    return Step(Moves(source, target, np.concatenate([moves.share, moves.share * answer])), step.adds, step.slots)
