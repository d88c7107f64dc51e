"""Properties every stream obeys, for any block."""

from typing import Any

from amaranth.hdl import Assert, Assume, Module, Signal, Value


def offer_stands(m: Module, stream: Any, *, assume: bool = False) -> None:
    """An offer stays, unchanged, until it is taken; assumed of streams that the environment drives."""
    waiting, payload = Signal(), Signal.like(Value.cast(stream.payload))
    m.d.sync += [waiting.eq(stream.valid & ~stream.ready), payload.eq(stream.payload)]
    with m.If(waiting):
        stands = stream.valid & (Value.cast(stream.payload) == payload)
        text = "an offer stands until it is taken"
        m.d.comb += Assume(stands, text) if assume else Assert(stands, text)
