"""One memory port for several askers."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.layouts import answer, bits
from hdl.fifo import Fifo
from spec.core import ShareConfig
from spec.fifo import FifoConfig


def first_after(m: Module, last: Signal, wants: Any, count: int, name: str) -> Signal:
    """Index of the first that wants after ``last``, around the end."""
    chosen = Signal(range(max(2, count)), name=f"{name}_next")
    for index in reversed(range(count)):
        with m.If(wants[index]):
            m.d.comb += chosen.eq(index)
    for index in reversed(range(count)):
        with m.If(wants[index] & (index > last)):
            m.d.comb += chosen.eq(index)
    return chosen


def round_robin(m: Module, wants: Any, count: int, moves: Any, name: str) -> Signal:
    """Index of who is next: the first after the one served last. It may change until ``moves``."""
    last = Signal(range(max(2, count)), name=f"{name}_last")
    chosen = first_after(m, last, wants, count, name)
    with m.If(moves):
        m.d.sync += last.eq(chosen)
    return chosen


class Share(Block):
    """Requests of ``ports`` askers, in turn, one a cycle; each answer goes back to who asked.

    ``asked_n`` in, ``answer_n`` out for each asker; ``request`` out, ``answer`` in for the port. Answers come in the
    order of the requests, at the earliest one cycle after theirs, and cannot be held back. A request passes in the
    cycle in which it is taken: latency 0. An asker that asks in every cycle keeps its turn for ``burst`` requests, and
    waits for at most ``burst`` of each other one. The choice stands while the port does not take it. Reset forgets who
    waits for an answer.
    """

    config: ShareConfig

    def __init__(self, config: ShareConfig) -> None:
        ports: dict[str, Any] = {
            "request": Out(stream.Signature(config.request)),
            "answer": In(answer(config.response)),
        }
        for index in range(config.ports):
            ports[f"asked_{index}"] = In(stream.Signature(config.request))
            ports[f"answer_{index}"] = Out(answer(config.response))
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Choose, remember, route."""
        m = Module()
        config = self.config
        asked = [getattr(self, f"asked_{index}") for index in range(config.ports)]
        valid = Signal(config.ports)
        m.d.comb += valid.eq(Cat(*(port.valid for port in asked)))
        owners = Fifo(FifoConfig(width=bits(config.ports), depth=config.depth))
        m.submodules.owners = place(owners, platform)
        # A turn that has begun, or that the port holds back, has some of its requests left.
        kept, left = Signal(range(max(2, config.ports))), Signal(range(config.burst + 1))
        self.kept, self.left, self.owners = kept, left, owners
        moved, stays, rest = Signal(), Signal(), Signal(range(config.burst + 1))
        fresh = first_after(m, kept, valid, config.ports, "turn")
        chosen = Signal(bits(config.ports))
        m.d.comb += [
            stays.eq((left != 0) & valid.bit_select(kept, 1)),
            chosen.eq(Mux(stays, kept, fresh)),
            rest.eq(Mux(stays, left, config.burst)),
        ]
        payload = Signal(config.request)
        with m.Switch(chosen):
            for index, port in enumerate(asked):
                with m.Case(index):
                    m.d.comb += payload.eq(port.payload)
        answered = ~payload[0]
        m.d.comb += [
            self.request.valid.eq(valid.any() & (owners.i.ready | ~answered)),
            self.request.payload.eq(payload),
            moved.eq(self.request.valid & self.request.ready),
            owners.i.valid.eq(moved & answered),
            owners.i.payload.eq(chosen),
            owners.o.ready.eq(self.answer.valid),
        ]
        with m.If(self.request.valid):
            m.d.sync += [kept.eq(chosen), left.eq(rest - self.request.ready)]
        for index, port in enumerate(asked):
            back = getattr(self, f"answer_{index}")
            m.d.comb += [
                port.ready.eq(moved & (chosen == index)),
                back.valid.eq(self.answer.valid & (owners.o.payload == index)),
                back.data.eq(self.answer.data),
            ]
        return m
