"""Cut points of a feed-forward datapath: the one place where arithmetic turns into a pipeline."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Module, Signal, Value


class Pipeline:
    """Names the cut points of a datapath and puts registers at the chosen ones.

    The datapath is written once, from inputs to outputs; :meth:`cut` stands wherever a register may stand. All signals
    alive at a cut point must pass it. Registers have no reset: what they hold after it is never looked at, because the
    valid bits beside them have one.
    """

    def __init__(self, m: Module, registers: Collection[str]) -> None:
        self._m = m
        self._registers = registers

    def cut(self, label: str, **signals: Any) -> Any:
        """The same signals behind the cut point ``label``, as attributes: a cycle later where it holds a register."""
        domain = self._m.d.sync if label in self._registers else self._m.d.comb
        behind = {}
        for name, signal in signals.items():
            shape = signal.shape() if hasattr(signal, "shape") else Value.cast(signal).shape()
            behind[name] = Signal(shape, name=f"{label}_{name}", reset_less=True)
            domain += behind[name].eq(signal)
        return SimpleNamespace(**behind)
