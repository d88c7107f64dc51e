from collections import deque
from typing import Any

import numpy as np
import pytest
from amaranth.sim import Simulator

from golden.ecc import encode
from golden.hbm.device import Command, Device
from hdl.hbm.controller import HbmController
from hdl.hbm.layouts import SECDED, WORDS
from spec.hbm import LINE_ACCESSES
from spec.hbm_controller import ACTIVATE_PHASE, PRECHARGE_PHASE, SMALL_CHANNEL, HbmControllerConfig

SMALL = HbmControllerConfig(
    geometry=SMALL_CHANNEL, read_lines=4, write_lines=8, high_water=7, low_water=1, prepare=2, tag_bits=12
)
ROWS = {1: Command.ACT, 2: Command.PRE, 3: Command.REFPB}
HALVES_OF_A_SLOT = 4


def words(rng: np.random.Generator) -> list[int]:
    return [int.from_bytes(rng.bytes(8)) for _ in range(WORDS)]


def stimulus(count: int, seed: int, places: int = 24) -> list[dict[str, Any]]:
    """Lines over few places, so that reads follow writes; every fifth write carries a wrong bit, every ninth two."""
    rng = np.random.default_rng(seed)
    spots = [
        {"bank": int(rng.integers(8)), "row": int(rng.integers(2)), "column": int(rng.integers(4)) * 2}
        for _ in range(places)
    ]
    lines = []
    for tag in range(count):
        write = tag < places or bool(rng.integers(2))
        place = spots[tag] if tag < places else spots[rng.integers(places)]
        wrong = 2 if tag % 9 == 8 else 1 if tag % 5 == 4 else 0
        mask = sum(1 << int(bit) for bit in rng.choice(SECDED.width, wrong, replace=False))
        flips = {"word": int(rng.integers(LINE_ACCESSES * WORDS)), "mask": mask}
        data = [words(rng) for _ in range(LINE_ACCESSES)]
        lines.append({"write": write, "place": place, "tag": tag, "data": data, "inject": flips})
    return lines


def expected(lines: list[dict[str, Any]]) -> dict[tuple[int, int], tuple[list[int] | None, set[bool], bool]]:
    """For each tag and half of a read: data of the last write before it (None if lost), corrected, lost.

    The first read of a line with one wrong bit finds it; from then on scrubbing may be first.
    """
    memory: dict[Any, Any] = {}
    found: set[Any] = set()
    answers = {}
    for line in lines:
        key = tuple(line["place"].values())
        if line["write"]:
            memory[key] = line
            continue
        written = memory[key]
        flips = written["inject"]
        for half in range(LINE_ACCESSES):
            wrong = flips["mask"].bit_count() if flips["word"] // WORDS == half else 0
            data = written["data"][half] if wrong < 2 else None
            corrected = {wrong == 1, False} if key in found else {wrong == 1}
            answers[line["tag"], half] = data, corrected, wrong == 2
        found |= {key}
    return answers


def play(config: HbmControllerConfig, lines: list[dict[str, Any]], corrupt: int = 0) -> dict[Any, Any]:
    """Run the controller against the checking device; ``corrupt`` flips a bit of every answer of the device."""
    dut: Any = HbmController(config)
    device = Device(config.timing, config.geometry)
    answers: dict[Any, Any] = {}
    wanted = sum(LINE_ACCESSES for line in lines if not line["write"])

    async def bench(ctx: Any) -> None:
        ahead: deque[list[int]] = deque([[0] * WORDS] * config.slots.read_latency)
        storing: Any = None
        following = slot = 0
        while len(answers) < wanted:
            assert slot < 200 * len(lines), "the controller stands still"
            if following < len(lines):
                ctx.set(dut.request.payload, lines[following])
            ctx.set(dut.request.valid, following < len(lines))
            ctx.set(dut.even, slot % 2 == 0)
            ctx.set(dut.read_data, ahead.popleft())
            response = ctx.get(dut.response)
            if response.valid:
                got = response.payload
                answers[got.tag, int(got.last)] = list(got.data), bool(got.corrected), bool(got.lost)
            row, column = ctx.get(dut.row), ctx.get(dut.column)
            if storing is not None:
                device.memory[storing] = b"".join(int(w).to_bytes(9, "little") for w in ctx.get(dut.write_data))
                storing = None
            found = [0] * WORDS
            time = slot * HALVES_OF_A_SLOT
            events = []
            if column.enable:
                events.append((0, Command.WR if column.write else Command.RD, column.bank, column.column))
            if row.kind.value:
                phase = PRECHARGE_PHASE if row.kind.value == 2 else ACTIVATE_PHASE
                events.append((phase, ROWS[row.kind.value], row.bank, row.row))
            for phase, kind, bank, place in sorted(events, key=lambda event: event[0]):
                stored = device.command(time + phase, 0, kind, bank, place)
                if kind is Command.WR:
                    storing = (0, bank, device.channels[0].banks[bank].row, place)
                if kind is Command.RD:
                    assert stored is not None, "read of what was never written"
                    found = [int.from_bytes(stored[9 * i : 9 * i + 9], "little") for i in range(WORDS)]
                    found[0] ^= corrupt
            ahead.append(found)
            following += bool(following < len(lines) and ctx.get(dut.request.ready))
            await ctx.tick()
            slot += 1

    simulator: Any = Simulator(dut)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return answers


@pytest.mark.parametrize("in_order", [False, True])
def test_every_read_returns_the_last_write_before_it_with_single_errors_corrected_and_double_ones_reported(
    in_order: bool,
) -> None:
    lines = stimulus(120, seed=1)
    answers = play(SMALL.replace(in_order=in_order), lines)
    wanted = expected(lines)
    assert answers.keys() == wanted.keys()
    for key, (data, corrected, lost) in wanted.items():
        got, got_corrected, got_lost = answers[key]
        assert got_lost == lost
        assert lost or (got == data and got_corrected in corrected)
    assert {(min(corrected), lost) for _, corrected, lost in wanted.values()} >= {(True, False), (False, True)}
    assert any(len(corrected) == 2 and not answers[key][1] for key, (_, corrected, _) in wanted.items()), (
        "never scrubbed"
    )


def test_a_bit_that_the_device_flips_is_reported_on_every_read() -> None:
    lines = stimulus(60, seed=2)
    clean, dirty = expected(lines), play(SMALL, lines, corrupt=1 << 70)
    for key, (data, corrected, lost) in clean.items():
        if corrected == {False} and not lost:
            assert dirty[key] == (data, True, False)


def test_codewords_on_the_bus_are_those_of_golden() -> None:
    word = 0x0123_4567_89AB_CDEF
    assert encode(SECDED, word) & ((1 << SECDED.data) - 1) == word
