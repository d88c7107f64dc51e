"""Cycle-exact model of the switch: queues for each output at every input, iSLIP, copies of multicast cells."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.compiled import compiled
from spec.link import SwitchConfig


@compiled
def simulate(shape, created, targets, start, cycles, offers, ready, out):  # type: ignore[no-untyped-def]
    """All arguments are built by :func:`run`; returns how many cells were taken at each input."""
    ports, depth, iterations = shape
    slot = iterations + 1
    queue = np.zeros((ports, ports, depth), np.int64)
    head = np.zeros((ports, ports), np.int64)
    count = np.zeros((ports, ports), np.int64)
    seen = np.zeros((ports, ports), np.bool_)
    cell = np.full(ports, -1, np.int64)
    pending = np.zeros((ports, ports), np.bool_)
    waiting = np.zeros(ports, np.int64)
    grant_turn = np.zeros(ports, np.int64)
    accept_turn = np.zeros(ports, np.int64)
    match_in = np.full(ports, -1, np.int64)
    match_out = np.full(ports, -1, np.int64)
    grant = np.full(ports, -1, np.int64)
    left = np.full(ports, -1, np.int64)
    following = start[:-1].copy()
    for now in range(cycles):
        phase = now % slot
        left[:] = -1
        if phase == 0:
            for source in range(ports):
                output = match_in[source]
                match_in[source] = -1
                if output < 0:
                    continue
                match_out[output] = -1
                left[source] = output
                out[now + 1, output] = queue[source, output, head[source, output]]
                head[source, output] = (head[source, output] + 1) % depth
                count[source, output] -= 1
        else:
            grant[:] = -1
            for output in range(ports):
                if match_out[output] >= 0:
                    continue
                for step in range(ports):
                    source = (grant_turn[output] + step) % ports
                    if match_in[source] < 0 and seen[source, output]:
                        grant[output] = source
                        break
            for source in range(ports):
                if match_in[source] >= 0:
                    continue
                for step in range(ports):
                    output = (accept_turn[source] + step) % ports
                    if grant[output] == source:
                        match_in[source] = output
                        match_out[output] = source
                        if phase == 1:
                            accept_turn[source] = (output + 1) % ports
                            grant_turn[output] = (source + 1) % ports
                        break
        # Copies, on the state at the start of the cycle: what left in it still counts as stored.
        for source in range(ports):
            able = now >= ports and waiting[source] == 0
            ready[now, source] = able
            if waiting[source] > 0:
                for output in range(ports):
                    if not pending[source, output]:
                        continue
                    stored = count[source, output] + (left[source] == output)
                    if stored < depth:
                        queue[source, output, (head[source, output] + count[source, output]) % depth] = cell[source]
                        count[source, output] += 1
                        pending[source, output] = False
                        waiting[source] -= 1
                    break
            index = following[source]
            if index < start[source + 1] and created[index] <= now:
                offers[now, source] = index
                if able:
                    following[source] += 1
                    cell[source] = index
                    for output in range(ports):
                        pending[source, output] = (targets[index, output // 64] >> np.uint64(output % 64)) & np.uint64(
                            1
                        )
                        waiting[source] += pending[source, output]
        for source in range(ports):
            for output in range(ports):
                seen[source, output] = count[source, output] > 0
    return following - start[:-1]


def run(config: SwitchConfig, created: Any, source: Any, targets: Any, cycles: int) -> dict[str, Any]:
    """Simulate ``cycles`` cycles. Cell ``n`` is offered at input ``source[n]`` from cycle ``created[n]`` on.

    ``targets[n]`` is one output, or a row of booleans for a multicast; cells are sorted by (source, created).
    Returns ``out[cycle, output]``: the cell on an output in that cycle, -1 for none; ``offers[cycle, input]``: the
    cell that is offered; ``ready[cycle, input]``; ``taken[input]``: how many were.
    """
    created, source, targets = np.asarray(created, np.int64), np.asarray(source, np.int64), np.asarray(targets)
    words = np.zeros((len(created), -(-config.ports // 64)), np.uint64)
    if targets.ndim == 1:
        one = np.uint64(1) << (targets % 64).astype(np.uint64)
        words[np.arange(len(created)), targets // 64] = one
    else:
        for output in range(config.ports):
            words[:, output // 64] |= targets[:, output].astype(np.uint64) << np.uint64(output % 64)
    start = np.searchsorted(source, np.arange(config.ports + 1))
    out: NDArray[np.int64] = np.full((cycles + 1, config.ports), -1, np.int64)
    offers: NDArray[np.int64] = np.full((cycles, config.ports), -1, np.int64)
    ready = np.zeros((cycles, config.ports), np.bool_)
    shape = (config.ports, config.depth, config.iterations)
    taken = simulate(shape, created, words, start, cycles, offers, ready, out)
    return {"out": out[:cycles], "offers": offers, "ready": ready, "taken": taken, "words": words}
