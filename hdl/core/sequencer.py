"""The program of one engine: fetch, wait, check, issue in order."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.check import (
    BESIDE_SIZE,
    CONSTANT_USERS,
    READ_ACCUMULATOR,
    Check,
    Operand,
    constant_wrong,
    format_size,
    marks,
    partitions_wrong,
    tensor_reasons,
    tensor_size,
    transfer_reasons,
    vector_entry,
    vector_size,
    worst,
)
from hdl.core.fetch import LINES, Fetch
from hdl.core.layouts import (
    CHANGE,
    COUNTER_BITS,
    EXTENT,
    FAULT,
    LINE_BITS,
    START,
    UPDATE,
    answer,
    bits,
    form_layout,
    issue_layout,
    line_request,
    transfer_layout,
)
from hdl.core.unit import drive_update
from hdl.vector.decode import needs_of
from hdl.vector.layouts import CODE
from spec.core import ENGINES, LINE_BYTES, WORD_BYTES, SequencerConfig
from spec.isa import ALU, COMPARE, DIMENSIONS, FORMS, OPERATIONS, REASON, UPDATES
from spec.vector import SEARCH_SLOTS

OPCODE = {name: entry.opcode for name, entry in OPERATIONS.items()}
NONE = UPDATES.index("none")
PATTERNS = 3
LOCATION = PATTERNS - 1
"""Which register a tensor instruction adds to its location; the others are its patterns'."""
ELEMENT_WISE = ("vector", "scalar")
"""Engines whose last pattern is that of results."""


