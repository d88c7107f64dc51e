"""Planted faults: shows that a comparison fails when it should.

A bench hands over what golden says and how it compares; every fault that changes these outputs must be noticed::

    check_notices(lambda items: board.compare(items, golden), golden, shape)

Faults that would change nothing (zeros where golden is all zeros) are not planted, but a bench whose outputs let most
of them pass has poor stimulus: ``needed`` names those that must be plantable.
"""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from verif.harness import counts
from verif.harness.packing import Leaf, from_words, leaves

Items = list[int]
Fault = Callable[[Items, list[Leaf]], Items]


class UnnoticedError(AssertionError):
    """A bench passed although its block was made to be wrong."""


def zeros(items: Items, _fields: list[Leaf]) -> Items:
    """Every output is zero: a block that does nothing."""
    return [0] * len(items)


def swapped_lanes(items: Items, fields: list[Leaf]) -> Items:
    """Two neighbouring lanes of each item change places."""
    lanes = _lanes(fields)
    for one, other in itertools.pairwise(lanes):
        swapped = [_put(_put(item, one, _get(item, other)), other, _get(item, one)) for item in items]
        if swapped != items:
            return swapped
    return items


def transposed(items: Items, fields: list[Leaf]) -> Items:
    """Items and lanes change places, as if rows had been taken for columns."""
    lanes = _lanes(fields)
    size = min(len(items), len(lanes))
    wrong = list(items)
    for row in range(size):
        for column in range(size):
            wrong[row] = _put(wrong[row], lanes[column], _get(items[column], lanes[row]))
    return wrong


def one_ulp(items: Items, fields: list[Leaf]) -> Items:
    """The last field of the last item is one unit in the last place too large."""
    return [*items[:-1], _put(items[-1], fields[-1], _get(items[-1], fields[-1]) + 1)]


def one_bit(items: Items, fields: list[Leaf]) -> Items:
    """The top bit of the first item is wrong: a sign."""
    return [_put(items[0], fields[0], _get(items[0], fields[0]) ^ 1 << fields[0].width - 1), *items[1:]]


def dropped(items: Items, _fields: list[Leaf]) -> Items:
    """An item in the middle never came."""
    middle = len(items) // 2
    return items[:middle] + items[middle + 1 :]


def duplicated(items: Items, _fields: list[Leaf]) -> Items:
    """An item in the middle came twice."""
    middle = len(items) // 2
    return items[: middle + 1] + items[middle:]


def reordered(items: Items, _fields: list[Leaf]) -> Items:
    """Two neighbouring items that differ changed places."""
    for index, (one, other) in enumerate(itertools.pairwise(items)):
        if one != other:
            return [*items[:index], other, one, *items[index + 2 :]]
    return items


FAULTS: dict[str, Fault] = {
    function.__name__: function
    for function in (zeros, swapped_lanes, transposed, one_ulp, one_bit, dropped, duplicated, reordered)
}


def plant(items: Any, shape: Any) -> dict[str, Items]:
    """The outputs under each fault that changes them."""
    golden = from_words(items) if isinstance(items, np.ndarray) else [int(item) for item in items]
    fields = [leaf for leaf in leaves(shape) if leaf.width]
    if not golden or not fields:
        return {}
    wrong = {name: fault(golden, fields) for name, fault in FAULTS.items()}
    return {name: outputs for name, outputs in wrong.items() if outputs != golden}


def check_notices(
    compare: Callable[[Items], object],
    golden: Any,
    shape: Any,
    needed: Iterable[str] = ("zeros", "one_ulp", "one_bit", "dropped", "duplicated"),
) -> list[str]:
    """Raise :class:`UnnoticedError` unless ``compare`` fails under every planted fault; return the faults' names.

    ``compare`` must accept ``golden`` itself.
    """
    planted = plant(golden, shape)
    with counts.paused():
        compare(from_words(golden) if isinstance(golden, np.ndarray) else list(golden))
        for name, outputs in planted.items():
            if _passes(compare, outputs):
                raise UnnoticedError(f"the bench does not notice: {FAULTS[name].__doc__}")
    missing = set(needed) - set(planted)
    if missing:
        raise UnnoticedError(f"golden is too plain to plant {', '.join(sorted(missing))}: use richer stimulus")
    return list(planted)


def check_notices_late(compare: Callable[[list[int]], object], stamps: Iterable[int]) -> None:
    """Raise :class:`UnnoticedError` unless ``compare`` fails when one transfer comes a cycle later."""
    right = [int(stamp) for stamp in stamps]
    late = [*right[:-1], right[-1] + 1]
    with counts.paused():
        compare(right)
        if _passes(compare, late):
            raise UnnoticedError("the bench does not notice that the last item comes a cycle late")


def _passes(compare: Callable[[Items], object], outputs: Items) -> bool:
    try:
        compare(outputs)
    except AssertionError:
        return False
    return True


def _lanes(fields: list[Leaf]) -> list[Leaf]:
    """Fields that differ in the index of one array only: the lanes of a vector."""
    lanes: dict[Any, list[Leaf]] = {}
    for leaf in fields:
        key = tuple("[]" if isinstance(step, int) else step for step in leaf.path)
        if "[]" in key:
            lanes.setdefault(key, []).append(leaf)
    return max(lanes.values(), key=len, default=[])


def _get(item: int, leaf: Leaf) -> int:
    return item >> leaf.offset & (1 << leaf.width) - 1


def _put(item: int, leaf: Leaf, value: int) -> int:
    mask = (1 << leaf.width) - 1
    return item & ~(mask << leaf.offset) | (value & mask) << leaf.offset
