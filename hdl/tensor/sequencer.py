"""Control of the tensor engine: takes instructions, feeds the array, keeps PSUM safe, reports."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block
from hdl.tensor.layouts import COUNTERS, STATUS, address_layout, request_layout, row_control
from spec.tensor import (
    MOST_TILES,
    OPERAND_CODES,
    Kind,
    Operation,
    ResultFormat,
    Status,
    TensorConfig,
    operand_kind,
)


class Sequencer(Block):
    """Takes at most one instruction a cycle, in order, and gives one status for each, in the same order.

    A load runs beside the matmul before it, so the stationary for the next matmul is ready when that one ends. A load
    is taken once the load before takes its last operands and the matmul that uses the stationary before has begun; a
    matmul once the one before takes its last column. Its first column waits for its stationary, and any column that
    accumulates waits until its location is not in flight; nothing else ever waits, except for the operands and for room
    in the queue of statuses. :func:`golden.tensor.program.timing` states all of it in cycles.

    A refused instruction takes its operands and drops them. ``control`` describes the operands that are taken in the
    same cycle. ``done`` counts a matmul as complete; loads are complete when their last operands are taken.
    Reset forgets every instruction taken.
    """

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        ports = {
            "requests": In(stream.Signature(request_layout(config))),
            "status": Out(stream.Signature(STATUS)),
            "stationary_valid": In(1),
            "stationary_ready": Out(1),
            "moving_valid": In(1),
            "moving_ready": Out(1),
            "control": Out(row_control(config)),
            "done": In(1),
            "start": Out(address_layout(config)),
            "columns": Out(range(config.moving_columns + 1)),
            "mark": Out(1),
            "all_written": In(1),
            "counters": Out(COUNTERS),
        }
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Judge, load, multiply, report."""
        m = Module()
        request = self.requests.payload
        self.taken = self.requests.valid & self.requests.ready
        self.loading = request.operation == Operation.LOAD_STATIONARY
        self.room = Signal()
        self.verdict = Signal(Status)
        self.select = Signal(self.control.select.shape())
        self.kind = Signal(Kind)
        self.swap_pending, self.swap_now = Signal(), Signal()
        self.state: dict[str, Signal] = {}  # registers that proofs name

        fresh = self._judge(m)
        load_free, load_active, loaded = self._load(m)
        matmul_free = self._multiply(m, fresh, load_active)
        m.d.comb += self.requests.ready.eq(self.room & Mux(self.loading, load_free & ~self._blocked(), matmul_free))
        self._report(m, loaded)
        return m

    def _blocked(self) -> Any:
        """Whether a load would overwrite a stationary that a matmul has yet to begin with."""
        return self.swap_pending & ~self.swap_now

    def _judge(self, m: Module) -> Signal:
        """The verdict on the instruction offered, and the state it depends on: is there a stationary, is it unused."""
        config, request = self.config, self.requests.payload
        known, exists, fresh = Signal(), Signal(), Signal()
        kind_stationary = Signal(Kind)
        with m.Switch(request.format):
            for position, name in enumerate(config.operands):
                with m.Case(OPERAND_CODES[name]):
                    m.d.comb += [known.eq(1), self.select.eq(position), self.kind.eq(operand_kind(name))]

        dense = ~request.sparse
        if config.sparsity:
            dense |= self.kind == Kind.NUMBER
        narrow = request.result != ResultFormat.FP32
        if config.bf16_results:
            narrow = (request.result > ResultFormat.BF16_STOCHASTIC) | (narrow & (self.kind == Kind.BITS))
        fits = known & Mux(self.loading, dense, ~narrow)
        most = Mux(self.loading, config.columns, config.moving_columns)
        inside = Mux(self.loading, self._inside_array(), self._inside_psum())
        m.d.comb += [
            self.start.offset.eq(request.offset),
            self.start.bank.eq(request.bank),
            self.columns.eq(request.columns),
            self.mark.eq(self.taken & ~self.loading & (self.verdict == Status.OK)),
        ]
        with m.If(~fits):
            m.d.comb += self.verdict.eq(Status.FORMAT)
        with m.Elif((request.columns == 0) | (request.columns > most)):
            m.d.comb += self.verdict.eq(Status.COLUMNS)
        with m.Elif(~inside):
            m.d.comb += self.verdict.eq(Status.ADDRESS)
        with m.Elif(~self.loading & ~exists):
            m.d.comb += self.verdict.eq(Status.STATIONARY)
        with m.Elif(~self.loading & request.accumulate & ~self.all_written):
            m.d.comb += self.verdict.eq(Status.UNWRITTEN)
        with m.Elif(~self.loading & (self.kind != kind_stationary)):
            m.d.comb += self.verdict.eq(Status.KIND)
        with m.Else():
            m.d.comb += self.verdict.eq(Status.OK)

        with m.If(self.taken & self.loading):
            m.d.sync += [exists.eq(self.verdict == Status.OK), fresh.eq(self.verdict == Status.OK)]
            m.d.sync += kind_stationary.eq(self.kind)
        with m.Elif(self.mark):
            m.d.sync += fresh.eq(0)
        self.state |= {"exists": exists, "fresh": fresh}
        return fresh

    def _inside_array(self) -> Any:
        """Whether the columns of a load lie in the array and begin with a group."""
        config, request = self.config, self.requests.payload
        aligned = ~request.offset[: config.load_columns.bit_length() - 1].any()
        return aligned & (request.offset + request.columns <= config.columns)

    def _inside_psum(self) -> Any:
        """Whether the results of a matmul lie in PSUM and, unless they may cross banks, in one bank for each tile."""
        config, request = self.config, self.requests.payload
        inside = (request.bank < config.psum_banks) & (request.offset < config.bank_depth)
        unknown = request.masked[config.tiles if config.tiles > 1 else 0 :]
        inside &= (request.split < config.splits) & ~unknown.any()
        end = request.offset + request.columns
        tile = end <= config.bank_depth
        whole = tile
        if config.whole_psum:
            # The bank's first address is its number followed by zeros: depths are powers of two.
            low = (config.bank_depth - 1).bit_length()
            whole = Cat(request.offset[:low], request.bank) + request.columns <= config.psum_depth
        if config.tiles > 1:
            split = request.split != 0
            beyond = Mux(split, Mux(request.split == 1, 1, MOST_TILES - 1), 0)
            inside &= (request.bank + beyond < config.psum_banks) & Mux(split, tile, whole)
        else:
            inside &= whole
        return inside

    def _load(self, m: Module) -> tuple[Any, Signal, Any]:
        """Take groups of columns. Returns whether it can begin anew, whether it is at work, and when a load is done."""
        config, request, control = self.config, self.requests.payload, self.control
        active, drop = Signal(name="load_active"), Signal(name="load_drop")
        left = Signal(config.columns_bits, name="load_left")
        group = Signal(control.load_group.shape())
        select = Signal(control.load_select.shape(), name="load_select")
        moved = active & self.stationary_valid
        last = left <= config.load_columns
        self.state |= {"load_active": active, "load_drop": drop, "load_left": left}
        if config.sparsity:
            sparse = Signal(name="load_sparse")
            m.d.comb += control.load_sparse.eq(sparse)
            with m.If(self.taken & self.loading):
                m.d.sync += sparse.eq(request.sparse)
        m.d.comb += [
            self.stationary_ready.eq(active),
            control.load.eq(moved & ~drop),
            control.load_group.eq(group),
            control.load_select.eq(select),
        ]
        with m.If(moved):
            m.d.sync += [left.eq(left - config.load_columns), group.eq(group + 1), active.eq(~last)]
        with m.If(self.taken & self.loading):
            m.d.sync += [
                active.eq(request.columns != 0),
                drop.eq(self.verdict != Status.OK),
                left.eq(request.columns),
                group.eq(request.offset >> config.load_columns.bit_length() - 1),
                select.eq(self.select),
            ]
        return ~active | (moved & last), active, moved & last & ~drop

    def _multiply(self, m: Module, fresh: Signal, load_active: Signal) -> Any:
        """Take moving columns. Returns whether it can begin anew."""
        config, request, control = self.config, self.requests.payload, self.control
        active, drop = Signal(name="matmul_active"), Signal(name="matmul_drop")
        left = Signal(config.columns_bits, name="matmul_left")
        swap, accumulate, moved_bits = Signal(), Signal(), Signal()
        address = Signal(range(config.psum_depth))
        select = Signal(control.select.shape(), name="matmul_select")

        permitted, moved, issued = Signal(), Signal(), Signal()
        self.state |= {"active": active, "drop": drop, "left": left, "swap": swap, "address": address}
        token = control.column
        options = self._options(m, token)
        in_flight = self._in_flight(m, issued, address, token.split if config.tiles > 1 else Const(0))
        held = (swap & load_active) | (accumulate & in_flight)
        last = left == 1
        m.d.comb += [
            permitted.eq(active & (drop | ~held)),
            moved.eq(permitted & self.moving_valid),
            issued.eq(moved & ~drop),
            self.moving_ready.eq(permitted),
            self.swap_pending.eq(active & swap),
            self.swap_now.eq(issued & swap),
            control.swap.eq(self.swap_now),
            control.select.eq(select),
            token.valid.eq(issued),
            token.accumulate.eq(accumulate),
            token.moved.eq(moved_bits),
            token.last.eq(last),
            token.address.as_value().eq(address),
        ]
        with m.If(moved):
            m.d.sync += [left.eq(left - 1), address.eq(address + 1), swap.eq(0), active.eq(~last)]
        with m.If(self.taken & ~self.loading):
            m.d.sync += [
                active.eq(request.columns != 0),
                drop.eq(self.verdict != Status.OK),
                left.eq(request.columns),
                swap.eq(fresh & (self.verdict == Status.OK)),
                accumulate.eq(request.accumulate),
                moved_bits.eq(self.kind == Kind.BITS),
                address.eq(self.start.as_value()),
                select.eq(self.select),
                *options,
            ]
        counters = self.counters
        m.d.sync += [
            counters.columns.eq(counters.columns + issued),
            counters.starved.eq(counters.starved + (permitted & ~drop & ~self.moving_valid)),
            counters.held.eq(counters.held + (active & ~permitted)),
        ]
        return ~active | (moved & last)

    def _options(self, m: Module, token: Any) -> list[Any]:
        """Registers for what a matmul says beyond its address; returns what fills them when it is taken."""
        config, request = self.config, self.requests.payload
        options: list[Any] = []
        if config.tiles > 1:
            split, masked = Signal(token.split.shape()), Signal(config.tiles)
            m.d.comb += [token.split.eq(split), token.masked.eq(masked)]
            options += [split.eq(request.split), masked.eq(request.masked)]
        if config.bf16_results:
            result = Signal(ResultFormat)
            m.d.comb += [
                token.narrow.eq(result != ResultFormat.FP32),
                token.stochastic.eq(result == ResultFormat.BF16_STOCHASTIC),
            ]
            options.append(result.eq(request.result))
        return options

    def _in_flight(self, m: Module, issued: Signal, address: Signal, split: Any) -> Any:
        """Whether a location of a column issued now may belong to one before whose result it would read too early.

        With rows split, by one of the two, locations of the same offset in any bank count as the same.
        """
        hits = []
        low = (self.config.bank_depth - 1).bit_length()
        valid, before, parts = issued, address, split
        for age in range(1, self.config.accumulate_distance):
            older_valid, older = Signal(name=f"valid_{age}"), Signal(address.shape(), name=f"address_{age}")
            m.d.sync += [older_valid.eq(valid), older.eq(before)]
            same = older == address
            if self.config.tiles > 1:
                older_split = Signal(name=f"split_{age}")
                m.d.sync += older_split.eq(parts.any())
                same |= (older_split | split.any()) & (older[:low] == address[:low])
                parts = older_split
            hits.append(older_valid & same)
            valid, before = older_valid, older
        return Cat(hits).any()

    def _report(self, m: Module, loaded: Any) -> None:
        """A queue of instructions taken. The oldest one's status is offered once its work is done."""
        depth = self.config.queue_depth
        operations = Array(Signal(Operation, name=f"operation_{index}") for index in range(depth))
        verdicts = Array(Signal(Status, name=f"verdict_{index}") for index in range(depth))
        head, tail, count = Signal(range(depth)), Signal(range(depth)), Signal(range(depth + 1))
        loads, matmuls = Signal(range(depth + 1)), Signal(range(depth + 1))

        operation, verdict = Signal(Operation), Signal(Status)
        refused, was_load, given = Signal(), Signal(), Signal()
        m.d.comb += [
            operation.eq(operations[head]),
            verdict.eq(verdicts[head]),
            refused.eq(verdict != Status.OK),
            was_load.eq(operation == Operation.LOAD_STATIONARY),
            self.status.payload.operation.eq(operation),
            self.status.payload.status.eq(verdict),
            self.status.valid.eq((count != 0) & (refused | Mux(was_load, loads != 0, matmuls != 0))),
            given.eq(self.status.valid & self.status.ready),
            self.room.eq(count != depth),
        ]
        self.state["count"] = count
        m.d.sync += [
            count.eq(count + self.taken - given),
            loads.eq(loads + loaded - (given & ~refused & was_load)),
            matmuls.eq(matmuls + self.done - (given & ~refused & ~was_load)),
        ]
        with m.If(self.taken):
            m.d.sync += [
                operations[tail].eq(self.requests.payload.operation),
                verdicts[tail].eq(self.verdict),
                tail.eq(Mux(tail == depth - 1, 0, tail + 1)),
            ]
        with m.If(given):
            m.d.sync += head.eq(Mux(head == depth - 1, 0, head + 1))
