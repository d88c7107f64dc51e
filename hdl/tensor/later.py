"""A plain chain of registers."""

from typing import Any

from amaranth.hdl import Module, Signal


def later(m: Module, name: str, what: Any, cycles: int, *, reset: bool = False) -> Any:
    """``what`` as it was ``cycles`` before. Without ``reset``, for data whose valid bit lies elsewhere."""
    for cycle in range(cycles):
        following = Signal(what.shape(), name=f"{name}_{cycle}", reset_less=not reset)
        m.d.sync += following.eq(what)
        what = following
    return what
