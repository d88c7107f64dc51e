"""Structured sparsity: a stationary without its zeros, with a tag for each of the numbers that are left.

Four rows of the array choose from sixteen moving operands, four a row. Tag ``4 * plane + index`` is the operand of that
plane in row ``index`` of the four. With ``kept:block`` (2:8), each block of ``block`` neighbours along K is ``kept``
rows; the blocks of four rows lie behind each other in the sixteen operands, which are filled as far as the ratio of
``block`` to ``kept`` needs.
"""

import numpy as np
from numpy.typing import NDArray

from spec.parameters import ParameterError, lookup
from spec.tensor import PATTERNS, SPARSE_PLANES, SPARSE_ROWS, TensorConfig

Codes = NDArray[np.unsignedinteger]

TAG_SHIFT = 40
"""Where the tag lies in the word that golden and the driver hold for an operand of a sparse stationary."""


def ratio(pattern: str) -> int:
    """Rows of K that one row of the array stands for."""
    kept, block = lookup("pattern of sparsity", PATTERNS, pattern)
    return int(block // kept)


def compress(pattern: str, zero: NDArray[np.bool_], codes: Codes) -> Codes:
    """Operand words ``[K / ratio, M]`` of a stationary ``[K, M]`` of which ``zero`` tells what may be left out.

    K is a multiple of four rows' share. A block of more than ``kept`` numbers is refused. Where there are fewer, zeros
    of the block are kept in their place.
    """
    kept, block = lookup("pattern of sparsity", PATTERNS, pattern)
    k, m = codes.shape
    blocks = ~zero.reshape(k // block, block, m)
    if (blocks.sum(axis=1) > kept).any():
        raise ParameterError(f"sparse stationary: legal is at most {kept} numbers in each {block} rows of K")
    # Numbers before zeros, each in the order of K; then the ones to keep in the order of K again.
    chosen = np.sort(np.argsort(~blocks, axis=1, kind="stable")[:, :kept], axis=1)
    values = np.take_along_axis(codes.reshape(k // block, block, m), chosen, axis=1).reshape(-1, m)
    first = np.arange(k // block) % (SPARSE_ROWS // kept) * block
    tags = (chosen + first[:, None, None]).reshape(-1, m)
    return values.astype(np.uint64) | tags.astype(np.uint64) << np.uint64(TAG_SHIFT)


def planes(pattern: str, codes: Codes) -> Codes:
    """Moving operands ``[4 K / ratio, N]`` for a sparse stationary, plane by plane, of codes ``[K, N]``."""
    depth = ratio(pattern)
    k, n = codes.shape
    parts = codes.reshape(k // (SPARSE_ROWS * depth), depth, SPARSE_ROWS, n).swapaxes(0, 1).reshape(depth, -1, n)
    filled = np.zeros((SPARSE_PLANES, *parts.shape[1:]), codes.dtype)
    filled[:depth] = parts
    return filled.reshape(-1, n)


def all_planes(config: TensorConfig, codes: Codes) -> Codes:
    """Moving operands ``[planes * rows, N]``: those of dense matmuls, ``[rows, N]``, are the first plane."""
    missing = config.planes * config.rows - len(codes)
    return np.pad(codes, ((0, missing), (0, 0))) if missing > 0 else codes


def places(tags: NDArray[np.integer]) -> NDArray[np.int64]:
    """For tags ``[rows, M]``, the places in the planes that they stand for."""
    plane, index = np.divmod(tags.astype(np.int64), SPARSE_ROWS)
    rows = np.arange(len(tags))[:, None]
    return plane * len(tags) + rows // SPARSE_ROWS * SPARSE_ROWS + index
