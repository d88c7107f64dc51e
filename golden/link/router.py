"""Cycle-exact model of a torus of routers: the same flit on the same link in the same cycle as the hardware.

Time of one flit: the chip offers it in cycle ``t``; the router's buffer holds it from ``t + 1``, when it may win its
output; it is on the link in the cycle after that, and in the next buffer one cycle later: two cycles a hop. A credit
is on the wire in the cycle after its flit left the buffer and counts in the next one.

A router grants each output to one input lane a cycle. The lane that sent the last flit of an unfinished packet goes
first; otherwise the turn passes round. The winner's first flit takes, of the output lanes it may use, the one
with most credits; the last flit gives it back. Everything is decided on the state at the start of the cycle.
"""

from typing import Any

import numpy as np

from golden.compiled import compiled, inlined
from golden.link.traffic import Traffic
from spec.link import RouterConfig

DATA_BITS = 40
"""Flits here are integers: data in the low bits, then the marks of the first and the last flit."""
FIRST = 1 << DATA_BITS
LAST = 2 << DATA_BITS
ID_SHIFT = DATA_BITS + 2
"""Above the marks: the packet's index, by which the model knows what arrived. The hardware has no such bits."""

LOCAL, ORDERED, FREE, ADAPTIVE, MULTICAST = 0, 0, 1, 2, 3


@compiled
def levels(here: int, there: int, size: int, ring: bool, down: bool, through: bool, level: int, kind: int) -> int:
    """Bit 0 and 1: dateline classes a packet may use. ``through``: it came along this dimension, in class ``level``."""
    crosses = there > here if down else there < here
    at_last = here == (0 if down else size - 1)
    at_first = here == (size - 1 if down else 0)
    if crosses:
        return 3 if at_last and kind != ORDERED else 2
    if kind in (ORDERED, ADAPTIVE):
        return 1
    if ring and through and (at_first or level == 0):
        return 1
    return 3


@inlined
def level_of(channel: int, escape: int, lower: int) -> int:
    """The level of a lane: its dateline class, 0 or 1, or 2 for the adaptive ones."""
    return 0 if channel < lower else (1 if channel < escape else 2)


@compiled
def distances(here: int, there: int, size: int, ring: bool) -> tuple[int, int]:
    """Hops upwards and downwards; the forbidden way of a line counts as longer."""
    up = (there - here) % size
    down = (here - there) % size
    if not ring and up and down:
        if there > here:
            down = up + 1
        else:
            up = down + 1
    return up, down


