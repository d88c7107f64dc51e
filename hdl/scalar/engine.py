"""The scalar engine: decode ahead, stream rows through the lanes, deliver results and status in order."""

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.fifo import Fifo
from hdl.scalar.control import Control
from hdl.scalar.delay import delay
from hdl.scalar.lane import ScalarLane
from hdl.scalar.layouts import Instruction, Status
from hdl.scalar.parameters import drive_lane_controls
from spec.fifo import FifoConfig
from spec.scalar import ScalarConfig


class ScalarEngine(Block):
    """Rows of ``lanes`` elements in, one row out for each, ``config.latency`` cycles later.

    ``instructions`` are executed in order, back to back: N rows occupy the engine for N cycles. ``operands`` carries
    one row of codes a transfer, ``constants`` rows of fp32 for instructions with per-lane scale or bias (scale first),
    taken while the instruction before still runs. ``results`` gives rows of codes in order; ``status`` one item for
    each instruction, in order, one cycle after its last result has been taken.

    Backpressure: every stream may stall at any time; as many rows are under way as the output queue can hold. Errors:
    an instruction with a wrong field gives its status and nothing else. Reset drops everything under way and clears
    the accumulators.
    """

    config: ScalarConfig

    def __init__(self, config: ScalarConfig) -> None:
        row = data.ArrayLayout(32, config.lanes)
        ports = {
            "instructions": In(stream.Signature(Instruction)),
            "constants": In(stream.Signature(row)),
            "operands": In(stream.Signature(row)),
            "results": Out(stream.Signature(row)),
            "status": Out(stream.Signature(Status)),
        }
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Control, lanes, queues."""
        m = Module()
        config = self.config
        control = Control(config)
        m.submodules.control = place(control, platform)
        m.d.comb += [
            control.instructions.valid.eq(self.instructions.valid),
            control.instructions.payload.eq(self.instructions.payload),
            self.instructions.ready.eq(control.instructions.ready),
            control.constants.valid.eq(self.constants.valid),
            control.constants.payload.eq(self.constants.payload),
            self.constants.ready.eq(control.constants.ready),
            control.operand_valid.eq(self.operands.valid),
            self.operands.ready.eq(control.take),
        ]
        token = delay(m, control.token, config.latency - 1, "token", reset=True)
        results = []
        for index in range(config.lanes):
            lane = ScalarLane(config)
            m.submodules[f"lane_{index}"] = place(lane, platform)
            m.d.comb += [
                lane.element.eq(self.operands.payload[index]),
                lane.format.eq(control.input_format),
                lane.scale.eq(control.scale[index]),
                lane.bias.eq(control.bias[index]),
            ]
            results.append(lane)
        drive_lane_controls(m, config, control.token, results)
        self._deliver(m, platform, control, token, Cat(lane.result for lane in results))
        return m

    def _deliver(self, m: Module, platform: Any, control: Control, token: Any, row: Any) -> None:
        """The output queue, whose free places are the control's credit, and the status queue behind it."""
        config = self.config
        rows = Fifo(FifoConfig(width=len(row) + 5, depth=config.latency + 1))
        codes = Fifo(FifoConfig(width=3, depth=2))
        m.submodules.rows = place(rows, platform)
        m.submodules.codes = place(codes, platform)
        m.d.comb += [
            rows.i.valid.eq(token.row | token.last),
            rows.i.payload.eq(Cat(row, token.row, token.last, token.code)),
        ]
        payload = rows.o.payload
        has_row, last, code = payload[-5], payload[-4], payload[-3:]
        free = ~last | codes.i.ready
        m.d.comb += [
            self.results.payload.as_value().eq(payload[: len(row)]),
            self.results.valid.eq(rows.o.valid & has_row & free),
            rows.o.ready.eq(free & (~has_row | self.results.ready)),
            codes.i.valid.eq(rows.o.valid & last & (~has_row | self.results.ready)),
            codes.i.payload.eq(code),
            control.returned.eq(rows.o.valid & rows.o.ready),
            self.status.valid.eq(codes.o.valid),
            self.status.payload.code.eq(codes.o.payload),
            codes.o.ready.eq(self.status.ready),
        ]
