"""Packets, not flits: when a set of transfers is done on a large torus, at a fraction of the cycle-exact model's cost.

A packet goes from lane to lane as a whole. It may start on a link when the link is free and a lane it may use has room
for it behind the packets there; the link is then busy for its flits, and its head is in front of the next router two
cycles later. Lanes and ways are chosen by the same credits as in the router. Left out: a packet that waits with some of
its flits in one lane and the rest in the next, so also packets longer than a lane, and flits of several packets that
share a link in turns. ``make bench-link`` reports how far it is from the cycle-exact model.
"""

from typing import Any

import numpy as np

from golden.compiled import compiled
from golden.link.router import ADAPTIVE, LOCAL, ORDERED, distances, level_of, levels
from golden.link.traffic import Traffic
from spec.link import RouterConfig
from spec.topology import Kind

HOP = 2
"""Cycles from a link to the next one."""

RETURN = 2
"""Cycles from a flit that leaves a lane to its credit at the sender."""

MARGIN = 8
"""Slots of the ring of events beyond the time of the longest packet on the slowest link."""


@compiled
def wanted(at, goal, sizes, rings):  # type: ignore[no-untyped-def]
    """Outputs, one bit each, by which a packet at one position comes nearer to another; the local one at its goal."""
    outputs = 0
    for dim in range(sizes.size):
        up, below = distances(at[dim], goal[dim], sizes[dim], rings[dim])
        if up:
            outputs |= (up <= below) << (1 + 2 * dim) | (below <= up) << (2 + 2 * dim)
    return outputs if outputs else 1


