"""Parameters, instructions and operations of the vector engine: many elements in, many out, reductions."""

import dataclasses
import math

from spec.formats import BLOCKS, FLOATS, INTS
from spec.parameters import Parameters, parameter, refuse

ELEMENT_FORMATS: tuple[str, ...] = tuple(FLOATS) + tuple(INTS)
"""Formats of operands and results of vector and scalar engine."""


@dataclasses.dataclass(frozen=True)
class Operation:
    """One operation of ``a`` and ``b``. ``raw``: on 32 bits as they lie in memory, otherwise in fp32.

    ``reduces``: legal as the operation of a reduction. ``arity`` 1 ignores ``b``. ``last``: only as the last operation
    of an instruction, what follows is ``bypass``; see ``spec.power``.
    """

    name: str
    semantics: str
    arity: int = 2
    raw: bool = False
    reduces: bool = False
    last: bool = False


_OPERATIONS = (
    Operation("bypass", "a", arity=1),
    Operation("add", "a + b", reduces=True),
    Operation("subtract", "a - b", reduces=True),
    Operation("multiply", "a * b", reduces=True),
    Operation("max", "b if a < b else a; NaN if either is", reduces=True),
    Operation("min", "b if b < a else a; NaN if either is", reduces=True),
    Operation("is_equal", "1.0 if a == b else 0.0"),
    Operation("not_equal", "1.0 if not a == b else 0.0"),
    Operation("is_ge", "1.0 if a >= b else 0.0"),
    Operation("is_gt", "1.0 if a > b else 0.0"),
    Operation("is_le", "1.0 if a <= b else 0.0"),
    Operation("is_lt", "1.0 if a < b else 0.0"),
    Operation("logical_and", "1.0 if a != 0 and b != 0 else 0.0; NaN is not 0", reduces=True),
    Operation("logical_or", "1.0 if a != 0 or b != 0 else 0.0", reduces=True),
    Operation("logical_xor", "1.0 if exactly one of a and b is not 0 else 0.0", reduces=True),
    Operation("abs", "|a|", arity=1),
    Operation("square", "a * a", arity=1),
    Operation("relu", "a if a > 0 else +0; NaN stays", arity=1),
    Operation("abs_max", "max(|a|, |b|)", reduces=True),
    Operation("abs_min", "min(|a|, |b|)", reduces=True),
    Operation("bitwise_not", "~a", arity=1, raw=True),
    Operation("bitwise_and", "a & b", raw=True, reduces=True),
    Operation("bitwise_or", "a | b", raw=True, reduces=True),
    Operation("bitwise_xor", "a ^ b", raw=True, reduces=True),
    Operation("shift_left", "a << b; 0 from 32 places on", raw=True),
    Operation("logical_shift_right", "a >> b, zeros in; 0 from 32 places on", raw=True),
    Operation("arithmetic_shift_right", "a >> b, copies of bit 31 in", raw=True),
    Operation("int_add", "a + b modulo 2**32", raw=True, reduces=True),
    Operation("int_subtract", "a - b modulo 2**32", raw=True, reduces=True),
    Operation("int_multiply", "a * b modulo 2**32", raw=True, reduces=True),
    Operation("power", "a ** b with the special values of C's pow; within 0.65 units in the last place", last=True),
    Operation("rsqrt", "1 / sqrt(a); within 0.52 units in the last place", arity=1, last=True),
)
OPERATIONS: dict[str, Operation] = {entry.name: entry for entry in _OPERATIONS}
COMPARISONS: tuple[str, ...] = ("is_equal", "not_equal", "is_ge", "is_gt", "is_le", "is_lt")

