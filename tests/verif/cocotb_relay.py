"""cocotb tests of the relay that test_runner.py runs, some of them failing on purpose."""

import random
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles, with_timeout

from tests.verif.harness_blocks import Item
from verif.harness.packing import pack, unpack
from verif.harness.scoreboard import Scoreboard
from verif.harness.stalls import ALWAYS, STALLS
from verif.harness.streams import StreamMonitor, StreamSink, StreamSource, start


def expected(item: int) -> int:
    fields = unpack(Item, item)
    return pack(Item, {**fields, "tag": fields["tag"] + 1})


def items(count: int) -> list[int]:
    return [random.getrandbits(35) for _ in range(count)]


async def prepare(dut: Any, fault: int = 0) -> None:
    dut.fault.value, dut.trigger.value = fault, 0
    await start(dut)


@cocotb.test()
@cocotb.parametrize(stall=sorted(STALLS))
async def passes(dut: Any, stall: str) -> None:
    sent = items(100)
    source, sink = StreamSource(dut, "i", STALLS[stall]), StreamSink(dut, "o", STALLS["half"])
    seen = StreamMonitor(dut, "o")
    await prepare(dut)
    cocotb.start_soon(source.send(sent))
    board = Scoreboard("o", Item)
    board.compare(await sink.take(100), [expected(item) for item in sent])
    assert board.compared == len(seen.items) == 100
    assert seen.stamps == sink.stamps


@cocotb.test()
async def seeded(dut: Any) -> None:
    await prepare(dut)
    cocotb.log.info("drew %d", random.getrandbits(60))


@cocotb.test()
async def finds_a_wrong_golden(dut: Any) -> None:
    source, sink = StreamSource(dut, "i"), StreamSink(dut, "o")
    await prepare(dut)
    await source.send([5])
    Scoreboard("o", Item).compare(await sink.take(1), [5])


@cocotb.test()
@cocotb.parametrize(fault=[1, 2])
async def finds_a_broken_offer(dut: Any, fault: int) -> None:
    source, sink = StreamSource(dut, "i"), StreamSink(dut, "o", ALWAYS)
    await prepare(dut, fault)
    await source.send([5])
    await ClockCycles(dut.clk, 5)
    dut.trigger.value = 1
    await ClockCycles(dut.clk, 5)
    assert sink.items == []


@cocotb.test()
async def finds_a_lost_item(dut: Any) -> None:
    source, sink = StreamSource(dut, "i"), StreamSink(dut, "o")
    await prepare(dut, fault=3)
    dut.trigger.value = 1
    await with_timeout(source.send([5]), 1000, "step")
    await sink.take(1, limit=50)
