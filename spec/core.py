"""Parameters of the NeuronCore: engines, memories, semaphores, DMA."""

import dataclasses

from spec.machine import MachineConfig
from spec.parameters import Parameters, parameter, refuse
from spec.scalar import ScalarConfig
from spec.tensor import TensorConfig
from spec.vector import ELEMENT_FORMATS, VectorConfig

ENGINES: tuple[str, ...] = ("tensor", "vector", "scalar", "sync")
"""Sequencers of a core, in the order of their numbers."""

WORD_BYTES = 4
"""Bytes of a partition that one row access moves: the widest element."""
MOST_WAYS = 2
"""16-bit elements of a lane in one row."""
LINE_BYTES = 64
"""Bytes of one HBM access, a line."""
QUARTERS = 4
"""Start partitions are multiples of a quarter of the partitions."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CoreConfig(Parameters):
    """One NeuronCore as hardware: its engines and what joins them."""

    tensor: TensorConfig
    vector: VectorConfig
    scalar: ScalarConfig
    sbuf_bytes: int = parameter(
        192 * 1024, unit="bytes/partition", low=64, high=1 << 18, doc="state buffer; a multiple of 4 * sbuf_banks"
    )
    sbuf_banks: int = parameter(
        8,
        unit="banks",
        low=1,
        high=64,
        power_of_two=True,
        doc="words interleaved over them: a DMA engine that fills partitions takes dma_lanes of them a cycle",
    )
    semaphores: int = parameter(
        256, low=4, high=256, power_of_two=True, doc="semaphores", source="aws-neuron-driver: 256 a core"
    )
    registers: int = parameter(
        64, low=4, high=64, power_of_two=True, doc="registers of a sequencer", source="NKI: 64 of 32 bits"
    )
    dma_queues: int = parameter(16, unit="queues", low=1, high=16, doc="DMA queues", source="NKI DMA overview: 16")
    dma_engines: int = parameter(2, unit="engines", low=1, high=16, doc="transfers under way at a time")
    dma_lanes: int = parameter(
        4,
        unit="elements/cycle",
        low=1,
        high=16,
        power_of_two=True,
        doc="elements of up to 4 bytes that a DMA engine moves in a cycle, a beat",
        source="NKI DMA overview: 23 B/ns an engine, at the 1.4 GHz of the profiler's clock 16 bytes a cycle",
    )
    dma_row: int = parameter(
        1,
        unit="cycles",
        low=1,
        high=4096,
        doc="from the start of a row of a transfer, its innermost dimension, to that of the next one, at least",
    )
    dma_depth: int = parameter(4, unit="transfers", low=2, high=64, doc="transfers waiting in each queue")
    fetch_depth: int = parameter(4, unit="instructions", low=2, high=64, doc="instructions fetched ahead")
    hbm_lines: int = parameter(
        1 << 14, unit="lines of 64 B", low=64, high=1 << 42, doc="memory that the core can address"
    )
    hbm_latency: int = parameter(16, unit="cycles", low=1, high=1024, doc="from a read of a line to its data")

    def check(self) -> None:
        """Refuse engines that do not fit each other, and formats whose codes would mean two things."""
        rows = self.tensor.rows
        for name, value in (
            ("tensor.columns", self.tensor.columns),
            ("vector.lanes", self.vector.lanes),
            ("scalar.lanes", self.scalar.lanes),
        ):
            if value != rows:
                raise refuse("CoreConfig", name, value, f"tensor.rows = {rows}")
        if self.vector.ways > MOST_WAYS:
            raise refuse("CoreConfig", "vector.ways", self.vector.ways, f"at most {MOST_WAYS}: a row is a word a lane")
        if rows % QUARTERS:
            raise refuse("CoreConfig", "tensor.rows", rows, f"a multiple of {QUARTERS}")
        for name, formats in (("vector.formats", self.vector.formats), ("scalar.formats", self.scalar.formats)):
            if formats != ELEMENT_FORMATS[: len(formats)]:
                raise refuse("CoreConfig", name, formats, "the first of " + ", ".join(ELEMENT_FORMATS))
        if self.vector.formats != self.scalar.formats:
            raise refuse("CoreConfig", "scalar.formats", self.scalar.formats, "those of the vector engine")
        if self.dma_lanes > min(self.sbuf_banks, rows):
            legal = f"at most a bank of SBUF and a partition each: {min(self.sbuf_banks, rows)}"
            raise refuse("CoreConfig", "dma_lanes", self.dma_lanes, legal)
        if self.sbuf_bytes % (WORD_BYTES * self.sbuf_banks):
            raise refuse("CoreConfig", "sbuf_bytes", self.sbuf_bytes, f"a multiple of {WORD_BYTES * self.sbuf_banks}")

    @property
    def partitions(self) -> int:
        """Partitions of SBUF and PSUM, lanes of every engine."""
        return self.tensor.rows

    @property
    def marked(self) -> bool:
        """Whether there are operands of the tensor engine with something beside them: scales or tags."""
        return self.tensor.microscaling or self.tensor.sparsity

    @property
    def operand_ports(self) -> int:
        """Rows of SBUF that the tensor engine asks for in a cycle: loads, planes of moving columns, what is beside."""
        return self.tensor.load_columns + self.tensor.planes + self.marked + self.tensor.microscaling

    @property
    def quarter(self) -> int:
        """Partitions of a quarter: start partitions are multiples of it."""
        return self.partitions // QUARTERS

    @property
    def sbuf_rows(self) -> int:
        """Rows of SBUF: one word of each partition."""
        return self.sbuf_bytes // WORD_BYTES

    @property
    def psum_bytes(self) -> int:
        """PSUM of one partition."""
        return self.tensor.psum_depth * WORD_BYTES

    @property
    def hbm_bytes(self) -> int:
        """Bytes of the memory behind the core."""
        return self.hbm_lines * LINE_BYTES

    @property
    def sbuf_pitch(self) -> int:
        """Bytes from one partition to the next in the linear addresses of DMA: a power of two."""
        return 1 << (self.sbuf_bytes - 1).bit_length()

    @property
    def psum_pitch(self) -> int:
        """The same for PSUM."""
        return 1 << (self.psum_bytes - 1).bit_length()


def core_of(machine: MachineConfig) -> CoreConfig:
    """The core of a preset's machine."""
    core = machine.chip.core
    lanes = core.tensor.rows
    # A bank takes a word a cycle from DMA, and a line of HBM has sixteen: what has engines for a line has banks for it.
    banks = max(8, 1 << (core.dma_engines - 1).bit_length())
    share = machine.chip.hbm_stack_gib * machine.chip.hbm_stacks / machine.chip.cores * (1 << 30)
    return CoreConfig(
        tensor=core.tensor,
        vector=VectorConfig(lanes=lanes),
        scalar=ScalarConfig(lanes=lanes),
        sbuf_bytes=core.sbuf_partition_bytes,
        sbuf_banks=banks,
        dma_engines=core.dma_engines,
        hbm_lines=1 << (int(share) // LINE_BYTES).bit_length() - 1,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShareConfig(Parameters):
    """One port for several askers."""

    ports: int = parameter(2, unit="askers", low=1, high=256, doc="who share the port")
    request: int = parameter(unit="bits", low=1, high=1 << 16, doc="of a request; bit 0 says that it has no answer")
    response: int = parameter(unit="bits", low=1, high=1 << 16, doc="of an answer")
    depth: int = parameter(8, unit="requests", low=1, high=1024, doc="requests whose answers are not there yet")
    burst: int = parameter(1, unit="requests", low=1, high=64, doc="of one asker in a turn")


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostConfig(Parameters):
    """The host's way into the memory of a core or a chip."""

    core: CoreConfig
    response: int = parameter(8 * LINE_BYTES, unit="bits", low=1, high=1 << 16, doc="of what the host reads")
    ahead: int = parameter(16, unit="lines", low=1, high=1024, doc="lines asked for and not taken")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SequencerConfig(Parameters):
    """The sequencer of one engine of a core."""

    core: CoreConfig
    engine: str = parameter(choices=ENGINES, doc="whose instructions it issues")