OPCODES: dict[str, str] = {
    "tensor_tensor": "op0(left, right)",
    "tensor_scalar": "op1(op0(left, c0), c1)",
    "scalar_tensor_tensor": "op1(op0(left, c0), right)",
    "tensor_tensor_scan": "r = op1(op0(left, r), right) in element order, r starts as c0; every r is a result",
    "tensor_reduce": "r = op1(r, op0(left, c0)) in element order; one result a group, r starts as its first element",
    "tensor_copy": "left; bits unchanged where the formats agree, otherwise one cast",
    "tensor_copy_predicated": "left, written only where right is not 0 (with reverse0: is 0)",
    "select_reduce": "left where right is not 0 (with reverse0: is 0), else c0; accumulators take the maximum",
    "range_select": "left where op0(i, c0) and op1(i, c1), else the lowest number; accumulators take the maximum",
    "memset": "c0, cast",
    "reciprocal": "1 / left, correctly rounded",
    "rng": "the next word of the lane's xorshift32, its low bits",
    "set_seed": "the generators' states become the row of constants; takes and gives no rows; 0 becomes 1",
    "read_accumulator": "one row: the accumulators, cast",
    "max8": "eight rows: the largest elements, descending",
    "nc_find_index8": "eight rows of words: index of the first element equal to each value, or all ones",
    "nc_match_replace8": "left with the first element equal to each value replaced by c0",
    "nc_stream_shuffle": "lane i of each quadrant takes lane c0 of its quadrant; where c0 is 255 nothing is written",
    "nc_transpose": "each square block of rows and lanes is transposed; bits and formats as tensor_copy",
    "bn_stats": "six rows: count, mean, count * variance of the even elements, then of the odd ones",
    "bn_aggr": "two rows: mean and variance of all elements behind triples of bn_stats",
    "quantize_mx": "of each 4 rows x 8 lanes a row of their scale, then a row of words of four elements a lane",
}
"""Instructions and semantics, in the order of their codes. All but raw operations work in fp32, one rounding each."""

NEGATIVE_LIMIT = 0xFF7FFFFF
"""Pattern of the lowest fp32 number, which ``range_select`` puts outside the range."""

REDUCE_COMMANDS: tuple[str, ...] = ("idle", "reset", "reduce", "reset_reduce")
"""Of ``select_reduce`` and ``range_select``: leave the accumulators, set them to -inf, take maxima, both."""

STATUS: tuple[str, ...] = (
    "done",
    "bad_opcode",
    "bad_operation",
    "bad_input_format",
    "bad_output_format",
    "bad_length",
    "bad_group",
    "bad_packing",
)
"""Codes of the status stream. An instruction with an error takes nothing, gives nothing and changes nothing."""

INSTRUCTION: tuple[tuple[str, int], ...] = (
    ("opcode", 5),
    ("op0", 6),
    ("op1", 6),
    ("reverse0", 1),
    ("reverse1", 1),
    ("left_format", 4),
    ("right_format", 4),
    ("output_format", 4),
    ("length", 17),
    ("group", 17),
    ("c0_per_lane", 1),
    ("c1_per_lane", 1),
    ("reduce", 2),
    ("negate", 1),
    ("saturate", 1),
    ("stochastic", 1),
    ("c0", 32),
    ("c1", 32),
    ("start", 24),
    ("packed", 2),
)
"""Fields and widths. ``c0`` and ``c1`` are fp32 patterns (words for raw operations); with ``*_per_lane`` a row of the
constants stream instead, c0 first. ``group``: elements of one result of ``tensor_reduce``, ``negate`` flips its sign.
``start``: index of the first element of ``range_select``. ``reverse*`` exchange an operation's operands. ``packed``: a
row holds ``2**packed`` elements of 16 bits a lane, see :data:`PACKABLE`."""

SEARCHES: tuple[str, ...] = ("max8", "nc_find_index8", "nc_match_replace8")
SEARCH_SLOTS = 8
"""Values that a search keeps or looks for. The last two take them as eight rows of ``left`` before the elements."""
QUADRANT = 32
"""Lanes that a shuffle moves elements between."""
KEEP = 255
"""Source of a shuffle that leaves the lane's destination as it is."""

STATS_MAX = 512
"""Most elements of one ``bn_stats`` (aws-neuron-sdk)."""
TRIPLE = 3
"""Rows of one half of ``bn_stats``: count, mean, count * variance."""

