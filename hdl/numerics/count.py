"""Counting leading zeros."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal

GROUP = 4
"""Bits of which it is known from the start whether all are zero."""


def leading_zeros(m: Module, value: Any, prefix: str = "") -> Any:
    """How many of the top bits of ``value`` are 0.

    If all are, the result is the width, or one less than a width that is a power of two. ``prefix`` begins the names of
    the signals.
    """
    # What is left is halved until one bit is. Whether the next upper half is empty is found for both halves at once, so
    # that a step costs one choice and no reduction; few wide operations are also what a simulator runs fast.
    steps = (len(value) - 1).bit_length()
    padding = (1 << steps) - len(value)
    rest: Any = Cat(C((1 << padding) - 1, padding), value)  # the padding counts as ones
    groups: Any = Cat(rest[at : at + GROUP].any() for at in range(0, len(rest), GROUP))
    empty = ~_upper(groups if len(rest) > GROUP else rest).any()
    count = []
    for step in reversed(range(steps)):
        zeros = Signal(name=f"{prefix}zeros_{step}")
        m.d.comb += zeros.eq(empty)
        count.append(zeros)
        halves = rest[: 1 << step], rest[1 << step :]
        parts = (groups[: len(groups) // 2], groups[len(groups) // 2 :]) if 1 << step > GROUP else halves
        rest = Signal(1 << step, name=f"{prefix}rest_{step}")
        groups = Signal(len(parts[0]), name=f"{prefix}groups_{step}")
        m.d.comb += [rest.eq(Mux(zeros, *halves)), groups.eq(Mux(zeros, *parts))]
        empty = ~Mux(zeros, *(_upper(part).any() for part in parts))
    return Cat(reversed(count))


def _upper(bits: Any) -> Any:
    """The upper half."""
    return bits[len(bits) // 2 :]
