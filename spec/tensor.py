"""Parameters of the tensor engine: the systolic array, its stationary loader and its PSUM."""

import dataclasses
import enum

from spec.formats import BLOCKS, FLOATS, FP32, SCALES
from spec.parameters import Parameters, lookup, parameter, refuse

FP32_HALVES = ("fp32_high", "fp32_low")
"""What the array multiplies of an fp32 number: its first 12 significant bits, and the 12 others."""

PAIRABLE = ("fp8_e4m3", "fp8_e4m3fn", "fp8_e5m2")
"""Formats of which an element can take two products a cycle."""

PAIRS: dict[str, str] = {f"{name}_x2": name for name in PAIRABLE}
"""Operands that hold two numbers, the first in the low byte, by name: the format of both."""

BITS: dict[str, int] = {"bits8": 8, "bits16": 16, "bits32_low": 32, "bits32_high": 32}
"""Operands that are moved, not multiplied, by name: their width in memory. Of 32 bits, one half is moved at a time."""

QUADS: dict[str, str] = {f"mx_{name.split('_')[1]}_x4": name for block in BLOCKS.values() for name in block.elements}
"""Operands of microscaling formats: four numbers, the first in the low bits, by name: the format of all four."""

QUAD_ROWS = BLOCKS["mxfp8"].block // 4
"""Rows whose operands share a scale: a block of 32 numbers, four to a row."""

SCALE = SCALES["e8m0"]
"""Format of the scales."""

SPARSE_ROWS = 4
"""Rows that choose from the same moving operands where the stationary is sparse."""

SPARSE_PLANES = 4
"""Moving operands a row brings to that choice; the most a sparse stationary shortens K by."""

TAG_BITS = (SPARSE_ROWS * SPARSE_PLANES - 1).bit_length()
"""Width of a tag: which of the operands of its rows an element multiplies."""

PATTERNS: dict[str, tuple[int, int]] = {
    f"{kept}:{block}": (kept, block) for kept, block in ((4, 16), (4, 12), (4, 8), (2, 8), (2, 4), (1, 4), (1, 2))
}
"""Structured sparsity by name: of ``block`` neighbours along K at most ``kept`` are not zero."""

MOST_TILES = 4
"""Parts that the rows, and the columns, of an array can be divided into."""

_OPERANDS = (*(name for name in FLOATS if name != FP32.name), *FP32_HALVES, *PAIRS, *BITS, *QUADS)

OPERAND_CODES: dict[str, int] = {name: code for code, name in enumerate(_OPERANDS)}
"""Code of each operand format in an instruction: the same number on every machine, whether it has the format or not."""

OPERAND_CODE_BITS = 5
"""Width of the format field; its spare codes are unknown formats."""


def operand_code(name: str) -> int:
    """The code of the format called ``name``; an unknown name is refused with the list of known ones."""
    code: int = lookup("operand format", OPERAND_CODES, name)
    return code


def first_state(lane: int) -> int:
    """State of a lane's random generator after reset: never 0, and far apart for neighbours."""
    return (lane + 1) * 0x9E3779B9 & 0xFFFFFFFF | 1


class Kind(enum.IntEnum):
    """What an element does with an operand; both operands of a matmul must be of one kind."""

    NUMBER = 0
    PAIR = 1
    BITS = 2
    QUAD = 3


def operand_kind(name: str) -> Kind:
    """The kind of the operand called ``name``."""
    tables = ((Kind.PAIR, PAIRS), (Kind.BITS, BITS), (Kind.QUAD, QUADS))
    return next((kind for kind, table in tables if name in table), Kind.NUMBER)


class Operation(enum.IntEnum):
    """What an instruction asks for."""

    LOAD_STATIONARY = 0
    MATMUL = 1


class ResultFormat(enum.IntEnum):
    """How a matmul writes PSUM. bf16 is the upper half of the fp32 word of the same value; the lower half is 0."""

    FP32 = 0
    BF16 = 1
    """The sum, as bf16 rounded to nearest even."""
    BF16_STOCHASTIC = 2
    """The sum, as bf16 rounded by random bits."""


