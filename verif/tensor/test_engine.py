"""The tensor engine through its Verilog ports: what a user of the module sees, one stream item at a time."""

import random
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles

from golden.tensor.array import Engine, run
from hdl.tensor.layouts import STATUS, read_layout, result_layout
from spec.tensor import Status, TensorConfig
from verif.harness.packing import from_words, pack, unpack
from verif.harness.scoreboard import Scoreboard
from verif.harness.stalls import NEVER, STALLS, Chooser, mixed
from verif.harness.streams import StreamSink, StreamSource, reset, start
from verif.tensor.driver import stream_items
from verif.tensor.stimulus import Program, Writer

CONFIG = TensorConfig(rows=2, columns=3, load_columns=2, hop_columns=2, psum_banks=2, psum_bank_bytes=16, add_stages=1)
"""Small: what the compiled bench cannot show here is the ports, not the arithmetic."""


class Ports:
    """Agents on all streams."""

    def __init__(self, dut: Any, stall: Chooser = lambda _: NEVER) -> None:
        self.sources = {name: StreamSource(dut, name, stall(name)) for name in ("requests", "stationary", "moving")}
        self.reads = StreamSource(dut, "reads", stall("reads"))
        self.status = StreamSink(dut, "status", stall("status"))
        self.results = StreamSink(dut, "results", stall("results"))

    def put(self, program: Program) -> None:
        """Offer a program and its operands."""
        for name, words in stream_items(CONFIG, program).items():
            self.sources[name].put(from_words(words))

    async def check(self, program: Program) -> None:
        """Run a program from reset: every status, then every location of PSUM."""
        engine, statuses = run(CONFIG, program)
        self.put(program)
        board = Scoreboard("status", STATUS)
        golden = [
            pack(STATUS, {"operation": int(instruction.operation), "status": int(status)})
            for (instruction, _), status in zip(program, statuses, strict=True)
        ]
        board.compare(await self.status.take(len(program)), golden)
        assert board.compared == len(program)
        await self.check_psum(engine)

    async def check_psum(self, engine: Engine) -> None:
        """Every location: its values if it was written, and whether it was."""
        layout = result_layout(CONFIG)
        for address in range(CONFIG.psum_depth):
            bank, offset = divmod(address, CONFIG.bank_depth)
            self.reads.put([pack(read_layout(CONFIG), {"bank": bank, "offset": offset})])
        values = await self.results.take(CONFIG.psum_depth)
        written = [bool(unpack(layout, value)["written"]) for value in values]
        assert written == engine.written[0].tolist()
        width = 32 * CONFIG.columns
        words = [sum(int(word) << (32 * lane) for lane, word in enumerate(column)) for column in engine.psum.T]
        board = Scoreboard("results", width)
        board.compare(
            [value % (1 << width) for value, there in zip(values, written, strict=True) if there],
            [word for word, there in zip(words, written, strict=True) if there],
        )


def writer() -> Writer:
    return Writer(CONFIG, np.random.default_rng(cocotb.RANDOM_SEED))


@cocotb.test()
async def random_programs_under_mixed_stalls(dut: Any) -> None:
    ports = Ports(dut, mixed(random.Random(cocotb.RANDOM_SEED)))
    await start(dut)
    await ports.check(writer().random(60, errors=0.3))


@cocotb.test()
@cocotb.parametrize(stall=["never", "half"])
async def a_refused_instruction_drops_its_operands_and_the_next_one_runs(dut: Any, stall: str) -> None:
    ports, write = Ports(dut, lambda _: STALLS[stall]), writer()
    await start(dut)
    program = [write.matmul(3, 0), write.load(), write.matmul(2, 0), write.matmul(4, 0, accumulate=True)]
    program += [write.matmul(2, 0, accumulate=True), write.load(2), write.matmul(4, 4)]
    assert [status for status in run(CONFIG, program)[1] if status != Status.OK] == [
        Status.STATIONARY,
        Status.UNWRITTEN,
    ]
    await ports.check(program)


@cocotb.test()
async def reset_in_mid_flight_forgets_everything(dut: Any) -> None:
    ports, write = Ports(dut), writer()
    await start(dut)
    ports.put([write.load(), write.matmul(4, 0)])
    await ClockCycles(dut.clk, CONFIG.load_cycles + 4 + 4)
    assert len(ports.sources["moving"].stamps) == 4, "the matmul is not in flight yet"
    await reset(dut)
    await ClockCycles(dut.clk, CONFIG.latency + 5)
    assert len(ports.status.stamps) == 1, "more than the load's status came: the matmul outlived the reset"
    await ports.status.take(1)
    await ports.check_psum(Engine(CONFIG))
    await ports.check(write.random(20))