@compiled
def simulate(shape, lanes, torus, header, packets, start, cycles, links, returns, stop):  # type: ignore[no-untyped-def]
    """Run until cycle ``cycles``, or until ``stop`` packets have arrived. All arguments are built by :func:`run`."""
    nodes, ports, depth, whole = shape
    classes, channels, escape, lower = lanes
    sizes, rings, position, neighbour, slow = torus
    mask, target_at, source_at, flits_at, tag_at, tag_mask = header
    created, target, kind, flits, tag, delivered = packets
    dimensions = sizes.size
    lanes_all = classes * channels
    inputs = ports * lanes_all

    buffer = np.zeros((nodes, ports, lanes_all, depth), np.int64)
    first = np.zeros((nodes, ports, lanes_all), np.int32)
    stored = np.zeros((nodes, ports, lanes_all), np.int32)
    read = np.zeros((nodes, ports, lanes_all), np.int32)
    active = np.zeros((nodes, ports, lanes_all), np.bool_)
    out_port = np.zeros((nodes, ports, lanes_all), np.int32)
    out_lane = np.zeros((nodes, ports, lanes_all), np.int32)
    todo = np.zeros((nodes, ports, lanes_all), np.int32)
    waited = np.zeros((nodes, ports, lanes_all), np.bool_)
    credit = np.full((nodes, ports, lanes_all), depth, np.int32)
    space = np.full((nodes, ports), depth * lanes_all, np.int32)
    taken = np.zeros((nodes, ports, lanes_all), np.bool_)
    holder = np.full((nodes, ports), -1, np.int32)
    turn = np.zeros((nodes, ports), np.int32)
    busy = np.zeros((nodes, ports), np.int32)
    deepest = slow.max()
    wire = np.full((deepest + 1, nodes, ports), -1, np.int64)
    wire_lane = np.zeros((deepest + 1, nodes, ports), np.int32)
    credit_wire = np.zeros((2, nodes, ports), np.int64)
    eject_credit = np.zeros((2, nodes), np.int64)
    # The chip's side: one queue a message class.
    chip_credit = np.full((nodes, lanes_all), depth, np.int32)
    next_packet = start[:-1].copy()
    sent = np.zeros(nodes * classes, np.int32)
    lane_of = np.full(nodes * classes, -1, np.int32)
    last_class = np.zeros(nodes, np.int32)

    best = np.full(ports, -1, np.int32)
    best_distance = np.zeros(ports, np.int32)
    choice = np.zeros(inputs, np.int64)
    arrived = 0
    for now in range(cycles):
        slot = now % (deepest + 1)
        for node in range(nodes):
            # Ask.
            best[:] = -1
            for port in range(ports):
                for lane in range(lanes_all):
                    if stored[node, port, lane] <= read[node, port, lane]:
                        continue
                    index = port * lanes_all + lane
                    place = (first[node, port, lane] + read[node, port, lane]) % depth
                    flit = buffer[node, port, lane, place]
                    output = -1
                    if active[node, port, lane]:
                        if credit[node, out_port[node, port, lane], out_lane[node, port, lane]] > 0:
                            output = out_port[node, port, lane]
                    else:
                        data = flit & mask
                        how = data & 3
                        group = lane // channels
                        channel = lane % channels
                        level = level_of(channel, escape, lower)
                        length = (data >> flits_at[0]) & flits_at[1]
                        # Candidates of a first flit: bits 0, 1 of allow are dateline classes, 2 the adaptive lanes.
                        preferred = -1
                        preferred_mask = 0
                        preferred_adaptive = False
                        at_home = True
                        ordered_done = False
                        if how == MULTICAST and read[node, port, lane] == 0 and todo[node, port, lane] == 0:
                            branches = 1
                            arrival = (port - 1) // 2 if port > 0 else -1
                            for dim in range(dimensions):
                                spans = (data >> target_at[dim, 0]) & target_at[dim, 1]
                                if spans == 0 or dim < arrival:
                                    continue
                                begin = (data >> source_at[dim, 0]) & source_at[dim, 1]
                                size = sizes[dim]
                                for down in range(2):
                                    if rings[dim]:
                                        end = (begin - (size - 1) // 2) % size if down else (begin + size // 2) % size
                                    else:
                                        end = 0 if down else size - 1
                                    out = 1 + 2 * dim + down
                                    if position[node, dim] != end and (dim > arrival or port == 2 + 2 * dim - down):
                                        branches |= 1 << out
                            todo[node, port, lane] = branches
                        for dim in range(dimensions):
                            here = position[node, dim]
                            size = sizes[dim]
                            there = (data >> target_at[dim, 0]) & target_at[dim, 1]
                            begin = (data >> source_at[dim, 0]) & source_at[dim, 1]
                            up, below = distances(here, there, size, rings[dim])
                            for down in range(2):
                                out = 1 + 2 * dim + down
                                if how == MULTICAST:
                                    lowest = todo[node, port, lane] & -todo[node, port, lane]
                                    if lowest != 1 << out:
                                        continue
                                    if rings[dim]:
                                        there = (begin - (size - 1) // 2) % size if down else (begin + size // 2) % size
                                    else:
                                        there = 0 if down else size - 1
                                    at_home = False
                                else:
                                    if up == 0 or (below > up if down else up > below):
                                        continue
                                    at_home = False
                                    if how == ORDERED and up == below and here % 2 != down:
                                        continue
                                through = port == 2 + 2 * dim - down
                                allow = 0
                                if how == MULTICAST or not ordered_done:
                                    allow = levels(here, there, size, rings[dim], down == 1, through, level, how)
                                if how == ADAPTIVE:
                                    allow |= 4
                                usable = 0
                                usable_adaptive = 0
                                for c in range(channels):
                                    other = group * channels + c
                                    of_level = level_of(c, escape, lower)
                                    if not (allow >> of_level) & 1 or taken[node, out, other]:
                                        continue
                                    if how == ORDERED and c != (0 if of_level == 0 else lower):
                                        continue
                                    have = credit[node, out, other]
                                    if of_level == 2:
                                        if have >= (1 if length == 1 else whole):
                                            usable_adaptive |= 1 << other
                                    elif have > 0:
                                        usable |= 1 << other
                                adaptive = usable_adaptive != 0
                                if adaptive:
                                    usable = usable_adaptive
                                if usable and busy[node, out] == 0:
                                    better = preferred < 0 or (adaptive and not preferred_adaptive)
                                    if adaptive == preferred_adaptive and preferred >= 0:
                                        # Another dimension only after a lost turn: traffic that fits stays in order.
                                        same = out == preferred + 1 and preferred % 2 == 1
                                        better = (same or waited[node, port, lane]) and (
                                            space[node, out] > space[node, preferred]
                                        )
                                    if better:
                                        preferred = out
                                        preferred_mask = usable
                                        preferred_adaptive = adaptive
                            if up != 0:
                                ordered_done = True
                        if at_home:
                            for c in range(channels):
                                other = group * channels + c
                                if how == ORDERED and c != 0:
                                    continue
                                if credit[node, LOCAL, other] > 0 and not taken[node, LOCAL, other]:
                                    preferred = LOCAL
                                    preferred_mask |= 1 << other
                        output = preferred
                        choice[index] = preferred_mask
                        waited[node, port, lane] = True
                    if output < 0 or busy[node, output] > 0:
                        continue
                    distance = -1 if holder[node, output] == index else (index - turn[node, output]) % inputs
                    if best[output] < 0 or distance < best_distance[output]:
                        best[output] = index
                        best_distance[output] = distance
            # Grant.
            for output in range(ports):
                if busy[node, output] > 0:
                    busy[node, output] -= 1
                index = best[output]
                if index < 0:
                    continue
                port = index // lanes_all
                lane = index % lanes_all
                place = (first[node, port, lane] + read[node, port, lane]) % depth
                flit = buffer[node, port, lane, place]
                if not active[node, port, lane]:
                    most = 0
                    for other in range(lanes_all):
                        if (choice[index] >> other) & 1 and credit[node, output, other] > most:
                            most = credit[node, output, other]
                            out_lane[node, port, lane] = other
                    out_port[node, port, lane] = output
                    active[node, port, lane] = True
                    waited[node, port, lane] = False
                    taken[node, output, out_lane[node, port, lane]] = True
                other = out_lane[node, port, lane]
                credit[node, output, other] -= 1
                space[node, output] -= 1
                if holder[node, output] != index:
                    turn[node, output] = (index + 1) % inputs
                holder[node, output] = index
                rest = todo[node, port, lane]
                final = (rest & (rest - 1)) == 0
                if final:
                    first[node, port, lane] = (first[node, port, lane] + 1) % depth
                    stored[node, port, lane] -= 1
                    credit_wire[now % 2, node, port] |= 1 << lane
                else:
                    read[node, port, lane] += 1
                if flit & LAST:
                    holder[node, output] = -1
                    active[node, port, lane] = False
                    taken[node, output, other] = False
                    read[node, port, lane] = 0
                    todo[node, port, lane] = rest & (rest - 1)
                busy[node, output] = slow[output] - 1
                later = (slot + slow[output]) % (deepest + 1)
                wire[later, node, output] = flit
                wire_lane[later, node, output] = other
            # The chip offers one flit.
            for turn_class in range(classes):
                group = (last_class[node] + turn_class) % classes
                queue = node * classes + group
                packet = next_packet[queue]
                if packet >= start[queue + 1] or created[packet] > now:
                    continue
                if sent[queue] == 0 and lane_of[queue] < 0:
                    most = 0
                    for c in range(1 if kind[packet] == ORDERED else channels):
                        if chip_credit[node, group * channels + c] > most:
                            most = chip_credit[node, group * channels + c]
                            lane_of[queue] = group * channels + c
                if lane_of[queue] < 0 or chip_credit[node, lane_of[queue]] == 0:
                    continue
                lane = lane_of[queue]
                if sent[queue] == 0:
                    data = kind[packet] | flits[packet] << flits_at[0] | (tag[packet] & tag_mask) << tag_at
                    for dim in range(dimensions):
                        spot = position[target[packet], dim]
                        if kind[packet] == MULTICAST:
                            spot = (target[packet] >> dim) & 1
                        data |= spot << target_at[dim, 0] | position[node, dim] << source_at[dim, 0]
                    data |= FIRST
                else:
                    data = (packet * 37 + sent[queue]) & mask
                sent[queue] += 1
                last_class[node] = group
                if sent[queue] == flits[packet]:
                    data |= LAST
                    sent[queue] = 0
                    lane_of[queue] = -1
                    next_packet[queue] += 1
                    last_class[node] = (group + 1) % classes
                data |= packet << ID_SHIFT
                chip_credit[node, lane] -= 1
                if links.shape[0] > now:
                    links[now, node, ports] = (data & ((1 << ID_SHIFT) - 1)) | lane << ID_SHIFT
                place = (first[node, LOCAL, lane] + stored[node, LOCAL, lane]) % depth
                # Stored below, after everybody has decided on the old state: the router has asked already.
                buffer[node, LOCAL, lane, place] = data
                stored[node, LOCAL, lane] += 1
                break
        # What is on the wires now reaches the other end.
        for node in range(nodes):
            for port in range(ports):
                flit = wire[slot, node, port]
                lane = wire_lane[slot, node, port]
                if flit >= 0:
                    wire[slot, node, port] = -1
                    if links.shape[0] > now:
                        links[now, node, port] = (flit & ((1 << ID_SHIFT) - 1)) | np.int64(lane) << ID_SHIFT
                    if port == LOCAL:
                        eject_credit[now % 2, node] |= 1 << lane
                        if flit & LAST:
                            delivered[flit >> ID_SHIFT] = now
                            arrived += 1
                    else:
                        other = neighbour[node, port]
                        into = port + 1 if port % 2 else port - 1
                        place = (first[other, into, lane] + stored[other, into, lane]) % depth
                        buffer[other, into, lane, place] = flit
                        stored[other, into, lane] += 1
                back = credit_wire[(now + 1) % 2, node, port]
                credit_wire[(now + 1) % 2, node, port] = 0
                if links.shape[0] > now:
                    returns[now, node, port] = back
                if port == LOCAL:
                    for lane in range(lanes_all):
                        chip_credit[node, lane] += (back >> lane) & 1
                elif neighbour[node, port] >= 0:
                    other = neighbour[node, port]
                    into = port + 1 if port % 2 else port - 1
                    for lane in range(lanes_all):
                        credit[other, into, lane] += (back >> lane) & 1
                        space[other, into] += (back >> lane) & 1
            back = eject_credit[(now + 1) % 2, node]
            eject_credit[(now + 1) % 2, node] = 0
            if links.shape[0] > now:
                returns[now, node, ports] = back
            for lane in range(lanes_all):
                credit[node, LOCAL, lane] += (back >> lane) & 1
                space[node, LOCAL] += (back >> lane) & 1
        if arrived >= stop:
            return now + 1
    return cycles


def run(
    config: RouterConfig, traffic: Traffic, cycles: int, *, trace: int = 0, stop: int | None = None
) -> dict[str, Any]:
    """Simulate ``cycles`` cycles of ``traffic``.

    Returns ``delivered`` (cycle of each packet's last flit at its chip, -1 before that; of a multicast the last copy),
    ``cycles`` run, and for the first ``trace`` cycles ``links[cycle, node, port]``: the flit on each link, its lane in
    the bits from ID_SHIFT up, -1 for none, with what the chip offers as port ``ports``; and ``returns``, the credit
    wires likewise.
    """
    torus = config.torus
    nodes, ports = torus.nodes, torus.ports
    fields = config.field_offsets
    if config.flit_bits > DATA_BITS:
        raise ValueError(f"the model holds flits of up to {DATA_BITS} bits, not {config.flit_bits}")

    def place(name: str) -> list[int]:
        offset, width = fields[name]
        return [offset, (1 << width) - 1]

    position = np.array([torus.coordinates(node) for node in range(nodes)], np.int64)
    neighbour = np.full((nodes, ports), -1, np.int64)
    for link in torus.links:
        neighbour[link.source, link.source_port] = link.target
    dims = range(torus.dimensions)
    delivered = np.full(traffic.created.size, -1, np.int64)
    links = np.full((trace, nodes, ports + 1), -1, np.int64)
    returns = np.zeros((trace, nodes, ports + 1), np.int64)
    header = (
        (1 << config.flit_bits) - 1,
        np.array([place(f"target_{d}") for d in dims], np.int64),
        np.array([place(f"source_{d}") for d in dims], np.int64),
        np.array(place("flits"), np.int64),
        fields["tag"][0],
        (1 << config.tag_bits) - 1,
    )
    ran = simulate(
        (nodes, ports, config.depth, min(config.max_flits, config.depth)),
        (config.classes, config.channels, config.escape_channels, config.lower_channels),
        (
            np.array(torus.sizes, np.int64),
            np.array([torus.ring(d) for d in dims]),
            position,
            neighbour,
            np.array([torus.flit_cycles(port) for port in range(ports)], np.int64),
        ),
        header,
        (traffic.created, traffic.target, traffic.kind, traffic.flits, traffic.tag, delivered),
        traffic.starts(nodes, config.classes),
        cycles,
        links,
        returns,
        np.iinfo(np.int64).max if stop is None else stop,
    )
    return {"delivered": delivered, "cycles": ran, "links": links, "returns": returns}
