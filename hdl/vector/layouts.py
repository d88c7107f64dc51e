"""What the streams of the vector engine carry, and what its control hands to the lanes stage by stage."""

from typing import Any

from amaranth.lib import data

from spec.vector import INSTRUCTION, OPCODES, REDUCE_COMMANDS, STATUS, VectorConfig

Instruction = data.StructLayout(dict(INSTRUCTION))
"""One instruction, the fields of ``spec.vector.INSTRUCTION`` from the lowest bit up."""

Status = data.StructLayout({"code": 3})
"""End of an instruction: position of the code in ``spec.vector.STATUS``."""

CODE = {name: index for index, name in enumerate(OPCODES)}
ERROR = {name: index for index, name in enumerate(STATUS)}
COMMAND = {name: index for index, name in enumerate(REDUCE_COMMANDS)}

LEFT, CONSTANT, INDEX = range(3)
"""Where the first operation's ``a`` comes from."""
FROM_CONSTANT, FROM_RIGHT, FROM_LAST = range(3)
"""Where an operation's ``b`` comes from: ``c0`` or ``c1``, the right operand, the last result."""
FROM_FIRST, FROM_INDEX, FROM_RESULT = range(3)
"""Where the second operation's ``a`` comes from: the first operation, the index, the last result."""
(
    VALUE,
    POWER,
    CHOICE,
    RANGE,
    RECIPROCAL,
    LEFT_WORD,
    RANDOM,
    ACCUMULATOR,
    SEARCH,
    STATISTICS,
    SCALED,
    SCALE,
) = range(12)
"""What becomes the result."""


def results_shape(config: VectorConfig) -> Any:
    """A row of results: codes, and which of them are written. ``more`` is there with four ways: the upper two codes."""
    row = data.ArrayLayout(32, config.lanes)
    return data.StructLayout({"row": row, "written": config.lanes, **({"more": row} if config.ways == 4 else {})})


BY_INPUT, BY_INDEX, BY_COUNT = range(3)
"""What is divided by: the left operand, the index, the sum of counts."""

First = data.StructLayout({"operation": 6, "reverse": 1, "a": 2, "b": 2, "divide": 2, "index": 32})
"""For the first operation, and the reciprocal beside it."""

Second = data.StructLayout({"operation": 6, "reverse": 1, "a": 2, "b": 2, "index": 32})
"""For the second operation; with ``b`` from the last result the first operation's stands where the constant does."""

POWER_C0, POWER_C1, POWER_RIGHT = range(3)

Third = data.StructLayout({"root": 1, "reverse": 1, "b": 2})
"""For the power behind the second operation, which gives its ``a``."""

INSERT, FIND, REPLACE = range(1, 4)
"""What a search does with an element; 0 is nothing."""

Search = data.StructLayout({"mode": 2, "begin": 1, "load": 1, "drain": 1, "slot": 3})
"""For the eight slots: ``load`` fills a slot, ``drain`` reads one, otherwise an element is searched."""

WayStep = data.StructLayout({"operation": 6, "reverse": 1, "right": 1})
"""For an operation of a way; ``right``: its ``b`` is the right operand, otherwise the constant."""

WayFinish = data.StructLayout({"format": 4, "raw": 1, "saturate": 1})
"""For the output cast of a way."""

ELEMENT, COUNT, MEAN, SPREAD, SOLVE, AGGREGATE = range(1, 7)
"""A step of statistics: an element of ``bn_stats``; the rows of a triple; the end of a half, or of ``bn_aggr``."""

Statistics = data.StructLayout({"phase": 3, "half": 1, "first": 1, "starts": 1, "empty": 1, "spread": 1})
"""``first`` clears all sums, ``starts`` marks what distances of a half are taken from, ``empty`` a half without
elements; ``spread`` chooses the result."""

Quantize = data.StructLayout({"active": 1, "step": 2, "top": 4, "narrow": 1})
"""``top``: largest exponent of the elements, ``narrow``: they have 4 bits."""

Finish = data.StructLayout(
    {
        "valid": 1,
        "source": 4,
        "format": 4,
        "raw": 1,
        "negate": 1,
        "reverse": 1,
        "predicated": 1,
        "saturate": 1,
        "stochastic": 1,
        "draw": 1,
        "seed": 1,
        "reset": 1,
        "reduce": 1,
        "shuffled": 1,
        "search": Search,
        "statistics": Statistics,
        "quantize": Quantize,
    }
)
"""For selection, accumulator and output cast. ``draw``: the generator steps."""

Token = data.StructLayout(
    {
        "issued": 1,
        "row": 1,
        "last": 1,
        "code": 3,
        "packed": 2,
        "first": First,
        "second": Second,
        "third": Third,
        "finish": Finish,
    }
)
"""What enters the lanes: whether anything does, whether it gives a row, whether it ends an instruction and how."""
