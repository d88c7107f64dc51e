"""Shifting the leading zeros out of a number."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal


def normalise(m: Module, value: Any, prefix: str) -> tuple[Any, Any]:
    """``(shifted, places)``: ``value`` shifted left by ``places``, so that its top bit is 1 unless it is zero.

    Zero is shifted by the most there is. A chain of choices, the widest shift first; ``prefix`` begins their names.
    """
    width = len(value)
    chosen: list[Any] = []
    for index in reversed(range((width - 1).bit_length())):
        step = 1 << index
        empty = Signal(name=f"{prefix}_by_{step}")
        shifted = Signal(width, name=f"{prefix}_to_{step}")
        m.d.comb += [empty.eq(~value[width - step :].any()), shifted.eq(Mux(empty, value << step, value))]
        value = shifted
        chosen.insert(0, empty)
    return value, Cat(chosen)