class Sequencer(Block):
    """Executes control instructions itself, issues the engine's to ``issue`` and transfers to ``transfers``, in order.

    ``start`` loads a program; ``stop`` lets it issue nothing more. ``update`` asks for changes of semaphores,
    ``change`` tells of all. ``fault`` is valid from the cycle in which an instruction is refused until the next
    start. ``running``: not halted, not stopped by a fault. ``waiting``: for semaphore ``awaited`` to be at least
    ``target``; it ``holds`` less. ``parked``: nothing will come of it before the next start.

    An instruction: one cycle to decode; a wait takes three or more; a check of an engine's instruction or a transfer
    one for each dimension, and one to be handed over; a control instruction one, a word of HBM one more and, to be
    loaded, until it comes; an update as long as it takes to be taken. The descriptors of a ring are fetched and
    executed as transfers of the program would be, in its place; its own update follows the last one's.
    """

    config: SequencerConfig

    def __init__(self, config: SequencerConfig) -> None:
        core = config.core
        ports = {
            "start": In(1),
            "stop": In(1),
            "program": In(START),
            "change": In(CHANGE),
            "update": Out(stream.Signature(UPDATE)),
            "transfers": Out(stream.Signature(transfer_layout())),
            "lines": Out(stream.Signature(line_request(core))),
            "answer": In(answer(LINE_BITS)),
            "fault": Out(FAULT),
            "running": Out(1),
            "waiting": Out(1),
            "awaited": Out(8),
            "target": Out(signed(32)),
            "counter": Out(COUNTER_BITS),
            "issued": Out(32),
            "holds": Out(signed(32)),
            "parked": Out(1),
        }
        if config.engine != "sync":
            ports["issue"] = Out(stream.Signature(issue_layout(config.engine)))
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Fetch and the state machine."""
        m = Module()
        core, engine = self.config.core, self.config.engine
        fetch = Fetch(core)
        m.submodules.fetch = place(fetch, platform)
        program = Signal(START)
        jump, finished = Signal(), Signal()
        ring = Signal(data.StructLayout({"program": START, "mask": COUNTER_BITS, "left": 16, "update": UPDATE}))
        inside, enter, leave = Signal(), Signal(), Signal()
        word = fetch.words.payload
        control = data.View(form_layout("control"), word[: form_layout("control").size])
        transfer = data.View(form_layout("dma"), word[: form_layout("dma").size])
        own = data.View(form_layout(engine), word[: form_layout(engine).size]) if engine != "sync" else None
        m.d.comb += [
            fetch.program.eq(Mux(self.start, self.program, Mux(inside, ring.program, program))),
            fetch.mask.eq(Mux(inside, ring.mask, ~0)),
            fetch.go.eq(self.start | jump | enter | leave),
            self.lines.valid.eq(fetch.lines.valid),
            self.lines.payload.eq(fetch.lines.payload),
            fetch.lines.ready.eq(self.lines.ready),
            fetch.answer.data.eq(self.answer.data),
            fetch.answer.valid.eq(self.answer.valid),
            fetch.words.ready.eq(finished),
            self.fault.engine.eq(ENGINES.index(engine)),
        ]
        self.word, self.control, self.transfer, self.own, self.fetch = word, control, transfer, own, fetch
        registers = self._registers(m)
        is_dma = control.opcode == OPCODE["dma"]
        codes = [entry.opcode for entry in OPERATIONS.values() if engine in entry.engines and entry.form == engine]
        is_own = control.opcode.matches(*codes) if codes else C(0)
        is_control = control.opcode.matches(*(e.opcode for e in OPERATIONS.values() if e.form == "control"))
        check = Check(m, PATTERNS)
        operands, firsts = self._operands(m, registers, is_dma)
        reasons = self._reasons(m, check, operands, registers, is_dma)
        reason = worst(m, reasons, "reason")
        satisfied = Signal()
        heard = self.change.valid & (self.change.semaphore == control.wait_semaphore)
        enough = heard & (self.change.value >= control.wait_value)
        asked = Signal()
        left, right = registers[0], Mux(control.immediate, control.value, registers[1])
        taken = self._compare(m, control.compare, left, right) & (control.opcode == OPCODE["branch"])
        past = (self.counter >= program.count) & ~inside
        is_ring = control.opcode == OPCODE["ring"]
        begin = Signal(COUNTER_BITS)
        # A request of the fetch that was offered stands until it is taken; what it waits for comes before a word.
        standing, mine, before = Signal(), Signal(), Signal(range(2 * core.fetch_depth + 1))
        address, place_ = Signal(EXTENT), Signal(range(LINE_BYTES // WORD_BYTES))
        m.d.sync += standing.eq(fetch.lines.valid & ~self.lines.ready & ~mine)
        m.d.comb += address.eq(Cat(control.address, C(0, 1)).as_signed() + right)
        m.d.comb += [
            begin.eq(left & ((1 << control.size) - 1)),
            fetch.target.eq(Mux(self.start, 0, Mux(enter, begin, Mux(leave, self.counter + 1, control.destination)))),
        ]

        def fail(code: Any) -> None:
            m.d.sync += [self.fault.reason.eq(code), self.fault.counter.eq(self.counter), self.running.eq(0)]

        def finish() -> None:
            """The instruction is over."""
            m.d.comb += finished.eq(1)
            m.d.sync += [self.counter.eq(self.counter + ~inside), self.issued.eq(self.issued + 1)]
            m.d.sync += ring.left.eq(ring.left - 1)

        m.d.comb += [self.awaited.eq(control.wait_semaphore), self.target.eq(control.wait_value)]
        with m.If(heard):
            m.d.sync += self.holds.eq(self.change.value)
        with m.FSM() as machine:
            with m.State("IDLE"), m.If(self.running & ~self.stop):
                with m.If(past):
                    fail(REASON["bad_program"])
                with m.Elif(fetch.words.valid):
                    with m.If(~Mux(inside, is_dma, is_control | is_dma | is_own)):
                        fail(REASON["bad_opcode"])
                    with m.Elif(self._bad_semaphore(control, transfer, is_dma)):
                        fail(REASON["bad_semaphore"])
                    with m.Elif(control.wait):
                        m.d.sync += [satisfied.eq(0), asked.eq(0)]
                        m.next = "WAIT"
                    with m.Else():
                        m.next = "DECODE"
            with m.State("WAIT"):
                m.d.comb += [
                    self.update.valid.eq(~asked),
                    self.update.payload.kind.eq(NONE),
                    self.update.payload.semaphore.eq(control.wait_semaphore),
                    self.waiting.eq(asked & ~satisfied),
                ]
                with m.If(self.update.valid & self.update.ready):
                    m.d.sync += asked.eq(1)
                with m.If(enough):
                    m.d.sync += satisfied.eq(1)
                with m.If(asked & (satisfied | enough)):
                    m.next = "DECODE"
                with m.If(self.stop & asked):
                    m.next = "IDLE"
            with m.State("DECODE"):
                check.begin()
                with m.If(self.stop):
                    m.next = "IDLE"
                with m.Elif(is_ring):
                    m.next = "RING"
                with m.Elif(control.opcode.matches(OPCODE["load"], OPCODE["store"])):
                    m.next = "WORD"
                with m.Elif(is_control):
                    m.next = "UPDATE"
                    with m.If(control.opcode == OPCODE["alu"]):
                        self._write_register(m, control, left, right)
                with m.Else():
                    m.next = "CHECK"
            with m.State("RING"):
                end = control.address + (LINES * LINE_BYTES << control.size)
                with m.If(control.count == 0):
                    fail(REASON["bad_pattern"])
                with m.Elif((control.address[: LINE_BYTES.bit_length() - 1] != 0) | (end > core.hbm_bytes)):
                    fail(REASON["bad_address"])
                with m.Else():
                    m.d.comb += enter.eq(1)
                    self._set_register(m, control.left, left + control.count)
                    m.d.sync += [
                        inside.eq(1),
                        ring.program.line.eq(control.address >> (LINE_BYTES.bit_length() - 1)),
                        ring.program.count.eq(begin + control.count),
                        ring.mask.eq((1 << control.size) - 1),
                        ring.left.eq(control.count),
                    ]
                    drive_update(m, ring.update, control, m.d.sync)
                m.next = "IDLE"
            with m.State("WORD"):
                with m.If((address[:2] != 0) | (address < 0) | (address > core.hbm_bytes - WORD_BYTES)):
                    fail(REASON["bad_address"])
                    m.next = "IDLE"
                with m.Elif(~standing):
                    m.d.comb += mine.eq(1)
                    self._ask(m, address, control.opcode == OPCODE["store"], left)
                    with m.If(self.lines.ready):
                        m.d.sync += [before.eq(fetch.outstanding - self.answer.valid), place_.eq(address[2:])]
                        m.next = "UPDATE"
                        with m.If(control.opcode == OPCODE["load"]):
                            m.next = "ANSWER"
            with m.State("ANSWER"), m.If(self.answer.valid):
                m.d.sync += before.eq(before - 1)
                with m.If(before == 0):
                    m.d.comb += fetch.answer.valid.eq(0)
                    self._set_register(m, control.target, self.answer.data.word_select(place_, 32))
                    m.next = "UPDATE"
            with m.State("CHECK"):
                unfinished = [self.transfer.indexed[side] & is_dma for side in range(2)] + [C(0)]
                output = len(FORMS[engine][1]) - 1 if engine in ELEMENT_WISE else None
                check.step(operands, unfinished, repeating=output)
                with m.If(check.dimension == DIMENSIONS - 1):
                    m.next = "HAND"
            with m.State("HAND"):
                with m.If(self.stop):
                    m.next = "IDLE"
                with m.Elif(reason != 0):
                    fail(reason)
                    m.next = "IDLE"
                with m.Elif(is_dma):
                    m.d.comb += self.transfers.valid.eq(1)
                    with m.If(self.transfers.ready):
                        m.next = "UPDATE"
                if engine != "sync":
                    with m.Else():
                        m.d.comb += self.issue.valid.eq(1)
                        with m.If(self.issue.ready):
                            finish()
                            m.next = "IDLE"
            with m.State("UPDATE"):
                m.d.comb += [
                    self.update.valid.eq(control.update != NONE),
                    self.update.payload.kind.eq(control.update),
                    self.update.payload.semaphore.eq(control.update_semaphore),
                    self.update.payload.value.eq(control.update_value),
                    self.update.payload.core.eq(control.update_core),
                ]
                with m.If(self.update.ready | ~self.update.valid):
                    finish()
                    m.next = "IDLE"
                    with m.If(inside & (ring.left == 1)):
                        m.next = "LEAVE"
                    with m.If(control.opcode == OPCODE["halt"]):
                        m.d.sync += self.running.eq(0)
                    with m.If(taken):
                        m.d.comb += jump.eq(1)
                        m.d.sync += self.counter.eq(control.destination)
            with m.State("LEAVE"):
                m.d.comb += [self.update.valid.eq(ring.update.kind != NONE), self.update.payload.eq(ring.update)]
                with m.If(self.update.ready | ~self.update.valid):
                    m.d.comb += leave.eq(1)
                    m.d.sync += [inside.eq(0), self.counter.eq(self.counter + 1), self.issued.eq(self.issued + 1)]
                    m.next = "IDLE"
        m.d.comb += self.parked.eq(machine.ongoing("IDLE") & (self.stop | ~self.running))
        self._transfer(m, check, firsts)
        with m.If(self.start):
            m.d.sync += [
                program.eq(self.program),
                self.counter.eq(0),
                self.issued.eq(0),
                self.running.eq(self.program.count != 0),
                self.fault.reason.eq(0),
                self.written.eq(0),
                inside.eq(0),
            ]
        return m

    def _names(self) -> tuple[str, ...]:
        """Patterns of the engine's instructions; the tensor engine may have no operands with something beside them."""
        names = FORMS[self.config.engine][1] if self.config.engine != "sync" else ()
        return tuple(name for name in names if name != "beside" or self.config.core.marked)

    def _registers(self, m: Module) -> list[Any]:
        """Three registers that the instruction names; those not written since the start are 0."""
        count = self.config.core.registers
        memory: Memory = Memory(shape=signed(32), depth=count, init=[])
        m.submodules.registers = memory
        self.register_port = memory.write_port()
        self.written = Signal(count)
        control, own, engine = self.control, self.own, self.config.engine
        is_dma = control.opcode == OPCODE["dma"]
        is_control = control.opcode < OPCODE["dma"]
        bases: list[Any] = [C(0, 7)] * PATTERNS
        if own is not None:
            bases = [getattr(own, name).base for name in self._names()]
            bases += [C(0, 7)] * (PATTERNS - len(bases))
            if engine == "tensor":
                bases[LOCATION] = own.location_base
        moved = (self.transfer.source_base, self.transfer.target_base, C(0, 7))
        plain = (control.left, control.right, C(0, 6))
        values = []
        for index in range(PATTERNS):
            port = memory.read_port(domain="comb")
            number, value = Signal(7, name=f"register_{index}"), Signal(signed(32), name=f"value_{index}")
            m.d.comb += number.eq(Mux(is_control, plain[index], Mux(is_dma, moved[index], bases[index]) - 1))
            none = ~is_control & (Mux(is_dma, moved[index], bases[index]) == 0)
            m.d.comb += port.addr.eq(number[: bits(count)])
            with m.If(~none & self.written.bit_select(number[: bits(count)], 1)):
                m.d.comb += value.eq(port.data)
            values.append(value)
        return values

    def _write_register(self, m: Module, control: Any, left: Any, right: Any) -> None:
        """Result of ``alu``; unknown operations move."""
        result = Signal(signed(32))
        m.d.comb += result.eq(right)
        shift = right[:5]
        results = {
            "add": left + right,
            "subtract": left - right,
            "multiply": left * right,
            "and": left & right,
            "or": left | right,
            "xor": left ^ right,
            "shift_left": (left << shift)[:32],
            "shift_right": left >> shift,
        }
        with m.Switch(control.operation):
            for name, value in results.items():
                with m.Case(ALU.index(name)):
                    m.d.comb += result.eq(value)
        self._set_register(m, control.target, result)

    def _set_register(self, m: Module, number: Any, value: Any) -> None:
        """In the current context, write a register."""
        place_ = number[: bits(self.config.core.registers)]
        m.d.comb += [
            self.register_port.addr.eq(place_),
            self.register_port.data.eq(value),
            self.register_port.en.eq(1),
        ]
        m.d.sync += self.written.bit_select(place_, 1).eq(1)

    def _ask(self, m: Module, address: Any, writes: Any, value: Any) -> None:
        """In the current context, ask for the line of a word, or write the word."""
        request, size = self.lines.payload, LINE_BYTES.bit_length() - 1
        m.d.comb += [
            self.fetch.lines.ready.eq(0),
            self.lines.valid.eq(1),
            request.write.eq(writes),
            request.line.eq(address >> size),
            request.data.eq(Cat(value).replicate(LINE_BYTES // WORD_BYTES)),
            request.mask.eq(Mux(writes, 0b1111 << Cat(C(0, 2), address[2:size]), 0)),
        ]

    @staticmethod
    def _compare(m: Module, code: Any, left: Any, right: Any) -> Signal:
        """Whether a branch is taken; never with an unknown comparison."""
        outcome = Signal()
        outcomes = {
            "always": C(1),
            "equal": left == right,
            "not_equal": left != right,
            "less": left < right,
            "greater_equal": left >= right,
        }
        with m.Switch(code):
            for name, value in outcomes.items():
                with m.Case(COMPARE.index(name)):
                    m.d.comb += outcome.eq(value)
        return outcome

    def _bad_semaphore(self, control: Any, transfer: Any, is_dma: Any) -> Any:
        """A semaphore or an update that does not exist."""
        limit = self.config.core.semaphores

        def wrong(kind: Any, semaphore: Any, core: Any) -> Any:
            return (kind >= len(UPDATES)) | ((kind != NONE) & (core == 0) & (semaphore >= limit))

        found = control.wait & (control.wait_semaphore >= limit)
        found |= wrong(control.update, control.update_semaphore, control.update_core)
        return found | (is_dma & wrong(transfer.done, transfer.done_semaphore, transfer.done_core))

    def _operands(self, m: Module, registers: list[Any], is_dma: Any) -> tuple[list[Operand], list[Any]]:
        """The patterns to check: those of a transfer, or of the engine's instruction."""
        core, engine, transfer = self.config.core, self.config.engine, self.transfer
        own: Any = self.own
        firsts, found = [], []
        names = self._names()
        sizes: list[Any] = []
        uses: list[Any] = []
        if engine == "tensor":
            size, self.fill = tensor_size(m, own.format)
            scaled, tagged = marks(core, own)
            sizes, uses = [size, C(BESIDE_SIZE, 2)], [C(1), scaled | tagged]
        elif own is not None:
            sized = vector_size if engine == "vector" else _plain_size
            sizes = [sized(m, core, own, name) for name in names]
            if engine == "vector":
                entry = vector_entry(m, own)
                needs = needs_of(entry)
                uses = [needs.left, needs.right, entry.opcode != CODE["set_seed"]]
            else:
                uses = [own.opcode[:3] != READ_ACCUMULATOR, C(1)]
        for index in range(PATTERNS):
            first, size, used = (
                Signal(EXTENT, name=f"first_{index}"),
                Signal(2, name=f"shift_{index}"),
                Signal(name=f"used_{index}"),
            )
            capacity = Signal(EXTENT, name=f"capacity_{index}")
            steps = [Signal(signed(32), name=f"step_{index}_{d}") for d in range(DIMENSIONS)]
            nums = [Signal(20, name=f"num_{index}_{d}") for d in range(DIMENSIONS)]
            aligned = Signal(init=1, name=f"aligned_{index}")
            m.d.comb += aligned.eq(1)
            if index < len(names):
                pattern = getattr(own, names[index])
                m.d.comb += [
                    first.eq(Cat(pattern.offset, C(0, 1)).as_signed() + registers[index]),
                    size.eq(sizes[index]),
                    used.eq(uses[index]),
                    capacity.eq(Mux(pattern.memory, core.psum_bytes, core.sbuf_bytes)),
                ]
                for d in range(DIMENSIONS):
                    m.d.comb += [
                        steps[d].eq(getattr(pattern, f"step{d}")),
                        nums[d].eq(getattr(pattern, f"num{d}")),
                    ]
            if index < 2:
                side = ("source", "target")[index]
                space = getattr(transfer, f"{side}_space")
                with m.If(is_dma):
                    shift = format_size(m, core, getattr(transfer, f"{side}_format"), f"{side}_transfer")
                    m.d.comb += [
                        first.eq(Cat(getattr(transfer, f"{side}_address"), C(0, 1)).as_signed() + registers[index]),
                        size.eq(0),
                        used.eq(1),
                        capacity.eq(
                            Mux(
                                space == 0,
                                core.hbm_bytes,
                                Mux(space == 1, core.sbuf_pitch, core.psum_pitch) * core.partitions,
                            )
                            - (1 << shift)
                            + 1
                        ),
                    ]
                    every = [getattr(transfer, f"{side}_step{d}") for d in range(DIMENSIONS)]
                    wrong = [((value & ((1 << shift) - 1)) != 0) for value in (*every, first)]
                    m.d.comb += aligned.eq(~Cat(wrong).any())
                    for d in range(DIMENSIONS):
                        m.d.comb += [steps[d].eq(every[d]), nums[d].eq(getattr(transfer, f"num{d}"))]
            found.append(Operand(used, first, size, capacity, steps, nums, aligned))
            firsts.append(first)
        return found, firsts

    def _reasons(self, m: Module, check: Check, operands: list[Operand], registers: list[Any], is_dma: Any) -> Any:
        """Everything wrong with the instruction."""
        core, engine, own = self.config.core, self.config.engine, self.own
        outside = Cat(check.outside(index, operand) for index, operand in enumerate(operands)).any()
        found: dict[str, Any] = {"bad_pattern": check.empty.any(), "bad_address": outside}
        for name, wrong in transfer_reasons(core, self.transfer).items():
            found[name] = found.get(name, C(0)) | (is_dma & wrong)
        if own is None:
            return found

        def add(name: str, wrong: Any) -> None:
            found[name] = found.get(name, C(0)) | (~is_dma & wrong)

        names = self._names()
        for index, name in enumerate(names):
            add("bad_partitions", operands[index].used & partitions_wrong(core, getattr(own, name)))
        if engine == "tensor":
            location = Signal(signed(34))
            m.d.comb += location.eq(Cat(own.location, C(0, 1)).as_signed() + registers[LOCATION])
            self.location = location
            for name, wrong in tensor_reasons(core, own, location).items():
                add(name, wrong)
            for index, name in enumerate(names):
                add("bad_memory", operands[index].used & getattr(own, name).memory)
            return found
        rows = own.length
        if engine == "vector":
            rows = (own.length >> own.packed) + Mux(needs_of(vector_entry(m, own, "rows")).loads, SEARCH_SLOTS, 0)
            add("bad_memory", operands[0].used & operands[1].used & own.left.memory & own.right.memory)
            constants = [(own.c0, own.c0_per_lane), (own.c1, own.c1_per_lane)]
        else:
            takes = own.opcode[:3].matches(*CONSTANT_USERS)
            constants = [(own.scale, own.scale_per_lane & takes), (own.bias, own.bias_per_lane & takes)]
        patterns, output = [getattr(own, name) for name in names], len(names) - 1
        for index in range(output):
            add("bad_overlap", check.disturbed(index, output, operands, patterns, rows))
        for word, used in constants:
            partition, offset = constant_wrong(core, word)
            add("bad_partitions", used & partition)
            add("bad_address", used & offset)
        return found

    def _transfer(self, m: Module, check: Check, firsts: list[Any]) -> None:
        """What is handed over: the word, with what was computed of it."""
        payload = self.transfers.payload
        m.d.comb += [
            payload.word.eq(self.transfer),
            payload.counter.eq(self.counter),
            payload.engine.eq(ENGINES.index(self.config.engine)),
        ]
        for index, side in enumerate((payload.source, payload.target)):
            m.d.comb += [side.first.eq(firsts[index]), side.low.eq(check.lows[index]), side.high.eq(check.highs[index])]
        if self.own is None:
            return
        issue = self.issue.payload
        m.d.comb += [issue.word.eq(self.own), issue.counter.eq(self.counter)]
        for index, name in enumerate(self._names()):
            m.d.comb += getattr(issue.word, name).offset.eq(firsts[index])
        if self.config.engine == "tensor":
            m.d.comb += issue.word.location.eq(self.location)


def _plain_size(m: Module, core: Any, word: Any, name: str) -> Any:
    """Log2 of the bytes of an operand's elements, as its format says."""
    return format_size(m, core, getattr(word, f"{name}_format"), name)
