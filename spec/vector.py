"""Parameters, instructions and operations of the vector engine: many elements in, many out, reductions."""

import dataclasses

from spec.formats import FLOATS, INTS
from spec.parameters import Parameters, parameter, refuse

ELEMENT_FORMATS: tuple[str, ...] = tuple(FLOATS) + tuple(INTS)
"""Formats of operands and results of vector and scalar engine."""


@dataclasses.dataclass(frozen=True)
class Operation:
    """One operation of ``a`` and ``b``. ``raw``: on 32 bits as they lie in memory, otherwise in fp32.

    ``reduces``: legal as the operation of a reduction. ``arity`` 1 ignores ``b``.
    """

    name: str
    semantics: str
    arity: int = 2
    raw: bool = False
    reduces: bool = False


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
)
"""Codes of the status stream. An instruction with an error takes nothing, gives nothing and changes nothing."""

INSTRUCTION: tuple[tuple[str, int], ...] = (
    ("opcode", 5),
    ("op0", 5),
    ("op1", 5),
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
)
"""Fields and widths. ``c0`` and ``c1`` are fp32 patterns (words for raw operations); with ``*_per_lane`` a row of the
constants stream instead, c0 first. ``group``: elements of one result of ``tensor_reduce``, ``negate`` flips its sign.
``start``: index of the first element of ``range_select``. ``reverse*`` exchange an operation's operands."""

SEARCHES: tuple[str, ...] = ("max8", "nc_find_index8", "nc_match_replace8")
SEARCH_SLOTS = 8
"""Values that a search keeps or looks for. The last two take them as eight rows of ``left`` before the elements."""
QUADRANT = 32
"""Lanes that a shuffle moves elements between."""
KEEP = 255
"""Source of a shuffle that leaves the lane's destination as it is."""

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

    def check(self) -> None:
        """Refuse a format named twice."""
        if len(set(self.formats)) != len(self.formats):
            raise refuse("VectorConfig", "formats", self.formats, "each format once")

    @property
    def compute_latency(self) -> int:
        """Cycles of the two operations, or of the reciprocal beside them."""
        return max(2 * self.operation_stages, RECIPROCAL_CYCLES)

    @property
    def latency(self) -> int:
        """Cycles from the edge that takes a row to the edge that can give its result: casts, operations, queue."""
        return 1 + self.compute_latency + 1 + 1


RECIPROCAL_CYCLES = 6
"""Five quotient bits a cycle for 25 bits, one cycle to round."""