@compiled
def emptiest(places, now, lanes, depth, allow, ordered, flits):  # type: ignore[no-untyped-def]
    """The lane of an input that a packet of so many flits may enter now (-1: none), and the room of all its lanes."""
    used, front, leaving, pace = places
    channels, escape, lower = lanes
    best, fewest, room = -1, depth, 0
    for c in range(channels):
        # Places whose credit is not back: those of waiting packets, and what the one on its way out still keeps.
        kept = used[c]
        still = front[c] + RETURN - 1 - now
        if still > 0:
            kept += min((still + pace[c] - 1) // pace[c], leaving[c])
        room -= kept
        level = level_of(c, escape, lower)
        if ordered and c != (0 if level == 0 else lower):
            continue
        if (allow >> level) & 1 and used[c] + min(flits, depth) <= depth and kept < fewest:
            best, fewest = c, kept
    return best, room


@compiled
def simulate(shape, lanes, torus, packets, start, cycles, stop):  # type: ignore[no-untyped-def]
    """All arguments are built by :func:`run`; returns the cycle in which it stopped."""
    nodes, ports, depth, wheel = shape
    channels, escape, lower = lanes
    sizes, rings, position, neighbour, slow = torus
    created, target, kind, flits, delivered = packets
    entries = depth + 1
    # A lane: packets in order, in ``used`` places. The one that left last had ``leaving`` more, the last of which is
    # free at ``front``, the others one by one before it, each ``pace`` cycles.
    queue = np.zeros((nodes, ports, channels, entries), np.int32)
    head = np.zeros((nodes, ports, channels), np.int32)
    count = np.zeros((nodes, ports, channels), np.int32)
    used = np.zeros((nodes, ports, channels), np.int32)
    ready = np.zeros((nodes, ports, channels, entries), np.int64)
    front = np.zeros((nodes, ports, channels), np.int64)
    leaving = np.zeros((nodes, ports, channels), np.int32)
    pace = np.ones((nodes, ports, channels), np.int64)
    busy = np.zeros((nodes, ports + 1), np.int64)
    turn = np.zeros((nodes, ports), np.int32)
    due = np.zeros((wheel, nodes), np.int32)
    following = start[:-1].copy()
    for node in range(nodes):
        due[0, node] = 1 << ports
    arrived = 0
    for now in range(cycles):
        slot = now % wheel
        for node in range(nodes):
            work = due[slot, node]
            if work == 0:
                continue
            due[slot, node] = 0
            for out in range(ports):
                if not (work >> out) & 1 or busy[node, out] > now:
                    continue
                chosen = -1
                chosen_lane = -1
                for step in range(ports * channels):
                    index = (turn[node, out] + step) % (ports * channels)
                    port = index // channels
                    lane = index % channels
                    if count[node, port, lane] == 0 or front[node, port, lane] > now:
                        continue
                    place = head[node, port, lane]
                    if ready[node, port, lane, place] > now:
                        continue
                    packet = queue[node, port, lane, place]
                    goal = target[packet]
                    if goal == node:
                        if out == LOCAL:
                            chosen = index
                            break
                        continue
                    if out == LOCAL:
                        continue
                    dim = (out - 1) // 2
                    down = (out - 1) % 2
                    how = kind[packet]
                    up, below = distances(position[node, dim], position[goal, dim], sizes[dim], rings[dim])
                    if up == 0 or (below > up if down else up > below):
                        continue
                    in_turn = True
                    for earlier in range(dim):
                        if position[node, earlier] != position[goal, earlier]:
                            in_turn = False
                    if up == below and how == ORDERED and position[node, dim] % 2 != down:
                        continue
                    level = level_of(lane, escape, lower)
                    best, free = -1, 0
                    for turned in range(2 if up == below and how != ORDERED else 1):
                        side = down ^ turned
                        way = 1 + 2 * dim + side
                        back = 2 + 2 * dim - side
                        allow = 4 if how == ADAPTIVE else 0
                        if in_turn:
                            here, there = position[node, dim], position[goal, dim]
                            allow |= levels(here, there, sizes[dim], rings[dim], side == 1, port == back, level, how)
                        far = neighbour[node, way]
                        places = used[far, back], front[far, back], leaving[far, back], pace[far, back]
                        found, room = emptiest(places, now, lanes, depth, allow, how == ORDERED, flits[packet])
                        room += max(0, busy[node, way] - now) // slow[way]
                        if turned == 0:
                            best, free = found, room
                        elif best >= 0 and found >= 0 and (room > free or (down and room == free)):
                            # The other way round has more room; both are looked at again in the next cycle.
                            best = -1
                            due[(now + 1) % wheel, node] |= 3 << (1 + 2 * dim)
                    if best >= 0:
                        chosen = index
                        chosen_lane = best
                        break
                if chosen < 0:
                    continue
                port = chosen // channels
                lane = chosen % channels
                packet = queue[node, port, lane, head[node, port, lane]]
                time = flits[packet] * slow[out]
                head[node, port, lane] = (head[node, port, lane] + 1) % entries
                count[node, port, lane] -= 1
                used[node, port, lane] -= min(flits[packet], depth)
                front[node, port, lane] = now + time
                leaving[node, port, lane] = min(flits[packet], depth)
                pace[node, port, lane] = slow[out]
                busy[node, out] = now + time
                turn[node, out] = (chosen + 1) % (ports * channels)
                due[(now + time) % wheel, node] |= 1 << out
                if count[node, port, lane] > 0:
                    after = target[queue[node, port, lane, head[node, port, lane]]]
                    due[(now + time) % wheel, node] |= wanted(position[node], position[after], sizes, rings)
                if port == LOCAL:
                    due[(now + RETURN) % wheel, node] |= 1 << ports
                else:
                    due[(now + RETURN) % wheel, neighbour[node, port]] |= 1 << (port + 1 if port % 2 else port - 1)
                if out == LOCAL:
                    delivered[packet] = now + time
                    arrived += 1
                else:
                    other = neighbour[node, out]
                    into = out + 1 if out % 2 else out - 1
                    place = (head[other, into, chosen_lane] + count[other, into, chosen_lane]) % entries
                    queue[other, into, chosen_lane, place] = packet
                    ready[other, into, chosen_lane, place] = now + HOP + slow[out] - 1
                    count[other, into, chosen_lane] += 1
                    used[other, into, chosen_lane] += min(flits[packet], depth)
                    onwards = wanted(position[other], position[target[packet]], sizes, rings)
                    start_at = max(now + HOP + slow[out] - 1, front[other, into, chosen_lane])
                    due[start_at % wheel, other] |= onwards
            if (work >> ports) & 1 and busy[node, ports] <= now and following[node] < start[node + 1]:
                packet = following[node]
                if created[packet] > now:
                    due[min(created[packet], now + wheel - 1) % wheel, node] |= 1 << ports
                    continue
                places = used[node, LOCAL], front[node, LOCAL], leaving[node, LOCAL], pace[node, LOCAL]
                allow = 1 if kind[packet] == ORDERED else 7
                best, _ = emptiest(places, now, lanes, depth, allow, kind[packet] == ORDERED, flits[packet])
                if best >= 0:
                    place = (head[node, LOCAL, best] + count[node, LOCAL, best]) % entries
                    queue[node, LOCAL, best, place] = packet
                    ready[node, LOCAL, best, place] = now + 1
                    count[node, LOCAL, best] += 1
                    used[node, LOCAL, best] += min(flits[packet], depth)
                    following[node] += 1
                    busy[node, ports] = now + flits[packet]
                    outputs = wanted(position[node], position[target[packet]], sizes, rings)
                    due[max(now + 1, front[node, LOCAL, best]) % wheel, node] |= outputs
                    due[(now + flits[packet]) % wheel, node] |= 1 << ports
        if arrived >= stop:
            return now + 1
    return cycles


def run(config: RouterConfig, traffic: Traffic, cycles: int) -> dict[str, Any]:
    """Simulate unicast ``traffic`` of one message class until all has arrived, at most ``cycles`` cycles.

    Returns ``delivered``, the cycle of each packet's last flit at its chip (-1: not yet), and the ``cycles`` run.
    """
    torus = config.torus
    if (traffic.kind == Kind.MULTICAST).any() or traffic.group.any():
        raise ValueError("packets of one message class to one chip each are simulated, no multicast")
    nodes, ports = torus.nodes, torus.ports
    neighbour = np.full((nodes, ports), -1, np.int64)
    for link in torus.links:
        neighbour[link.source, link.source_port] = link.target
    delivered = np.full(traffic.created.size, -1, np.int64)
    longest = int(traffic.flits.max(initial=1)) * max(torus.flit_cycles(port) for port in range(ports))
    ran = simulate(
        (nodes, ports, config.depth, longest + MARGIN),
        (config.channels, config.escape_channels, config.lower_channels),
        (
            np.array(torus.sizes, np.int64),
            np.array([torus.ring(d) for d in range(torus.dimensions)]),
            np.array([torus.coordinates(node) for node in range(nodes)], np.int64),
            neighbour,
            np.array([torus.flit_cycles(port) for port in range(ports)], np.int64),
        ),
        (traffic.created, traffic.target, traffic.kind, traffic.flits, delivered),
        np.searchsorted(traffic.source, np.arange(nodes + 1)),
        cycles,
        traffic.created.size,
    )
    return {"delivered": delivered, "cycles": ran}