class Status(enum.IntEnum):
    """Outcome of one instruction; of several errors the one listed first is reported.

    A refused instruction changes nothing but the stationary's state, which a refused load leaves empty. It still takes
    as many operands as its ``columns`` field names, and drops them, so that the operands of the next one follow.
    """

    OK = 0
    FORMAT = 1
    """The operand format or that of the result is unknown, not built in, or cannot be sparse."""
    COLUMNS = 2
    """No column, or more than the array (load) or one matmul (:attr:`TensorConfig.moving_columns`) takes."""
    ADDRESS = 3
    """The result would lie outside its PSUM bank, outside PSUM, or in parts the array does not have; a load would lie
    outside the array or not begin at a whole group of ``load_columns`` columns.
    """
    STATIONARY = 4
    """There is no stationary: none was loaded since reset, or the load before was refused."""
    UNWRITTEN = 5
    """Accumulation onto a location that no matmul has overwritten since reset."""
    KIND = 6
    """Stationary and moving operands are not of one :class:`Kind`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorConfig(Parameters):
    """A weight-stationary array of ``rows`` x ``columns`` processing elements above a banked accumulator memory.

    ``rows`` is the contraction dimension K (SBUF partitions), ``columns`` the output dimension M (PSUM partitions).
    """

    rows: int = parameter(
        128,
        unit="processing elements",
        low=2,
        high=512,
        doc="height of the array, K of one pass",
        source="aws-neuron-sdk, trainium2_arch: 128x128",
    )
    columns: int = parameter(
        128,
        unit="processing elements",
        low=2,
        high=512,
        doc="width of the array, M of one pass",
        source="aws-neuron-sdk, trainium2_arch: 128x128",
    )
    formats: tuple[str, ...] = parameter(
        ("bf16", "fp16"),
        choices=tuple(FLOATS),
        doc="operand formats; fp32 takes four passes, because only half its significand fits the internal form",
    )
    load_columns: int = parameter(
        4,
        unit="columns/cycle",
        low=1,
        high=16,
        power_of_two=True,
        doc="stationary columns loaded a cycle",
        source="aws-neuron-sdk, trainium_inferentia2_arch: a load costs a quarter of a matmul of the same size",
    )
    multiply_stages: int = parameter(2, unit="cycles", low=1, high=4, doc="pipeline registers of the exact product")
    add_stages: int = parameter(3, unit="cycles", low=1, high=6, doc="pipeline registers of the add, the skew of a row")
    psum_banks: int = parameter(
        8,
        unit="banks",
        low=1,
        high=64,
        doc="accumulator banks per partition",
        source="aws-neuron-sdk, trainium_inferentia2_arch",
    )
    psum_bank_bytes: int = parameter(
        2048,
        unit="bytes/partition",
        low=16,
        high=1 << 16,
        power_of_two=True,
        doc="size of one bank",
        source="aws-neuron-sdk, trainium_inferentia2_arch: 2 KiB = 512 fp32",
    )

    double_row: bool = parameter(
        False,
        choices=(False, True),
        doc="FP8 at twice the rate: an element takes the products of two rows a cycle",
        source="aws-neuron-sdk, trainium2_arch: performance mode double_row",
    )
    microscaling: bool = parameter(
        False,
        choices=(False, True),
        doc="MXFP8 and MXFP4 at four times the rate: an element takes four products a cycle, scaled together",
        source="aws-neuron-sdk, trainium3_arch",
    )
    transpose: bool = parameter(
        False,
        choices=(False, True),
        doc="operands can be moved bit by bit instead of multiplied",
        source="aws-neuron-sdk, trainium2_arch: transpose mode of matmul",
    )
    sparsity: bool = parameter(
        False,
        choices=(False, True),
        doc="stationaries of structured sparsity at up to four times the rate",
        source="aws-neuron-sdk, neuron-core-v3: 4:16, 4:12, 4:8, 2:8, 2:4, 1:4, 1:2",
    )
    tiles: int = parameter(
        1,
        choices=(1, 2, MOST_TILES),
        doc="most parts of the rows that multiply side by side; parts of the columns that a result can be kept to",
        source="aws-neuron-sdk, nki.isa.nc_matmul: tile_position and tile_size, 2x64 or 4x32 rows",
    )
    bf16_results: bool = parameter(
        False,
        choices=(False, True),
        doc="PSUM can hold bf16, rounded to nearest even or stochastically",
        source="aws-neuron-sdk, trainium3_arch: BF16 matmul results in PSUM",
    )
    whole_psum: bool = parameter(
        False,
        choices=(False, True),
        doc="one matmul may cross banks and fill all of PSUM",
        source="aws-neuron-sdk, trainium3_arch",
    )
    hop_columns: int = parameter(
        8, unit="columns/cycle", low=1, high=512, doc="columns a moving operand passes a cycle on its way along a row"
    )
    queue_depth: int = parameter(
        64, unit="instructions", low=2, high=1024, doc="instructions accepted whose status is not yet taken"
    )

    def check(self) -> None:
        """Refuse loads wider than the array, and pairs of formats that do not come in pairs."""
        if self.double_row and not set(PAIRABLE) & set(self.formats):
            raise refuse("TensorConfig", "formats", self.formats, "with double_row, one of " + ", ".join(PAIRABLE))
        if self.microscaling and not set(QUADS.values()) & set(self.formats):
            legal = "with microscaling, one of " + ", ".join(QUADS.values())
            raise refuse("TensorConfig", "formats", self.formats, legal)
        if self.microscaling and self.rows % QUAD_ROWS:
            raise refuse("TensorConfig", "rows", self.rows, f"with microscaling, a multiple of {QUAD_ROWS}")
        if self.sparsity and self.rows // self.tiles % SPARSE_ROWS:
            raise refuse("TensorConfig", "rows", self.rows, f"with sparsity, a multiple of {SPARSE_ROWS} in each tile")
        if self.tiles > 1:
            self._check_tiles()
        if self.load_columns > self.columns:
            raise refuse("TensorConfig", "load_columns", self.load_columns, f"1 to columns = {self.columns}")

    def _check_tiles(self) -> None:
        """Tiles must be equal, no smaller than two rows, and have a bank each."""
        whole = QUAD_ROWS if self.microscaling else 1
        if self.rows % (self.tiles * whole) or self.rows < 2 * self.tiles:
            legal = f"with tiles, a multiple of {self.tiles * whole}, and at least {2 * self.tiles}"
            raise refuse("TensorConfig", "rows", self.rows, legal)
        if self.columns % self.tiles:
            raise refuse("TensorConfig", "columns", self.columns, f"with tiles, a multiple of {self.tiles}")
        if self.psum_banks < self.tiles:
            raise refuse("TensorConfig", "psum_banks", self.psum_banks, f"with tiles, at least {self.tiles}")

    @property
    def bank_depth(self) -> int:
        """fp32 values one bank holds per partition."""
        return self.psum_bank_bytes * 8 // FP32.width

    @property
    def psum_depth(self) -> int:
        """fp32 values PSUM holds per partition; address = bank * bank_depth + offset."""
        return self.psum_banks * self.bank_depth

    @property
    def moving_columns(self) -> int:
        """Most columns one matmul moves: one bank, or all of PSUM."""
        return self.psum_depth if self.whole_psum else self.bank_depth

    @property
    def columns_bits(self) -> int:
        """Width of an instruction's ``columns`` field: every legal count, and as many illegal ones, can be said."""
        return max(self.moving_columns, self.columns).bit_length() + 1

    @property
    def operands(self) -> tuple[str, ...]:
        """Operand formats as instructions name them: ``formats``, the halves of fp32 in its place, and packed ones."""
        plain = tuple(name for name in self.formats if name != FP32.name)
        halves = FP32_HALVES if FP32.name in self.formats else ()
        pairs = tuple(pair for pair, name in PAIRS.items() if self.double_row and name in self.formats)
        bits = tuple(name for name, width in BITS.items() if self.transpose and width <= self.operand_bits)
        quads = tuple(quad for quad, name in QUADS.items() if self.microscaling and name in self.formats)
        return plain + halves + pairs + bits + quads

    @property
    def operand_bits(self) -> int:
        """Width of one operand at the edge of the array: the widest as it lies in memory, at least a byte."""
        quads = [4 * FLOATS[name].storage for name in QUADS.values() if self.microscaling and name in self.formats]
        return max(16 if self.double_row else 8, *(FLOATS[name].storage for name in self.formats), *quads)

    @property
    def edge_bits(self) -> int:
        """Width of what a row takes for one operand: the operand and, above it, its scale."""
        return self.operand_bits + (SCALE.width if self.microscaling else 0)

    @property
    def scales(self) -> int:
        """Scales of one column: one for each block of rows, or none."""
        return self.rows // QUAD_ROWS if self.microscaling else 0

    @property
    def planes(self) -> int:
        """Moving operands of a row in one column: 1, or as many as a sparse stationary chooses from."""
        return SPARSE_PLANES if self.sparsity else 1

    @property
    def stationary_bits(self) -> int:
        """Width of what a row takes for one operand of a stationary: as at the edge and, above it, its tag."""
        return self.edge_bits + (TAG_BITS if self.sparsity else 0)

    @property
    def splits(self) -> int:
        """Ways to divide the rows: whole, in two, in four."""
        return self.tiles.bit_length()

    @property
    def product_stages(self) -> int:
        """Cycles from the operands to what is added to the partial sum: a product, the sum of two or of four."""
        return self.multiply_stages + self.add_stages * (2 if self.microscaling else int(self.double_row))

    @property
    def hops(self) -> int:
        """Groups of ``hop_columns`` columns in a row."""
        return -(-self.columns // self.hop_columns)

    @property
    def load_cycles(self) -> int:
        """Cycles one stationary load takes."""
        return -(-self.columns // self.load_columns)

    @property
    def latency(self) -> int:
        """Cycles from taking a moving column to the status of the matmul that ends with it.

        One to write the column's skew memory, one to read it, one to decode; a hop for every group of columns; the
        product; one add per row; the add in PSUM, and its rounding to bf16; one to write PSUM and count the instruction
        as done.
        """
        psum = self.add_stages + self.bf16_results
        return 3 + self.hops + self.product_stages + self.rows * self.add_stages + psum

    @property
    def accumulate_distance(self) -> int:
        """Cycles after which a PSUM location that was written can be accumulated onto: read, add, round, write."""
        return self.add_stages + 2 + self.bf16_results


@dataclasses.dataclass(frozen=True, kw_only=True)
class DelayConfig(Parameters):
    """A delay line in memory."""

    width: int = parameter(unit="bits", low=1, high=1 << 16, doc="what it delays")
    depth: int = parameter(unit="cycles", low=2, high=1 << 12, doc="longest delay")
