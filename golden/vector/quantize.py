"""Microscaling quantisation: fp32 to blocks of elements with one power-of-two scale."""

import numpy as np
import numpy.typing as npt

from golden.numerics.cast import encode
from spec.formats import FLOATS, SCALES
from spec.vector import MX_LANES, MX_ROWS

F32 = npt.NDArray[np.float32]
Codes = npt.NDArray[np.unsignedinteger]


def quantize_mx(rows: F32, element: str, lanes: int = MX_LANES) -> tuple[Codes, Codes]:
    """``(element codes [rows, lanes], scale codes [rows / 4, lanes / 8])`` of blocks of 4 rows x ``lanes`` lanes.

    The scale's exponent is that of the largest magnitude minus the largest of the element format (OCP Microscaling
    v1.0, section 6.3), kept within e8m0; elements are scaled exactly, rounded to nearest even and saturate. A block
    with a NaN or an infinity has the NaN scale and zero elements; a block of zeros has the smallest scale.
    """
    scale_format = SCALES["e8m0"]
    count, width = rows.shape
    blocks = rows.reshape(count // MX_ROWS, MX_ROWS, width // lanes, lanes).transpose(0, 2, 1, 3).astype(np.float64)
    finite = np.asarray(np.isfinite(blocks).all(axis=(2, 3)))
    numbers = np.where(np.expand_dims(finite, (2, 3)), blocks, 0.0)
    largest = np.abs(numbers).max(axis=(2, 3))
    exponent = np.frexp(largest)[1] - 1 - FLOATS[element].exponent_max
    exponent = np.where(largest == 0, -scale_format.bias, np.clip(exponent, -scale_format.bias, scale_format.bias))
    scaled = np.ldexp(numbers, -exponent[..., None, None])
    codes = encode(element, scaled, saturate=True).transpose(0, 2, 1, 3).reshape(count, width)
    scales = np.where(finite, exponent + scale_format.bias, scale_format.nan_pattern)
    return codes, scales.astype(np.uint8)


def rows_of_blocks(codes: Codes, scales: Codes, bits: int, lanes: int = MX_LANES) -> npt.NDArray[np.uint32]:
    """The instruction's results: of each block a row of its scale, then a row of words of four elements, lowest first.

    ``bits``: width of an element. Only the first lane of a block's scale is written.
    """
    words = codes.astype(np.uint32).reshape(-1, MX_ROWS, codes.shape[1])
    packed = sum(words[:, row] << np.uint32(bits * row) for row in range(MX_ROWS))
    spread = np.repeat(scales.astype(np.uint32), lanes, axis=1)
    return np.stack([spread, np.asarray(packed, np.uint32)], axis=1).reshape(-1, codes.shape[1])
