"""The stream FIFO through its Verilog ports."""

import random
from typing import Any

import cocotb
from cocotb.triggers import ClockCycles

from verif.harness.scoreboard import Scoreboard
from verif.harness.stalls import STALLS, mixed
from verif.harness.streams import StreamSink, StreamSource, reset, start


@cocotb.test()
@cocotb.parametrize(stall=sorted(STALLS))
async def order_is_kept(dut: Any, stall: str) -> None:
    items, board = payloads(dut, 300)
    source, sink = (
        StreamSource(dut, "i", STALLS[stall]),
        StreamSink(dut, "o", mixed(random.Random(cocotb.RANDOM_SEED))("o")),
    )
    await start(dut)
    cocotb.start_soon(source.send(items))
    board.compare(await sink.take(len(items)), items)
    assert board.compared == len(items)


@cocotb.test()
async def reset_in_mid_flight_loses_what_is_stored_and_no_more(dut: Any) -> None:
    items, board = payloads(dut, 300)
    source, sink = StreamSource(dut, "i"), StreamSink(dut, "o", STALLS["half"])
    await start(dut)
    source.put(items)
    await ClockCycles(dut.clk, 50)
    await reset(dut)
    taken, delivered = len(source.stamps), len(sink.stamps)
    expected = items[:delivered] + items[taken:]
    board.compare(await sink.take(len(expected)), expected)


def payloads(dut: Any, count: int) -> tuple[list[int], Scoreboard]:
    width = len(dut.i__payload)
    return [random.getrandbits(width) for _ in range(count)], Scoreboard("o", width)
