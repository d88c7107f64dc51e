"""The vector engine: decode ahead, stream rows of one or two operands through the lanes, deliver in order."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.numerics import Cast
from hdl.scalar.delay import delay
from hdl.scalar.delivery import Delivery, deliver
from hdl.vector.control import Control
from hdl.vector.lane import VectorLane
from hdl.vector.layouts import (
    FROM_RIGHT,
    Finish,
    First,
    Instruction,
    Second,
    Status,
    WayFinish,
    WayStep,
    results_shape,
)
from hdl.vector.operand import storage_bits
from hdl.vector.quantize import largest_of
from hdl.vector.transpose import Transposer
from hdl.vector.way import Way
from spec.fifo import FifoConfig
from spec.numerics import CastConfig
from spec.vector import PACKED_BITS, QUADRANT, VectorConfig

SEED_STEP = 0x9E3779B9
"""Lane n starts its random numbers from ``(n + 1) * SEED_STEP | 1``."""


class VectorEngine(Block):
    """Rows of ``lanes`` elements in, rows out, ``config.latency`` cycles later.

    ``instructions`` are executed in order, back to back: N rows occupy the engine for N cycles, with two operands too;
    a reduction for ``N * operation_stages``, a scan for twice that. ``left`` and ``right`` carry a row of codes a
    transfer, ``constants`` a row of words for instructions with per-lane constants (c0 first), taken while the
    instruction before still runs. A packed instruction takes ``config.ways`` elements of a lane a row: their upper half
    comes through ``right`` and leaves as ``more``, where it does not fit into 32 bits. ``results`` gives rows of codes
    and which lanes are written; ``status`` one item for each instruction, in order, one cycle after its last result has
    been taken.

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
            "results": Out(stream.Signature(results_shape(config))),
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
        controls = self._controls(m, platform, control)
        stages = config.operation_stages
        c0, c1 = delay(m, control.c0, 1, "c0"), delay(m, control.c1, 1 + stages, "c1")
        moved = self._transposed(m, platform, control)
        lanes = []
        for index in range(config.lanes):
            lane = VectorLane(config)
            m.submodules[f"lane_{index}"] = place(lane, platform)
            self._drive(m, lane, control, controls, c0[index], c1[index])
            m.d.comb += [
                lane.left.eq(Mux(control.transpose, moved[index], self._source(index, control))),
                lane.right.eq(self.right.payload[index]),
                lane.number.eq((index + 1) * SEED_STEP & 0xFFFFFFFF | 1),
                lane.leads.eq(index % config.scale_lanes == 0),
            ]
            lanes.append(lane)
        for start in range(0, config.lanes, config.scale_lanes):
            group = lanes[start : start + config.scale_lanes]
            largest = largest_of(m, [lane.magnitude for lane in group], f"largest_{start}")
            m.d.comb += [lane.largest.eq(largest) for lane in group]
        ways = self._ways(m, platform, control, controls, c0, c1)
        self._deliver(m, platform, control, lanes, ways)
        return m

    @staticmethod
    def _drive(m: Module, lane: Any, control: Control, controls: dict[str, Any], c0: Any, c1: Any) -> None:
        """What all lanes, or ways, have in common, and the constants."""
        m.d.comb += [
            lane.left_format.eq(control.left_format),
            lane.right_format.eq(control.right_format),
            lane.raw.eq(control.raw),
            lane.c0.eq(c0),
            lane.c1.eq(c1),
            *(getattr(lane, name).eq(value) for name, value in controls.items()),
        ]

    def _ways(
        self, m: Module, platform: Any, control: Control, controls: dict[str, Any], c0: Any, c1: Any
    ) -> list[list[Any]]:
        """Results of the ways beyond the first of each lane: none, one or three; none without a 16-bit format."""
        found: list[list[Any]] = []
        common = {name: Signal(WayStep, name=f"way_{name}") for name in ("first", "second")}
        for name, step in common.items():
            source = controls[name]
            m.d.comb += [
                step.operation.eq(source.operation),
                step.reverse.eq(source.reverse),
                step.right.eq(source.b == FROM_RIGHT),
            ]
        finish: Any = Signal(WayFinish, name="way_finish")
        m.d.comb += [getattr(finish, name).eq(getattr(controls["finish"], name)) for name in WayFinish.members]
        narrow = any(storage_bits(name) == PACKED_BITS for name in self.config.formats)
        for index in range(self.config.lanes):
            left, right = self.left.payload[index], self.right.payload[index]
            sources = [(left[PACKED_BITS:], right[PACKED_BITS:]), (right[:PACKED_BITS], 0), (right[PACKED_BITS:], 0)]
            results = []
            for number, (one, other) in enumerate(sources[: self.config.ways - 1] if narrow else [], start=1):
                way = Way(self.config)
                m.submodules[f"way_{index}_{number}"] = place(way, platform)
                self._drive(m, way, control, {**common, "finish": finish}, c0[index], c1[index])
                m.d.comb += [way.left.eq(one), way.right.eq(other)]
                results.append(way.result)
            found.append(results)
        return found

    def _transposed(self, m: Module, platform: Any, control: Control) -> list[Any]:
        """The row that leaves the squares, one for each block of lanes."""
        size = self.config.block
        row: list[Any] = []
        for start in range(0, self.config.lanes, size):
            square = Transposer(self.config)
            m.submodules[f"transposer_{start}"] = place(square, platform)
            m.d.comb += square.shift.eq(control.transpose)
            for offset in range(size):
                m.d.comb += square.i[offset].eq(self.left.payload[start + offset])
                row.append(square.o[offset])
        return row

    def _source(self, index: int, control: Control) -> Any:
        """The left element of a lane: its own, or in a shuffle that of another lane of its quadrant."""
        start = index // QUADRANT * QUADRANT
        quadrant = [self.left.payload[lane] for lane in range(start, min(start + QUADRANT, self.config.lanes))]
        others = Cat(quadrant, C(0, 32 * (QUADRANT - len(quadrant))))
        moved = others.word_select(control.c0[index][: QUADRANT.bit_length() - 1], 32)
        return Mux(control.shuffle, moved, self.left.payload[index])

    def _controls(self, m: Module, platform: Any, control: Control) -> dict[str, Any]:
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
        late = 1 + config.compute_latency
        finish = Signal(Finish)
        m.d.comb += finish.eq(delay(m, token.finish, late, "finish"))
        m.d.comb += finish.valid.eq(delay(m, token.finish.valid, late, "valid", reset=True))
        return {
            "first": first,
            "second": second,
            "third": delay(m, token.third, 1 + 2 * stages, "third"),
            "arrived": delay(m, token.issued, 1 + 2 * stages, "arrived", reset=True),
            "finish": finish,
        }

    def _deliver(
        self,
        m: Module,
        platform: Any,
        control: Control,
        lanes: list[VectorLane],
        ways: list[list[Any]],
    ) -> None:
        """Results in order; the places of their queue are the control's credit."""
        config = self.config
        token = control.token
        parts = Cat(token.issued, token.packed, token.row, token.last, token.code)
        late = delay(m, parts, config.latency - 1, "token", reset=True)
        packed = late[1:3]
        shape = results_shape(config)
        results = Signal(shape)
        for index, (lane, others) in enumerate(zip(lanes, ways, strict=True)):
            m.d.comb += [results.row[index].eq(lane.result), results.written[index].eq(lane.written)]
            if others:
                both = Cat(lane.result[:PACKED_BITS], others[0])
                m.d.comb += results.row[index].eq(Mux(packed != 0, both, lane.result))
            if len(others) > 1:
                m.d.comb += results.more[index].eq(Mux(packed == 2, Cat(others[1:]), 0))
        delivery = Delivery(FifoConfig(width=shape.size, depth=config.latency + 1))
        m.submodules.delivery = place(delivery, platform)
        m.d.comb += [
            delivery.valid.eq(late[0]),
            delivery.row.eq(results),
            Cat(delivery.has_row, delivery.last, delivery.code).eq(late[3:]),
        ]
        deliver(m, self, delivery, control)
