"""Microscaling quantisation: fp32 to blocks of 32 elements with one power-of-two scale."""

import numpy as np
import numpy.typing as npt

from golden.numerics.cast import encode
from spec.formats import BLOCKS, FLOATS, SCALES

F32 = npt.NDArray[np.float32]
ROWS = 4
"""Elements of one lane in a block; the other factor is the lanes."""
LANES = BLOCKS["mxfp8"].block // ROWS


def quantize_mx(rows: F32, element: str) -> tuple[npt.NDArray, npt.NDArray]:
    """``(element codes [rows, lanes], scale codes [rows / 4, lanes / 8])`` of blocks of 4 rows x 8 lanes.

    The scale's exponent is that of the largest magnitude minus the largest of the element format (OCP Microscaling
    v1.0, section 6.3), kept within e8m0; elements are scaled exactly, rounded to nearest even and saturate. A block
    with a NaN or an infinity has the NaN scale and zero elements; a block of zeros has the smallest scale.
    """
    legal = {name for entry in BLOCKS.values() for name in entry.elements}
    if element not in legal or rows.shape[0] % ROWS or rows.shape[1] % LANES:
        raise ValueError(
            f"quantize_mx of {rows.shape} to {element!r}: legal is multiples of ({ROWS}, {LANES}) "
            f"to one of {', '.join(sorted(legal))}"
        )
    scale_format = SCALES["e8m0"]
    count, lanes = rows.shape
    blocks = rows.reshape(count // ROWS, ROWS, lanes // LANES, LANES).transpose(0, 2, 1, 3).astype(np.float64)
    finite = np.asarray(np.isfinite(blocks).all(axis=(2, 3)))
    numbers = np.where(np.expand_dims(finite, (2, 3)), blocks, 0.0)
    largest = np.abs(numbers).max(axis=(2, 3))
    exponent = np.frexp(largest)[1] - 1 - FLOATS[element].exponent_max
    exponent = np.where(largest == 0, -scale_format.bias, np.clip(exponent, -scale_format.bias, scale_format.bias))
    scaled = np.ldexp(numbers, -exponent[..., None, None])
    codes = encode(element, scaled, saturate=True).transpose(0, 2, 1, 3).reshape(count, lanes)
    scales = np.where(finite, exponent + scale_format.bias, scale_format.nan_pattern)
    return codes, scales.astype(np.uint8)
