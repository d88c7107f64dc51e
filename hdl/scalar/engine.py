"""The scalar engine: decode ahead, stream rows through the lanes, deliver results and status in order."""

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.scalar.control import Control
from hdl.scalar.delay import delay
from hdl.scalar.delivery import Delivery, deliver
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
        delivery = Delivery(FifoConfig(width=32 * config.lanes, depth=config.latency + 1))
        m.submodules.delivery = place(delivery, platform)
        m.d.comb += [
            delivery.valid.eq(token.row | token.last),
            delivery.row.eq(Cat(lane.result for lane in results)),
            delivery.has_row.eq(token.row),
            delivery.last.eq(token.last),
            delivery.code.eq(token.code),
        ]
        deliver(m, self, delivery, control)
        return m
