"""The memories of a core as arrays of bytes."""

import numpy as np
import numpy.typing as npt

from golden.core.pattern import Pattern
from spec.core import WORD_BYTES, CoreConfig
from spec.isa import CONSTANT_OFFSET_BITS

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]
DTYPES = {1: np.uint8, 2: np.uint16, 4: np.uint32}


class Memories:
    """``sbuf`` ``[partitions, bytes]``, ``hbm`` ``[bytes]``, and ``psum``, a view of the tensor engine's array.

    ``written`` is the tensor engine's own: for each tile of columns, the locations that something was written to.
    """

    def __init__(self, config: CoreConfig, psum: Words, written: npt.NDArray[np.bool_]) -> None:
        self.config = config
        self.sbuf: Bytes = np.zeros((config.partitions, config.sbuf_bytes), np.uint8)
        self.hbm: Bytes = np.zeros(config.hbm_bytes, np.uint8)
        self.psum: Bytes = psum.view(np.uint8)
        self.written = written

    def of(self, name: str) -> Bytes:
        """SBUF or PSUM, ``[partitions, bytes]``."""
        return self.sbuf if name == "sbuf" else self.psum

    def read(self, pattern: Pattern, count: int, fill: int = 0) -> Words:
        """Rows of element codes ``[count, lanes]``; lane 0 is the first partition, unused lanes hold ``fill``."""
        rows = np.full((count, self.config.partitions), fill, np.uint32)
        memory = self.of(pattern.memory)[pattern.start : pattern.start + pattern.partitions]
        elements = memory.view(DTYPES[pattern.size])[:, pattern.rows(count) // pattern.size]
        rows[:, : pattern.partitions] = elements.T
        return rows

    def write(self, pattern: Pattern, rows: Words, written: npt.NDArray[np.bool_]) -> None:
        """Write the lanes marked of each row, in the order of the rows."""
        places = pattern.rows(len(rows)) // pattern.size
        lanes = pattern.partitions
        if pattern.memory == "psum":
            row, lane = np.nonzero(written[:, :lanes])
            self.mark(pattern.start + lane, places[row] * pattern.size)
        target = self.of(pattern.memory)[pattern.start : pattern.start + lanes].view(DTYPES[pattern.size])
        codes = rows.T[:lanes].astype(DTYPES[pattern.size])
        if written.all() and len(np.unique(places)) == len(places):
            target[:, places] = codes
            return
        for index, place in enumerate(places):
            mask = written[index, :lanes]
            target[mask, place] = codes[mask, index]

    def mark(self, partitions: npt.NDArray[np.intp], offsets: npt.NDArray[np.integer]) -> None:
        """These bytes of PSUM are written: what lies around them can be accumulated onto."""
        tile = self.config.partitions // len(self.written)
        self.written[partitions // tile, offsets // WORD_BYTES] = True

    def constants(self, word: int) -> Words:
        """The row of words that a per-lane constant names; lanes beyond the last partition are zero."""
        start, offset = word >> CONSTANT_OFFSET_BITS, word & (1 << CONSTANT_OFFSET_BITS) - 1
        found = np.zeros(self.config.partitions, np.uint32)
        words = np.ascontiguousarray(self.sbuf[start:, offset : offset + 4]).view(np.uint32)[:, 0]
        found[: len(words)] = words
        return found
