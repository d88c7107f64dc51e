"""Small blocks with everything that emission has to get right; test_emit.py converts and simulates them."""

import dataclasses
from typing import Any

from amaranth.hdl import Module, Mux, signed
from amaranth.lib import data, enum, fifo, stream, wiring
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from spec.parameters import Parameters, parameter


@dataclasses.dataclass(frozen=True, kw_only=True)
class LookupConfig(Parameters):
    """Parameters of the blocks below."""

    depth: int = parameter(12, unit="rows", low=1, high=4096, doc="rows of the table")
    lanes: int = parameter(3, unit="lanes", low=1, high=64, doc="tables side by side")


class Mode(enum.Enum, shape=2):
    """What a request asks for."""

    READ = 0
    WRITE = 2


Request = data.StructLayout({"mode": Mode, "address": 4, "value": signed(7)})
"""One access."""


class Table(Block):
    """A table behind a stream: reads answer one cycle later, without backpressure."""

    config: LookupConfig

    def __init__(self, config: LookupConfig) -> None:
        request = stream.Signature(Request, always_ready=True)
        answer = stream.Signature(signed(7), always_ready=True)
        super().__init__(config, wiring.Signature({"request": In(request), "answer": Out(answer), "spare": In(0)}))

    def elaborate(self, platform: Any) -> Module:
        """A memory whose read port sees what is written."""
        m = Module()
        rows: Any = Memory(shape=signed(7), depth=self.config.depth, init=[5, -3, 7])
        m.submodules.rows = rows
        write = rows.write_port()
        read = rows.read_port(transparent_for=[write])
        writes = self.request.valid & (self.request.payload.mode == Mode.WRITE)
        m.d.comb += [
            write.addr.eq(self.request.payload.address),
            write.data.eq(self.request.payload.value),
            write.en.eq(writes),
            read.addr.eq(self.request.payload.address),
            self.answer.payload.eq(read.data),
        ]
        m.d.sync += self.answer.valid.eq(self.request.valid)
        return m


class Increment(wiring.Component):
    """An ordinary Amaranth component, which is not placed: Amaranth converts it once an instance."""

    def __init__(self) -> None:
        super().__init__({"i": In(signed(7)), "o": Out(signed(8))})

    def elaborate(self, platform: Any) -> Module:
        """One cycle."""
        m = Module()
        m.d.sync += self.o.eq(self.i + 1)
        return m


class Lookup(Block):
    """``lanes`` tables fed by one stream through a fifo; their answers, each incremented, are one vector."""

    config: LookupConfig

    def __init__(self, config: LookupConfig) -> None:
        answers = data.ArrayLayout(signed(8), config.lanes)
        request = stream.Signature(Request)
        super().__init__(config, wiring.Signature({"request": In(request), "answers": Out(answers), "pause": In(1)}))

    def elaborate(self, platform: Any) -> Module:
        """Fifo, tables, increments."""
        m = Module()
        m.submodules.queue = queue = fifo.SyncFIFOBuffered(width=Request.size, depth=3)
        m.d.comb += [
            queue.w_data.eq(self.request.payload),
            queue.w_en.eq(self.request.valid),
            self.request.ready.eq(queue.w_rdy),
            queue.r_en.eq(~self.pause),
        ]
        front = data.View(Request, queue.r_data)
        for lane in range(self.config.lanes):
            table = Table(self.config)
            m.submodules[f"table_{lane}"] = place(table, platform)
            m.submodules[f"increment_{lane}"] = increment = Increment()
            m.d.comb += [
                table.request.payload.mode.eq(front.mode),
                table.request.payload.address.eq(front.address),
                table.request.payload.value.eq(Mux(front.value == 0, 1, front.value + lane)),
                table.request.valid.eq(queue.r_rdy & ~self.pause),
                increment.i.eq(Mux(table.answer.valid, table.answer.payload, 0)),
                self.answers[lane].eq(increment.o),
            ]
        return m


class TwoClocks(Block):
    """Registers in three domains."""

    config: LookupConfig

    def __init__(self, config: LookupConfig) -> None:
        super().__init__(config, wiring.Signature({"i": In(4), "o": Out(4)}))

    def elaborate(self, platform: Any) -> Module:
        """One register in each."""
        m = Module()
        last: Any = self.i
        for domain in ("slow", "sync", "fast"):
            step: Any = Memory(shape=4, depth=16, init=range(16))
            m.submodules[f"step_{domain}"] = step
            port = step.read_port(domain=domain)
            m.d.comb += port.addr.eq(last)
            last = port.data
        m.d.comb += self.o.eq(last)
        return m


