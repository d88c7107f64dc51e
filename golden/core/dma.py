"""DMA transfers: elements one by one from one memory to another, cast, transposed, accumulated, indexed."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from golden.core.memory import DTYPES, Memories
from golden.core.pattern import Values, based, extent, format_bytes, offsets
from golden.numerics import add, codes
from golden.numerics.cast import encode
from spec.core import LINE_BYTES, WORD_BYTES, CoreConfig
from spec.isa import DIMENSIONS, SPACES
from spec.vector import ELEMENT_FORMATS

U64 = npt.NDArray[np.int64]


class Transfer:
    """One transfer with its registers resolved."""

    def __init__(self, config: CoreConfig, values: Values, registers: npt.NDArray[np.int32]) -> None:
        self.config, self.values = config, values
        self.nums = [values[f"num{d}"] for d in range(DIMENSIONS)]
        self.first, self.steps, self.formats = {}, {}, {}
        for side in ("source", "target"):
            self.first[side] = based(values[f"{side}_address"], values[f"{side}_base"], registers)
            self.steps[side] = [values[f"{side}_step{d}"] for d in range(DIMENSIONS)]
            self.formats[side] = values[f"{side}_format"]
        self.lines = self.words = self.beats = self.drains = 0
        """Once it has run: lines of HBM moved; accesses to banks of SBUF; beats of the side that takes more; beats of
        an accumulation that wait until those before them have been written."""
        self.indexed = {1: "source", 2: "target"}.get(values["indexed"])

    @property
    def count(self) -> int:
        """Elements."""
        return int(np.prod([int(num) for num in self.nums], dtype=object))

    def capacity(self, side: str) -> int:
        """Bytes of the memory on one side, as linear addresses count them."""
        config, space = self.config, self.values[f"{side}_space"]
        pitch = config.sbuf_pitch if SPACES[min(space, len(SPACES) - 1)] == "sbuf" else config.psum_pitch
        return config.hbm_bytes if space == 0 else pitch * config.partitions

    def faults(self) -> set[str]:
        """Reasons for which it is refused before it starts."""
        values, config = self.values, self.config
        found = set()
        if values["queue"] >= config.dma_queues:
            found.add("bad_queue")
        if values["source_space"] >= len(SPACES) or values["target_space"] >= len(SPACES):
            found.add("bad_memory")
        if any(code >= len(config.vector.formats) for code in self.formats.values()):
            found.add("bad_format")
        if values["indexed"] > 2 or 0 in self.nums:
            found.add("bad_pattern")
        if self.indexed:
            end = values["list_address"] + 4 * self.nums[3]
            if values["list_address"] % 4 or end > config.hbm_bytes:
                found.add("bad_address")
        for side in ("source", "target"):
            size = format_bytes(config, self.formats[side])
            inner = DIMENSIONS - (side == self.indexed)
            low, high = extent(self.steps[side][:inner], self.nums[:inner])
            first = self.first[side]
            aligned = not any(value % size for value in (first, *self.steps[side]))
            if not aligned or first + low < 0 or first + high + size > self.capacity(side):
                found.add("bad_address")
        return found

    def blocks(self, memories: Memories) -> Iterator[tuple[U64, U64, bool]]:
        """``(source, target, legal)`` byte addresses of each block: one, or one for each index."""
        inner = DIMENSIONS - bool(self.indexed)
        count = int(np.prod(self.nums[:inner]))
        if not self.indexed:
            pair = (offsets(self.first[s], self.steps[s], self.nums, count) for s in ("source", "target"))
            source, target = pair
            yield source, target, self._exist("source", source) and self._exist("target", target)
            return
        start = self.values["list_address"]
        indices = memories.hbm[start : start + 4 * self.nums[3]].view(np.int32)
        for number, index in enumerate(indices):
            places = {}
            for side in ("source", "target"):
                factor = int(index) if side == self.indexed else number
                first = self.first[side] + factor * self.steps[side][3]
                places[side] = offsets(first, self.steps[side][:inner], self.nums[:inner], count)
            yield places["source"], places["target"], all(self._exist(side, places[side]) for side in places)

    def _exist(self, side: str, places: U64) -> bool:
        """Whether all addresses are in a memory: inside, and in no gap between partitions."""
        if places.min() < 0 or places.max() >= self.capacity(side):
            return False
        space = self.values[f"{side}_space"]
        pitch = (0, self.config.sbuf_pitch, self.config.psum_pitch)[space]
        held = (0, self.config.sbuf_bytes, self.config.psum_bytes)[space]
        return space == 0 or bool((places % pitch < held).all())

    def run(self, memories: Memories) -> bool:
        """Move everything; False, at the first block that would leave a memory. Counts what it takes."""
        self.lines = self.words = self.beats = self.drains = 0
        for source, target, legal in self.blocks(memories):
            if not legal:
                return False
            self._move(memories, source, target)
            self._count(source, target)
            for side, places in (("source", source), ("target", target)):
                if self.values[f"{side}_space"] == 1:
                    across = self.steps[side][0] == self.config.sbuf_pitch
                    self.words += len(places) // self.config.dma_lanes if across else len(places)
                if self.values[f"{side}_space"] == 0:
                    self.lines += 1 + int(np.count_nonzero(np.diff(places // LINE_BYTES)))
        return True

    def _count(self, source: U64, target: U64) -> None:
        """How many beats a block takes: those of the side that needs more; of an accumulation, of both together."""
        cuts = [self._cuts(side, places) for side, places in (("source", source), ("target", target))]
        if not self.values["accumulate"]:
            self.beats += max(int(self._begun(one).sum()) for one in cuts)
            return
        begun = np.nonzero(self._begun(cuts[0] | cuts[1]))[0]
        ends = target[np.append(begun[1:], len(target)) - 1] + format_bytes(self.config, self.formats["target"])
        self.beats += len(begun)
        self.drains += int(np.count_nonzero(target[begun[1:]] < ends[:-1]))

    def _cuts(self, side: str, places: U64) -> npt.NDArray[np.bool_]:
        """The elements that do not go together with the one before: by bytes of a unit, or across partitions."""
        size, step, space = (
            format_bytes(self.config, self.formats[side]),
            self.steps[side][0],
            self.values[f"{side}_space"],
        )
        pitch = (None, self.config.sbuf_pitch, self.config.psum_pitch)[space]
        cuts = np.arange(len(places)) % self.nums[0] == 0
        if step == size:
            unit = (LINE_BYTES, self.config.sbuf_pitch, WORD_BYTES)[space]
            cuts[1:] |= np.diff(places // unit) != 0
        return cuts | (step not in (size, pitch))

    def _begun(self, cuts: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """The elements with which a beat begins."""
        index = np.arange(len(cuts))
        return (index - np.maximum.accumulate(np.where(cuts, index, 0))) % self.config.dma_lanes == 0

    def _move(self, memories: Memories, source: U64, target: U64) -> None:
        names = {side: ELEMENT_FORMATS[code] for side, code in self.formats.items()}
        if not self.values["accumulate"]:
            found = self._load(memories, "source", source)
            if names["source"] != names["target"]:
                numbers = codes.decode(names["source"], found).astype(np.float32)
                found = encode(names["target"], numbers)
            self._store(memories, target, found)
            return
        # An element may be a target more than once: rounds of elements that are not.
        left = np.arange(len(target))
        while len(left):
            _, first = np.unique(target[left], return_index=True)
            turn = left[np.sort(first)]
            terms = [
                codes.decode(names[side], self._load(memories, side, places[turn])).astype(np.float32)
                for side, places in (("target", target), ("source", source))
            ]
            self._store(memories, target[turn], encode(names["target"], add(*terms)))
            left = np.setdiff1d(left, turn)

    def _flat(self, memories: Memories, side: str, places: U64) -> tuple[npt.NDArray[np.unsignedinteger], U64]:
        """The memory of one side as elements, and the index of each address."""
        size = format_bytes(self.config, self.formats[side])
        space = self.values[f"{side}_space"]
        if space == 0:
            return memories.hbm.view(DTYPES[size]), places // size
        memory, pitch = (
            (memories.sbuf, self.config.sbuf_pitch) if space == 1 else (memories.psum, self.config.psum_pitch)
        )
        linear = places // pitch * memory.shape[1] + places % pitch
        return memory.reshape(-1).view(DTYPES[size]), linear // size

    def _load(self, memories: Memories, side: str, places: U64) -> npt.NDArray[np.unsignedinteger]:
        memory, index = self._flat(memories, side, places)
        return memory[index]

    def _store(self, memories: Memories, places: U64, found: npt.NDArray[np.unsignedinteger]) -> None:
        memory, index = self._flat(memories, "target", places)
        memory[index] = found.astype(memory.dtype)
        if SPACES[self.values["target_space"]] == "psum":
            partition, offset = np.divmod(places, self.config.psum_pitch)
            memories.mark(partition, offset)
