"""What the streams of the vector engine carry, and what its control hands to the lanes stage by stage."""

from typing import Any

from amaranth.lib import data

from spec.vector import INSTRUCTION, OPCODES, REDUCE_COMMANDS, STATUS

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
VALUE, CHOICE, RANGE, RECIPROCAL, LEFT_WORD, RANDOM, ACCUMULATOR, SEARCH = range(8)
"""What becomes the result."""


def results_shape(lanes: int) -> Any:
    """A row of results: codes, and which of them are written."""
    return data.StructLayout({"row": data.ArrayLayout(32, lanes), "written": lanes})


First = data.StructLayout({"operation": 5, "reverse": 1, "a": 2, "b": 2, "index": 32})
"""For the first operation."""

Second = data.StructLayout({"operation": 5, "reverse": 1, "a": 2, "b": 2, "index": 32})
"""For the second operation; with ``b`` from the last result the first operation's stands where the constant does."""

INSERT, FIND, REPLACE = range(1, 4)
"""What a search does with an element; 0 is nothing."""

Search = data.StructLayout({"mode": 2, "begin": 1, "load": 1, "drain": 1, "slot": 3})
"""For the eight slots: ``load`` fills a slot, ``drain`` reads one, otherwise an element is searched."""

Finish = data.StructLayout(
    {
        "valid": 1,
        "source": 3,
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
    }
)
"""For selection, accumulator and output cast. ``draw``: the generator steps."""

Token = data.StructLayout(
    {"issued": 1, "row": 1, "last": 1, "code": 3, "first": First, "second": Second, "finish": Finish}
)
"""What enters the lanes: whether anything does, whether it gives a row, whether it ends an instruction and how."""
