"""Chains of registers that keep a signal in step with a pipeline."""

from typing import Any

from amaranth.hdl import Module, Signal, Value


def delay(m: Module, signal: Any, cycles: int, name: str, *, reset: bool = False) -> Any:
    """``signal`` as it was ``cycles`` cycles ago, in its own shape. ``reset``: clear the chain at reset."""
    shape = signal.shape() if hasattr(signal, "shape") else Value.cast(signal).shape()
    for step in range(cycles):
        later = Signal(shape, name=f"{name}_{step + 1}", reset_less=not reset)
        m.d.sync += later.eq(signal)
        signal = later
    return signal