@dataclasses.dataclass(frozen=True)
class Shape:
    """One memory: its size, the domain and transparency of its read ports, the granularity of its write ports."""

    width: int
    depth: int
    reads: tuple[tuple[str, tuple[int, ...]], ...]
    writes: tuple[int | None, ...]
    init: tuple[int, ...] = ()


MEMORIES = (
    Shape(8, 16, (("sync", ()),), (None,)),
    Shape(8, 16, (("sync", (0,)),), (None,), (1, 2, 3)),
    Shape(8, 16, (("comb", ()),), (None,), tuple(range(200, 216))),
    Shape(5, 12, (("sync", ()), ("comb", ()), ("sync", (0,))), (None,), (31,) * 12),
    Shape(32, 8, (("sync", (0,)), ("sync", ())), (8,)),
    Shape(24, 11, (("sync", (1,)), ("sync", (0, 1))), (8, 12)),
    Shape(70, 3, (("sync", (0,)),), (35,), (1 << 69,)),
    Shape(9, 1, (("sync", (0,)), ("comb", ())), (None,), (300,)),
    Shape(1, 2, (("sync", ()),), (1,)),
    Shape(6, 10, (("sync", ()), ("comb", ())), (), (9, 8, 7, 6, 5)),
)


class Memories(Block):
    """Every memory of :data:`MEMORIES`: inputs of its ports are slices of ``in_<n>``, outputs of ``out_<n>``."""

    config: LookupConfig

    def __init__(self, config: LookupConfig) -> None:
        ports = {}
        for index, shape in enumerate(MEMORIES):
            address = max(0, (shape.depth - 1).bit_length())
            reads = sum(address + (domain == "sync") for domain, _ in shape.reads)
            writes = sum(address + shape.width + (shape.width // grain if grain else 1) for grain in shape.writes)
            ports[f"in_{index}"] = In(reads + writes)
            ports[f"out_{index}"] = Out(shape.width * len(shape.reads))
        super().__init__(config, wiring.Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """The memories side by side."""
        m = Module()
        for index, shape in enumerate(MEMORIES):
            memory: Any = Memory(shape=shape.width, depth=shape.depth, init=shape.init)
            m.submodules[f"memory_{index}"] = memory
            writes = [memory.write_port(granularity=grain) for grain in shape.writes]
            reads = [
                memory.read_port(domain=domain, transparent_for=[writes[port] for port in transparent])
                for domain, transparent in shape.reads
            ]
            offset = 0
            source = getattr(self, f"in_{index}")
            wires = [wire for port in writes for wire in (port.addr, port.data, port.en)]
            wires += [
                wire for port in reads for wire in ((port.addr, port.en) if port.domain == "sync" else (port.addr,))
            ]
            for wire in wires:
                m.d.comb += wire.eq(source[offset : offset + len(wire)])
                offset += len(wire)
            for number, port in enumerate(reads):
                m.d.comb += getattr(self, f"out_{index}")[number * shape.width :][: shape.width].eq(port.data)
        return m


class Large(Block):
    """A memory of 16 Mbit."""

    def __init__(self, config: LookupConfig) -> None:
        super().__init__(config, wiring.Signature({"a": In(14), "o": Out(1024)}))

    def elaborate(self, platform: Any) -> Module:
        """Write and read one address."""
        m = Module()
        rows: Any = Memory(shape=1024, depth=1 << 14, init=[])
        m.submodules.rows = rows
        write, read = rows.write_port(), rows.read_port()
        m.d.comb += [write.addr.eq(self.a), write.en.eq(1), read.addr.eq(self.a), self.o.eq(read.data)]
        return m


class Constant(Block):
    """Depends on an argument that its parameters do not hold: not allowed, and emission must notice."""

    def __init__(self, config: LookupConfig, value: int | list[int]) -> None:
        super().__init__(config, wiring.Signature({"i": In(8), "o": Out(1)}))
        self.value = value

    @property
    def module_name(self) -> str:
        """The same for subclasses."""
        return f"constant_{self.config.digest()}"

    def elaborate(self, platform: Any) -> Module:
        """Compare."""
        m = Module()
        m.d.comb += self.o.eq(self.i == (self.value if isinstance(self.value, int) else self.value[0]))
        return m


class OtherConstant(Constant):
    """Another class under the same module name."""


class Parent(Block):
    """Places the children it is given."""

    def __init__(self, config: LookupConfig, *children: Constant) -> None:
        super().__init__(config, wiring.Signature({"i": In(8), "o": Out(len(children))}))
        self.children = children

    def elaborate(self, platform: Any) -> Module:
        """The same input for each."""
        m = Module()
        for index, child in enumerate(self.children):
            m.submodules[f"child_{index}"] = place(child, platform)
            m.d.comb += [child.i.eq(self.i), self.o[index].eq(child.o)]
        return m