MX_ROWS, MX_LANES = 4, BLOCKS["mxfp8"].block // 4
"""A block of ``quantize_mx``. The elements of a lane lie in one word, the first lowest."""
MX_ELEMENTS: tuple[str, ...] = tuple(dict.fromkeys(name for entry in BLOCKS.values() for name in entry.elements))

PACKABLE: dict[str, int] = {"tensor_copy": 4, "tensor_scalar": 4, "tensor_tensor": 2, "scalar_tensor_tensor": 2}
"""Instructions that take several 16-bit elements of a lane a cycle, and how many at most. Elements 0 and 1 lie in the
word of ``left``, the first lowest, 2 and 3 in that of ``right``, which two operands need for themselves. All formats
have 16 bits, the length is a multiple, nothing is rounded stochastically, no operation is ``power`` or ``rsqrt``."""
PACKED_BITS = 16

LENGTH_MAX = 1 << 16
"""Most elements per lane of one instruction (aws-neuron-sdk: 64K from SBUF)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class VectorConfig(Parameters):
    """A row of identical lanes; each takes one element of one or two operands a cycle."""

    lanes: int = parameter(
        128, unit="lanes", low=1, high=512, doc="elements a cycle", source="aws-neuron-sdk, trainium2_arch: 128"
    )
    formats: tuple[str, ...] = parameter(
        ELEMENT_FORMATS, choices=ELEMENT_FORMATS, doc="formats, in the order of their codes"
    )
    operation_stages: int = parameter(
        1,
        unit="cycles",
        low=1,
        high=4,
        doc="latency of one operation; a reduction takes an element each so many cycles",
    )
    ways: int = parameter(
        1,
        unit="elements",
        choices=(1, 2, 4),
        doc="16-bit elements that a lane takes a cycle; each beyond the first has casts and operations of its own",
    )

    def check(self) -> None:
        """Refuse a format named twice."""
        if len(set(self.formats)) != len(self.formats):
            raise refuse("VectorConfig", "formats", self.formats, "each format once")

    @property
    def block(self) -> int:
        """Rows and lanes of a block that is transposed: 32, or less where the lanes are no multiple of 32."""
        return math.gcd(self.lanes, QUADRANT)

    @property
    def scale_lanes(self) -> int:
        """Lanes that share the scale of ``quantize_mx``."""
        return math.gcd(self.lanes, MX_LANES)

    @property
    def compute_latency(self) -> int:
        """Cycles of the two operations and the power behind them; the reciprocal beside them takes no longer."""
        return 2 * self.operation_stages + POWER_CYCLES

    @property
    def latency(self) -> int:
        """Cycles from the edge that takes a row to the edge that can give its result: casts, operations, queue."""
        return 1 + self.compute_latency + 1 + 1


RECIPROCAL_CYCLES = 6
"""Five quotient bits a cycle for 25 bits, one cycle to round."""
POWER_CYCLES = 8
"""Logarithm 4, product 2, exponential 2."""

STATS_SOLVE: tuple[int, int] = (2, 4)
"""Steps of ``bn_stats`` behind its elements, when sums have settled, that end the even and the odd half."""
STATS_ROWS: tuple[int, ...] = (3, 5, 6, 7, 8, 9)
"""Steps of ``bn_stats`` behind its elements that give a row; those from the fourth on belong to the odd half."""
AGGR_STEPS = 5
"""Steps of ``bn_aggr`` behind its rows and the compute latency: sums settle, one division, two rows."""


def steps_behind(config: VectorConfig, opcode: str) -> int:
    """Steps of an instruction that follow its elements and take none."""
    return {
        "max8": SEARCH_SLOTS,
        "nc_find_index8": SEARCH_SLOTS,
        "nc_transpose": config.block,
        "bn_stats": STATS_ROWS[-1] + 1,
        "bn_aggr": config.compute_latency + AGGR_STEPS,
        "quantize_mx": MX_ROWS,
    }.get(opcode, 0)
