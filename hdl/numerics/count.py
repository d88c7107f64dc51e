"""Counting leading zeros."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal


def leading_zeros(m: Module, value: Any, prefix: str = "") -> Any:
    """How many of the top bits of ``value`` are 0, as a tree of depth log2(width).

    If all are, the result is no smaller than the width. ``prefix`` begins the names of the signals.
    """
    # From the bottom, each node holds the count of its bits and whether they are all zero. The padding counts as ones.
    width = 1 << (len(value) - 1).bit_length()
    bits = [C(1, 1)] * (width - len(value)) + list(value)
    nodes: list[tuple[Any, Any]] = [(C(0, 0), ~bit) for bit in bits]
    while len(nodes) > 1:
        joined = []
        for index, (low, high) in enumerate(zip(nodes[::2], nodes[1::2], strict=True)):
            name = f"{prefix}zeros_{width // len(nodes) * 2}_{index}"
            count = Signal(len(low[0]) + 1, name=name)
            empty = Signal(name=f"{name}_all")
            m.d.comb += count.eq(Cat(Mux(high[1], low[0], high[0]), high[1])), empty.eq(low[1] & high[1])
            joined.append((count, empty))
        nodes = joined
    return nodes[0][0]
