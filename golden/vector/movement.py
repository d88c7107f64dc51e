"""Moving elements between lanes, within quadrants of 32; bits are moved, never interpreted."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from spec.vector import KEEP, QUADRANT


def stream_shuffle(rows: npt.NDArray[Any], mask: Sequence[int]) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Lane ``i`` of each quadrant takes lane ``mask[i]`` of its quadrant: ``(rows, lanes written)``."""
    if len(mask) != QUADRANT or any(not (0 <= source < QUADRANT or source == KEEP) for source in mask):
        raise ValueError(f"stream_shuffle.mask = {list(mask)}: legal is 32 numbers, each 0 to 31 or 255")
    lanes = np.arange(rows.shape[1])
    chosen = np.array(mask)[lanes % QUADRANT]
    sources = np.where(chosen == KEEP, lanes, lanes // QUADRANT * QUADRANT + chosen)
    return rows[:, sources], np.broadcast_to(chosen != KEEP, rows.shape)


def transpose(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Each block of 32 rows x 32 lanes is transposed in place."""
    count, lanes = rows.shape
    if count % QUADRANT or lanes % QUADRANT:
        raise ValueError(f"transpose of {count} rows x {lanes} lanes: legal is multiples of {QUADRANT}")
    blocks = rows.reshape(count // QUADRANT, QUADRANT, lanes // QUADRANT, QUADRANT)
    return np.ascontiguousarray(blocks.transpose(0, 3, 2, 1)).reshape(count, lanes)
