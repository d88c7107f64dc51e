"""The vector engine: decode ahead, stream rows of one or two operands through the lanes, deliver in order."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.fifo import Fifo
from hdl.numerics import Cast
from hdl.scalar.delay import delay
from hdl.vector.control import Control
from hdl.vector.lane import VectorLane
from hdl.vector.layouts import Finish, First, Instruction, Second, Status, results_shape
from spec.fifo import FifoConfig
from spec.numerics import CastConfig
from spec.vector import QUADRANT, VectorConfig

SEED_STEP = 0x9E3779B9
"""Lane n starts its random numbers from ``(n + 1) * SEED_STEP | 1``."""


class VectorEngine(Block):
    """Rows of ``lanes`` elements in, rows out, ``config.latency`` cycles later.

    ``instructions`` are executed in order, back to back: N rows occupy the engine for N cycles, with two operands too;
    a reduction for ``N * operation_stages``, a scan for twice that. ``left`` and ``right`` carry a row of codes a
    transfer, ``constants`` a row of words for instructions with per-lane constants (c0 first), taken while the
    instruction before still runs. ``results`` gives rows of codes and which lanes are written; ``status`` one item for
    each instruction, in order, one cycle after its last result has been taken.

    Backpressure: every stream may stall at any time; as many rows are under way as the output queue can hold. Errors:
    an instruction with a wrong field gives its status and nothing else. Reset drops everything under way, sets the
    accumulators to -inf and the generators to their first states.
    """

    config: VectorConfig

    def __init__(self, config: VectorConfig) -> None:
        row = data.ArrayLayout(32, config.lanes)
        ports = {
            "instructions": In(stream.Signature(Instruction)),
            "constants": In(stream.Signature(row)),
            "left": In(stream.Signature(row)),
            "right": In(stream.Signature(row)),
            "results": Out(stream.Signature(results_shape(config.lanes))),
            "status": Out(stream.Signature(Status)),
        }
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Control, index cast, lanes, queues."""
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
            control.left_valid.eq(self.left.valid),
            control.right_valid.eq(self.right.valid),
            self.left.ready.eq(control.take_left),
            self.right.ready.eq(control.take_right),
        ]
        first, second, arrived, finish = self._controls(m, platform, control)
        lanes = []
        for index in range(config.lanes):
            lane = VectorLane(config)
            m.submodules[f"lane_{index}"] = place(lane, platform)
            m.d.comb += [
                lane.left.eq(self._source(index, control)),
                lane.right.eq(self.right.payload[index]),
                lane.left_format.eq(control.left_format),
                lane.right_format.eq(control.right_format),
                lane.raw.eq(control.raw),
                lane.c0.eq(control.c0[index]),
                lane.c1.eq(control.c1[index]),
                lane.number.eq((index + 1) * SEED_STEP & 0xFFFFFFFF | 1),
                lane.first.eq(first),
                lane.second.eq(second),
                lane.arrived.eq(arrived),
                lane.finish.eq(finish),
            ]
            lanes.append(lane)
        self._deliver(m, platform, control, lanes)
        return m

    def _source(self, index: int, control: Control) -> Any:
        """The left element of a lane: its own, or in a shuffle that of another lane of its quadrant."""
        start = index // QUADRANT * QUADRANT
        quadrant = [self.left.payload[lane] for lane in range(start, min(start + QUADRANT, self.config.lanes))]
        others = Cat(quadrant, C(0, 32 * (QUADRANT - len(quadrant))))
        moved = others.word_select(control.c0[index][: QUADRANT.bit_length() - 1], 32)
        return Mux(control.shuffle, moved, self.left.payload[index])

    def _controls(self, m: Module, platform: Any, control: Control) -> tuple[Any, Any, Any, Any]:
        """The token's parts, each delayed to its stage; the index becomes fp32 on the way."""
        config, token = self.config, control.token
        stages = config.operation_stages
        cast = Cast(CastConfig(sources=("int32",), targets=("fp32",)))
        m.submodules.index_cast = place(cast, platform)
        m.d.comb += [cast.code.eq(control.index), cast.saturate.eq(0), cast.stochastic.eq(0), cast.random.eq(0)]
        first, second = Signal(First), Signal(Second)
        m.d.comb += [
            first.eq(delay(m, token.first, 1, "first")),
            first.index.eq(cast.result),
            second.eq(delay(m, token.second, 1 + stages, "second")),
            second.index.eq(delay(m, cast.result, stages, "index")),
        ]
        arrived = delay(m, token.issued, 1 + 2 * stages, "arrived", reset=True)
        late = 1 + config.compute_latency
        finish = Signal(Finish)
        m.d.comb += finish.eq(delay(m, token.finish, late, "finish"))
        m.d.comb += finish.valid.eq(delay(m, token.finish.valid, late, "valid", reset=True))
        return first, second, arrived, finish

    def _deliver(self, m: Module, platform: Any, control: Control, lanes: list[VectorLane]) -> None:
        """The output queue, whose free places are the control's credit, and the status queue behind it."""
        config = self.config
        token = control.token
        token = delay(m, Cat(token.row, token.last, token.code, token.issued), config.latency - 1, "token", reset=True)
        width = 33 * config.lanes
        rows = Fifo(FifoConfig(width=width + 6, depth=config.latency + 1))
        codes = Fifo(FifoConfig(width=3, depth=2))
        m.submodules.rows = place(rows, platform)
        m.submodules.codes = place(codes, platform)
        results = Cat(*(lane.result for lane in lanes), *(lane.written for lane in lanes))
        m.d.comb += [rows.i.valid.eq(token[-1]), rows.i.payload.eq(Cat(results, token))]
        payload = rows.o.payload
        has_row, last, code = payload[width], payload[width + 1], payload[width + 2 : width + 5]
        free = ~last | codes.i.ready
        m.d.comb += [
            self.results.payload.as_value().eq(payload[:width]),
            self.results.valid.eq(rows.o.valid & has_row & free),
            rows.o.ready.eq(free & (~has_row | self.results.ready)),
            codes.i.valid.eq(rows.o.valid & last & (~has_row | self.results.ready)),
            codes.i.payload.eq(code),
            control.returned.eq(rows.o.valid & rows.o.ready),
            self.status.valid.eq(codes.o.valid),
            self.status.payload.code.eq(codes.o.payload),
            codes.o.ready.eq(self.status.ready),
        ]
