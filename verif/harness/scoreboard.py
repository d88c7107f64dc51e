"""Compares items of a block with golden, bit by bit, and says exactly what differs.

>>> from amaranth.lib import data
>>> board = Scoreboard("o", data.ArrayLayout(16, 2), number="bf16")
>>> board.compare([0x3F80_4000], [0x3F80_4000])
>>> board.compare([0x3F80_4000], [0x3F81_4000])
Traceback (most recent call last):
    ...
verif.harness.scoreboard.MismatchError: o: 1 of 1 items differ
  item 1 lane [1]: rtl 0x3f80 = 1.0, golden 0x3f81 = 1.0078125
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from spec.formats import FORMATS, BlockFormat, FloatFormat, IntFormat, ScaleFormat, format_named
from verif.harness import counts
from verif.harness.packing import Leaf, from_words, leaves, words_of

SHOWN = 10
"""Differences that a report lists before it only counts."""


class MismatchError(AssertionError):
    """The block and golden differ. ``count`` is the number of items that do."""

    def __init__(self, text: str, count: int) -> None:
        super().__init__(text)
        self.count = count


def number_of(name: str, code: int) -> float:
    """The number a bit pattern of the format ``name`` stands for; written apart from every model of ours."""
    entry = format_named(name)
    if isinstance(entry, IntFormat):
        return code - (1 << entry.width) if entry.signed and code >> (entry.width - 1) else code
    if isinstance(entry, ScaleFormat):
        return math.nan if code == entry.nan_pattern else math.ldexp(1.0, code - entry.bias)
    if isinstance(entry, BlockFormat):
        raise ValueError(f"{name} is a block of {entry.block} elements: name the format of its elements")
    sign = -1.0 if code >> (entry.width - 1) else 1.0
    exponent = code >> entry.mantissa_bits & ((1 << entry.exponent_bits) - 1)
    mantissa = code & ((1 << entry.mantissa_bits) - 1)
    return sign * _magnitude(entry, exponent, mantissa)


def _magnitude(entry: FloatFormat, exponent: int, mantissa: int) -> float:
    ones = exponent == (1 << entry.exponent_bits) - 1
    if ones and entry.infinity:
        return math.nan if mantissa else math.inf
    if ones and entry.nan and mantissa == (1 << entry.mantissa_bits) - 1:
        return math.nan
    significand = mantissa + ((1 << entry.mantissa_bits) if exponent else 0)
    return math.ldexp(float(significand), max(exponent, 1) - entry.bias - entry.mantissa_bits)


class Scoreboard:
    """Checks one stream. ``number`` names the format of its elements, one for all or by the name of a field.

    Items of several calls are counted on; :attr:`compared` says how many there were, and a bench asserts that it is
    what it meant, because an empty comparison passes.
    """

    def __init__(self, name: str, shape: Any, number: str | Mapping[str, str] | None = None) -> None:
        self.name, self.shape, self.number = name, shape, number
        self.leaves = leaves(shape)
        self.compared = 0

    def compare(self, actual: Any, expected: Any) -> None:
        """Compare items in order: integers, or arrays of words ``[item, word]``. Raises :class:`MismatchError`.

        A surplus or missing item is a mismatch too.
        """
        ours, golden = self._items(actual), self._items(expected)
        first = self.compared
        self.compared += min(len(ours), len(golden))
        differing = [index for index, pair in enumerate(zip(ours, golden, strict=False)) if pair[0] != pair[1]]
        surplus = len(ours) - len(golden)
        counts.add(max(len(ours), len(golden)), len(differing) + abs(surplus))
        if not differing and not surplus:
            return
        lines = [f"{self.name}: {len(differing)} of {len(golden)} items differ"]
        if surplus:
            lines[0] += f", {abs(surplus)} {'too many' if surplus > 0 else 'missing'}"
        for index in differing:
            lines += self._differences(first + index, ours[index], golden[index])
        if len(lines) > SHOWN + 1:
            lines = [*lines[: SHOWN + 1], f"  … and {len(lines) - SHOWN - 1} more differences"]
        raise MismatchError("\n".join(lines), len(differing) + abs(surplus))

    def compare_cycles(self, actual: Iterable[int], expected: Iterable[int]) -> None:
        """Compare the cycle of each transfer with the cost function's."""
        ours, golden = list(actual), list(expected)
        pairs = enumerate(zip(ours, golden, strict=False))
        lines = [f"  item {index}: rtl in cycle {a}, golden in cycle {b}" for index, (a, b) in pairs if a != b]
        counts.add(0, len(lines) + abs(len(ours) - len(golden)))
        if lines or len(ours) != len(golden):
            head = f"{self.name}: {len(lines)} of {len(golden)} items at another cycle ({len(ours)} came)"
            raise MismatchError("\n".join([head, *lines[:SHOWN]]), max(1, len(lines)))

    def _items(self, items: Any) -> list[int]:
        if isinstance(items, np.ndarray) and items.ndim == 2:
            if items.shape[1] != words_of(self.shape):
                raise ValueError(f"{self.name}: {items.shape[1]} words an item, legal is {words_of(self.shape)}")
            return from_words(items)
        return [int(item) for item in items]

    def _differences(self, index: int, ours: int, golden: int) -> list[str]:
        lines = []
        for leaf in self.leaves:
            mask = (1 << leaf.width) - 1
            a, b = ours >> leaf.offset & mask, golden >> leaf.offset & mask
            if a != b:
                lines.append(
                    f"  item {index} {_place(leaf)}: rtl {self._shown(leaf, a)}, golden {self._shown(leaf, b)}"
                )
        return lines or [f"  item {index}: rtl 0x{ours:x}, golden 0x{golden:x} (bits outside every field)"]

    def _shown(self, leaf: Leaf, code: int) -> str:
        digits = f"0x{code:0{-(-leaf.width // 4)}x}"
        name = self._format_of(leaf)
        if name is None or getattr(FORMATS[name], "width", None) != leaf.width:
            return digits
        return f"{digits} = {number_of(name, code)!r}"

    def _format_of(self, leaf: Leaf) -> str | None:
        if isinstance(self.number, str):
            return self.number
        names = [step for step in leaf.path if isinstance(step, str)]
        return (
            next((self.number[name] for name in reversed(names) if name in self.number), None) if self.number else None
        )


def _place(leaf: Leaf) -> str:
    return f"lane {leaf.name}" if any(isinstance(step, int) for step in leaf.path) else leaf.name


def check_array(name: str, actual: npt.NDArray[Any], expected: npt.NDArray[Any], number: str | None = None) -> None:
    """Compare two arrays of bit patterns; the report names each differing element by its index."""
    if actual.shape != expected.shape:
        counts.add(expected.size, expected.size)
        raise MismatchError(f"{name}: shape {actual.shape}, golden has {expected.shape}", 1)
    places = np.argwhere(actual != expected)
    counts.add(expected.size, len(places))
    if not len(places):
        return
    lines = [f"{name}: {len(places)} of {expected.size} elements differ"]
    for place in places[:SHOWN]:
        at = tuple(int(step) for step in place)
        pair = [int(array[at]) for array in (actual, expected)]
        shown = [f"0x{code:x}" + (f" = {number_of(number, code)!r}" if number else "") for code in pair]
        lines.append(f"  {list(at)}: rtl {shown[0]}, golden {shown[1]}")
    raise MismatchError("\n".join(lines), len(places))
