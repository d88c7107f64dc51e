"""Trees that choose by a mask with one bit set."""

from typing import Any

from amaranth.hdl import Mux
from amaranth.lib import data


def any_of(terms: Any) -> Any:
    """OR of all terms, as a balanced tree."""
    layer = list(terms)
    while len(layer) > 1:
        layer = [layer[i] | layer[i + 1] if i + 1 < len(layer) else layer[i] for i in range(0, len(layer), 2)]
    return layer[0]


def select(onehot: Any, values: list[Any]) -> Any:
    """The value at the set bit of ``onehot``, 0 without one."""
    raw = [value.as_value() if isinstance(value, data.View) else value for value in values]
    return any_of(Mux(onehot[i], value, 0) for i, value in enumerate(raw))


def first_of(mask: Any) -> Any:
    """One-hot: the lowest set bit of ``mask``, 0 without one."""
    return (mask & -mask)[: len(mask)]
