import binascii

import numpy as np
import pytest
from amaranth.hdl import Const, Module, Signal
from amaranth.sim import Simulator

from golden.link.link import End, crc, goodput_bound
from hdl.link.crc import crc as crc_in_gates
from spec.link import ERROR_RATE, FALSE_DEATH, CableConfig, LinkConfig, RouterConfig
from spec.parameters import ParameterError
from spec.topology import Torus
from verif.link.layer import carry, flips


def test_check_sum_is_the_published_one() -> None:
    message = b"123456789"
    assert crc(int.from_bytes(message, "big"), 72, 16) == binascii.crc_hqx(message, 0xFFFF) == 0x29B1


@pytest.mark.parametrize("width", [8, 16, 32])
def test_check_sum_in_gates_is_that_of_golden(width: int) -> None:
    m, bits, out = Module(), Signal(61), Signal(width)
    m.d.comb += out.eq(crc_in_gates(bits, width))

    async def bench(context) -> None:  # type: ignore[no-untyped-def]
        for value in np.random.default_rng(1).integers(0, 1 << 61, 50):
            context.set(bits, int(value))
            await context.delay(1e-9)
            assert context.get(out) == crc(int(value), 61, width)

    simulator = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()  # type: ignore[no-untyped-call]  # the stubs leave it bare
    assert len(crc_in_gates(Const(0, 8), width)) == width


@pytest.mark.parametrize("width", [8, 16, 32])
def test_every_error_of_up_to_three_bits_is_found(width: int) -> None:
    bits = LinkConfig(crc_bits=width).frame_bits - width
    single = [crc(0, bits, width) ^ crc(1 << bit, bits, width) for bit in range(bits)] + [1 << b for b in range(width)]
    pairs = {a ^ b for index, a in enumerate(single) for b in single[:index]}
    assert len(set(single)) == len(single)
    assert 0 not in pairs
    assert not pairs & set(single)


@pytest.mark.parametrize("rate", [0.0, 1e-4, 1e-3, 5e-3])
def test_nothing_is_lost_doubled_or_reordered(rate: float) -> None:
    config, cycles, rng = LinkConfig(), 3000, np.random.default_rng(2)
    items = (list(range(cycles)), list(range(cycles, 2 * cycles)))
    errors = (flips(rng, config, rate, cycles), flips(rng, config, rate, cycles))
    carried = carry(config, errors, items, cycles, cycles)
    for direction in range(2):
        received = carried.payloads[direction]
        assert received == items[direction][: len(received)]
        # The bound takes every request for a repeat to arrive; beyond the rate the link is made for, many do not.
        share = 0.6 if rate <= 1e-3 else 0.3
        assert len(received) > share * goodput_bound(config, rate) * cycles


def test_a_receiver_that_ignores_sequence_numbers_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    config, cycles, rng = LinkConfig(), 1000, np.random.default_rng(4)
    errors = (flips(rng, config, 2e-3, cycles), flips(rng, config, 2e-3, cycles))
    items = (list(range(cycles)), list(range(cycles)))
    step = End.step

    def careless(end: End, receive: int, offer: int | None) -> int | None:
        offset = config.payload_bits + 1
        mask = ((1 << config.sequence_bits) - 1) << offset
        body = config.frame_bits - config.crc_bits
        if receive >> body == crc(receive & ((1 << body) - 1), body, config.crc_bits):
            receive = receive & ~mask | (end.expected << offset) & mask
            low = receive & ((1 << body) - 1)
            receive = low | crc(low, body, config.crc_bits) << body
        return step(end, receive, offer)

    monkeypatch.setattr(End, "step", careless)
    received = carry(config, errors, items, cycles, cycles).payloads[0]
    assert received != items[0][: len(received)]


def test_a_cut_wire_kills_both_ends_and_the_sender_goes_on() -> None:
    config = LinkConfig()
    cycles = 100 + (config.retries + 3) * config.timeout
    none = ([0] * cycles, [0] * cycles)
    ends = carry(config, none, (list(range(cycles)), []), cycles, 100).ends
    assert ends[0].dead, "no progress"
    assert ends[1].dead, "had nothing to send, but heard nothing either"
    assert ends[0].ready


def test_a_timeout_in_which_no_acknowledgement_can_come_is_refused() -> None:
    round_trip = LinkConfig(wire_cycles=11).round_trip
    assert LinkConfig(wire_cycles=11, timeout=round_trip + 1).timeout > round_trip
    with pytest.raises(ParameterError, match=f"more than the round trip of {round_trip}"):
        LinkConfig(wire_cycles=11, timeout=round_trip)


def deaths(config: LinkConfig, rate: float, payloads: int, gap: int, rng: np.random.Generator) -> int:
    """How often noise alone ends a cable that is given a payload every ``gap`` cycles, and a new one each time."""
    errors = [flips(rng, config, rate, payloads * gap) for _ in range(2)]
    count, ends = 0, [End(config), End(config)]
    for cycle in range(payloads * gap):
        seen = [end.transmit ^ errors[number][cycle] for number, end in enumerate(ends)]
        for number, end in enumerate(ends):
            end.step(seen[1 - number], 5 if number == cycle % gap == 0 and end.ready else None)
        if ends[0].dead or ends[1].dead:
            count, ends = count + 1, [End(config), End(config)]
    return count


def test_the_chance_of_a_false_death_is_the_stated_one() -> None:
    config = LinkConfig(payload_bits=7, sequence_bits=3, crc_bits=8, wire_cycles=0, timeout=9, retries=3)
    rate, payloads, gap = 2e-2, 600, 10
    expected = payloads * config.false_death(rate)
    # A bound, and where payloads are rare a tight one; deaths are rare and independent.
    assert 0.5 * expected < deaths(config, rate, payloads, gap, np.random.default_rng(3)) < expected + 4 * expected**0.5
    assert deaths(config.replace(retries=12), rate, payloads, gap, np.random.default_rng(3)) == 0


def test_a_cable_that_noise_would_end_is_refused() -> None:
    router = RouterConfig(torus=Torus(sizes=(3,)))
    assert CableConfig(router=router).layer.false_death(ERROR_RATE) < FALSE_DEATH
    with pytest.raises(ParameterError, match=r"link\.retries = 3: legal is enough for frames of 165 bits"):
        CableConfig(router=router, link=LinkConfig(retries=3))
