"""The eight largest elements of each lane, where they are, and replacing them: the steps of top-k.

Rows are float32 ``[rows, lanes]``, eight values of each lane ``[8, lanes]``. A NaN is never among the largest and
matches nothing; -0 and +0 are equal.
"""

import numpy as np
import numpy.typing as npt

from spec.vector import SEARCH_SLOTS as SLOTS

F32 = npt.NDArray[np.float32]
NOT_FOUND = np.uint32(0xFFFFFFFF)


def max8(rows: F32) -> F32:
    """The eight largest elements, descending, equal ones in element order; -inf where there are fewer."""
    padded = np.concatenate([rows, np.full((SLOTS, rows.shape[1]), -np.inf, np.float32)])
    numbers = np.where(np.isnan(padded), np.float32(-np.inf), padded)
    order = np.argsort(-numbers, axis=0, kind="stable")[:SLOTS]
    return np.take_along_axis(numbers, order, axis=0)


def find_index8(rows: F32, values: F32) -> npt.NDArray[np.uint32]:
    """Index of the first element equal to each value; of equal values, the first gets the first index, and so on."""
    found = np.full(values.shape, NOT_FOUND, np.uint32)
    for index, row in enumerate(rows):
        slot = _first_match(row, values, found == NOT_FOUND)
        _put(found, slot, np.uint32(index))
    return found


def match_replace8(rows: F32, values: F32, replacement: np.float32) -> F32:
    """Replace the first element equal to each value; each value replaces once, of equal ones the last first."""
    free = np.ones(values.shape, bool)
    result = rows.copy()
    for index, row in enumerate(rows):
        slot = SLOTS - 1 - _first_match(row, values[::-1], free[::-1])
        hit = slot >= 0
        result[index] = np.where(hit, replacement, row)
        _put(free, np.where(hit, slot, SLOTS), np.False_)
    return result


def _first_match(row: F32, values: F32, free: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """The first free slot whose value equals the lane's element; ``SLOTS`` where there is none."""
    hits = (values == row) & free
    return np.where(hits.any(axis=0), hits.argmax(axis=0), SLOTS)


def _put(slots: npt.NDArray, slot: npt.NDArray[np.int64], value: np.generic) -> None:
    lanes = np.flatnonzero(slot < SLOTS)
    slots[slot[lanes], lanes] = value
