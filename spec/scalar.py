"""Parameters, instructions and costs of the scalar engine: one element in, one out, through a non-linear function."""

import dataclasses

from spec.functions import FUNCTIONS
from spec.parameters import Parameters, parameter, refuse
from spec.vector import ELEMENT_FORMATS

OPCODES: dict[str, str] = {
    "activation": "f(f32(f32(in * scale) + bias)); 'no bias' is -0.0, the identity of addition",
    "tensor_copy": "bits unchanged where the formats agree, otherwise one cast",
    "tensor_scalar": "f32(f32(in * scale) + bias): operations (multiply, add); scale 1 or bias -0.0 leave one out",
    "read_accumulator": "one row: the accumulators, cast to the output format; takes no operand",
}
"""Name and semantics, in the order of the codes."""

REDUCE_COMMANDS: dict[str, str] = {
    "idle": "accumulators keep their values",
    "reset": "accumulators become +0 before the first element, nothing is added",
    "reduce": "each fp32 result is added to its lane's accumulator, in element order, one rounding each",
    "reset_reduce": "reset, then reduce",
}

STATUS: dict[str, str] = {
    "done": "the last result has been delivered",
    "bad_opcode": "no such instruction",
    "bad_function": "the function is not among those of this engine",
    "bad_input_format": "the operand's format is not among those of this engine",
    "bad_output_format": "the result's format is not among those of this engine",
    "bad_length": "length 0, or more than the longest",
}
"""Codes of the status stream. An instruction with an error takes no operands, gives no results and changes nothing."""

INSTRUCTION: tuple[tuple[str, int], ...] = (
    ("opcode", 3),
    ("function", 5),
    ("input_format", 4),
    ("output_format", 4),
    ("length", 17),
    ("scale_per_lane", 1),
    ("bias_per_lane", 1),
    ("reduce", 2),
    ("saturate", 1),
    ("scale", 32),
    ("bias", 32),
    ("alpha", 32),
)
"""Fields and widths. ``scale``, ``bias`` and ``alpha`` (slope of prelu) are fp32 patterns; with ``*_per_lane``, a row
of fp32 comes from the constants stream instead, scale before bias."""

LENGTH_MAX = 1 << 16
"""Most elements per lane of one instruction (aws-neuron-sdk: 64K from SBUF)."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScalarConfig(Parameters):
    """A row of identical lanes; each takes one element a cycle."""

    lanes: int = parameter(
        128, unit="lanes", low=1, high=512, doc="elements a cycle", source="aws-neuron-sdk, trainium2_arch: 128"
    )
    functions: tuple[str, ...] = parameter(
        tuple(FUNCTIONS), choices=FUNCTIONS, doc="functions in the lanes' tables, in the order of their codes"
    )
    formats: tuple[str, ...] = parameter(
        ELEMENT_FORMATS, choices=ELEMENT_FORMATS, doc="formats of operands and results, in the order of their codes"
    )
    multiply_stages: int = parameter(1, unit="cycles", low=1, high=4, doc="latency of an fp32 multiplication")
    add_stages: int = parameter(1, unit="cycles", low=1, high=4, doc="latency of an fp32 addition")

    def check(self) -> None:
        """Refuse what is named twice: a code would mean two things."""
        for name in ("functions", "formats"):
            value = getattr(self, name)
            if len(set(value)) != len(value):
                raise refuse("ScalarConfig", name, value, "each name once")
        if "copy" not in self.functions:
            raise refuse("ScalarConfig", "functions", self.functions, "a list with copy, which tensor_copy needs")

    @property
    def prepare_latency(self) -> int:
        """Cycles from a row to ``in * scale + bias``: input cast, multiplication, addition."""
        return 1 + self.multiply_stages + self.add_stages

    @property
    def polynomial_latency(self) -> int:
        """Cycles of the two table lookups, the distance, Horner's rule and the large term."""
        return 2 + self.add_stages + 3 * (self.multiply_stages + self.add_stages) + self.add_stages

    @property
    def finish_latency(self) -> int:
        """Cycles of the product with the tail, of scaling with special values, and of the output cast."""
        return self.multiply_stages + 2

    @property
    def latency(self) -> int:
        """Cycles from the edge that takes a row to the edge that can give its result: lane and output queue."""
        return self.prepare_latency + self.polynomial_latency + self.finish_latency + 1
