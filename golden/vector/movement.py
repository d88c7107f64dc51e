"""Moving elements between lanes, within quadrants of 32; bits are moved, never interpreted."""

from typing import Any

import numpy as np
import numpy.typing as npt

from spec.vector import KEEP, QUADRANT


def stream_shuffle(
    rows: npt.NDArray[Any], sources: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """``(rows, lanes written)``: lane ``i`` takes the lane of its quadrant that ``sources[i]`` names.

    The low bits count, 255 keeps the destination; a lane beyond the last gives 0.
    """
    lanes = np.arange(rows.shape[1])
    named = lanes // QUADRANT * QUADRANT + sources % QUADRANT
    moved = np.where(named < len(lanes), rows[:, np.minimum(named, len(lanes) - 1)], 0)
    return moved.astype(rows.dtype), sources != KEEP


def transpose(rows: npt.NDArray[Any], block: int) -> npt.NDArray[Any]:
    """Each block of ``block`` rows x ``block`` lanes is transposed in place."""
    count, lanes = rows.shape
    blocks = rows.reshape(count // block, block, lanes // block, block)
    return np.ascontiguousarray(blocks.transpose(0, 3, 2, 1)).reshape(count, lanes)
