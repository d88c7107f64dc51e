"""Instructions of the scalar engine: check, fetch constants ahead, issue one row a cycle while there is credit."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block
from hdl.scalar.layouts import Instruction, Token
from spec.scalar import INSTRUCTION, LENGTH_MAX, OPCODES, REDUCE_COMMANDS, STATUS, ScalarConfig

FIELDS = dict(INSTRUCTION)
ONE, MINUS_ZERO = 0x3F800000, 1 << 31
CODE = {name: index for index, name in enumerate(OPCODES)}
ERROR = {name: index for index, name in enumerate(STATUS)}
COMMAND = {name: index for index, name in enumerate(REDUCE_COMMANDS)}


class Control(Block):
    """Two instructions deep: one decoded, with its constants, behind the one whose rows are being issued.

    ``take``: the row on the operand stream is taken in this cycle. ``token`` describes what enters the lanes in this
    cycle and travels with it. ``returned``: an item left the output queue. ``scale`` and ``bias`` belong to the row
    being taken.
    """

    config: ScalarConfig

    def __init__(self, config: ScalarConfig) -> None:
        row = data.ArrayLayout(32, config.lanes)
        ports = {
            "instructions": In(stream.Signature(Instruction)),
            "constants": In(stream.Signature(row)),
            "operand_valid": In(1),
            "returned": In(1),
            "take": Out(1),
            "token": Out(Token),
            "input_format": Out(4),
            "scale": Out(row),
            "bias": Out(row),
        }
        super().__init__(config, Signature(ports))
        self.places = Signal(range(config.latency + 2), init=config.latency + 1)
        self.state: dict[str, Signal] = {}
        """Registers that proofs name; filled by elaboration."""

    def elaborate(self, platform: Any) -> Module:
        """Decoder, issue, credit."""
        m = Module()
        held, ready, scale, bias, move = self._decode(m)
        current = Signal(Instruction)
        active, first, error = Signal(), Signal(), Signal(3)
        remaining = Signal(FIELDS["length"])
        self.state = {"active": active, "error": error, "remaining": remaining}
        places = self.places
        row, step = Signal(), Signal()
        reads = current.opcode == CODE["read_accumulator"]
        refused = error != ERROR["done"]
        m.d.comb += [
            row.eq(~refused),
            step.eq(active & (places != 0) & (self.operand_valid | reads | refused)),
            self.take.eq(active & (places != 0) & row & ~reads),
            move.eq(ready & (~active | (step & (remaining == 1)))),
        ]
        m.d.sync += places.eq(places + self.returned - step)
        with m.If(step):
            m.d.sync += [remaining.eq(remaining - 1), first.eq(0)]
            with m.If(remaining == 1):
                m.d.sync += active.eq(0)
        with m.If(move):
            code = self._check(m, held)
            single = (code != ERROR["done"]) | (held.opcode == CODE["read_accumulator"])
            m.d.sync += [
                current.eq(held),
                active.eq(1),
                first.eq(1),
                error.eq(code),
                remaining.eq(Mux(single, 1, held.length)),
                self.scale.eq(scale),
                self.bias.eq(bias),
            ]
        self._issue(m, current, error, step, row, reads, first, remaining)
        return m

    def _decode(self, m: Module) -> tuple[Any, ...]:
        """The instruction that comes next, and its rows of constants."""
        held = Signal(Instruction)
        full, want_scale, want_bias, move = Signal(), Signal(), Signal(), Signal()
        scale, bias = Signal(self.scale.shape()), Signal(self.bias.shape())
        lanes = self.config.lanes
        m.d.comb += [
            self.instructions.ready.eq(~full | move),
            self.constants.ready.eq(full & (want_scale | want_bias)),
        ]
        with m.If(self.constants.valid & self.constants.ready):
            with m.If(want_scale):
                m.d.sync += [scale.eq(self.constants.payload), want_scale.eq(0)]
            with m.Else():
                m.d.sync += [bias.eq(self.constants.payload), want_bias.eq(0)]
        with m.If(move):
            m.d.sync += full.eq(0)
        with m.If(self.instructions.valid & self.instructions.ready):
            new = self.instructions.payload
            legal = self._check(m, new, "offered") == ERROR["done"]
            plain = (new.opcode == CODE["tensor_copy"]) | (new.opcode == CODE["read_accumulator"])
            m.d.sync += [
                held.eq(new),
                full.eq(1),
                want_scale.eq(new.scale_per_lane & legal & ~plain),
                want_bias.eq(new.bias_per_lane & legal & ~plain),
                scale.as_value().eq(Mux(plain, ONE, new.scale).replicate(lanes)),
                bias.as_value().eq(Mux(plain, MINUS_ZERO, new.bias).replicate(lanes)),
            ]
        ready = full & ~want_scale & ~want_bias
        return held, ready, scale, bias, move

    def _check(self, m: Module, instruction: Any, name: str = "held") -> Any:
        """Code of the first thing wrong with an instruction, in the order of the status codes."""
        known = len(self.config.formats)
        code = Signal(3, name=f"{name}_error")
        reads = instruction.opcode == CODE["read_accumulator"]
        with m.If(instruction.opcode >= len(OPCODES)):
            m.d.comb += code.eq(ERROR["bad_opcode"])
        with m.Elif((instruction.opcode == CODE["activation"]) & (instruction.function >= len(self.config.functions))):
            m.d.comb += code.eq(ERROR["bad_function"])
        with m.Elif(~reads & (instruction.input_format >= known)):
            m.d.comb += code.eq(ERROR["bad_input_format"])
        with m.Elif(instruction.output_format >= known):
            m.d.comb += code.eq(ERROR["bad_output_format"])
        with m.Elif((instruction.length == 0) | (instruction.length > LENGTH_MAX)):
            m.d.comb += code.eq(ERROR["bad_length"])
        return code

    def _issue(
        self, m: Module, current: Any, error: Any, step: Any, row: Any, reads: Any, first: Any, remaining: Any
    ) -> None:
        """Describe the row that enters the lanes."""
        token = self.token
        copies = current.opcode == CODE["tensor_copy"]
        resets = (current.reduce == COMMAND["reset"]) | (current.reduce == COMMAND["reset_reduce"])
        adds = (current.reduce == COMMAND["reduce"]) | (current.reduce == COMMAND["reset_reduce"])
        m.d.comb += [
            self.input_format.eq(current.input_format),
            token.row.eq(step & row),
            token.last.eq(step & (remaining == 1)),
            token.code.eq(error),
            token.function.eq(
                Mux(current.opcode == CODE["activation"], current.function, self.config.functions.index("copy"))
            ),
            token.alpha.eq(current.alpha),
            token.format.eq(current.output_format),
            token.raw.eq(copies & (current.input_format == current.output_format)),
            token.saturate.eq(current.saturate),
            token.read.eq(reads),
            token.reset.eq(first & resets & ~reads),
            token.reduce.eq(adds & ~reads),
        ]
