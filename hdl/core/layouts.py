"""What the blocks of a core hand to each other; instructions as ``spec.isa`` lays them out."""

from typing import Any

from amaranth.hdl import Shape, signed
from amaranth.lib import data

from spec.core import ENGINES, LINE_BYTES, CoreConfig
from spec.isa import ADDRESS_BITS, DIMENSIONS, FORMS, HEADER, INSTRUCTION_BYTES, PATTERN, REASONS, Field, fields_of

COUNTER_BITS = 24
"""Of a program counter."""
REASON_BITS = (len(REASONS) - 1).bit_length()
COUNT_BITS = 18
"""Of the rows of one instruction."""
LINE_BITS = 8 * LINE_BYTES


def bits(count: int) -> int:
    """Width of an index into ``count`` things."""
    return max(1, (count - 1).bit_length())


def _shape(field: Field) -> Any:
    return signed(field.width) if field.signed else field.width


PATTERN_LAYOUT = data.StructLayout({field.name: _shape(field) for field in PATTERN})
HEADER_LAYOUT = data.StructLayout({field.name: _shape(field) for field in HEADER})


def form_layout(form: str) -> data.StructLayout:
    """The word of a form: header, own fields, patterns."""
    own, patterns = FORMS[form]
    members: dict[str, Any] = {field.name: _shape(field) for field in (*HEADER, *own)}
    return data.StructLayout(members | dict.fromkeys(patterns, PATTERN_LAYOUT))


WORD_BITS = max(Shape.cast(form_layout(form)).width for form in FORMS)
"""Bits of an instruction that any form uses; those above are not stored."""
assert 8 * INSTRUCTION_BYTES >= WORD_BITS
assert all(sum(f.width for f in fields_of(form).values()) == form_layout(form).size for form in FORMS)

UPDATE = data.StructLayout({"kind": 3, "semaphore": 8, "value": signed(32), "core": 16})
"""A change of a semaphore; kind ``none`` asks for its value."""
CHANGE = data.StructLayout({"valid": 1, "semaphore": 8, "value": signed(32)})
"""What every sequencer hears: a semaphore and its new value."""
FAULT = data.StructLayout({"reason": REASON_BITS, "counter": COUNTER_BITS, "engine": 2})
"""Why a program stops."""


def row_layout(config: CoreConfig) -> data.ArrayLayout:
    """A word of every partition, or of every lane."""
    return data.ArrayLayout(32, config.partitions)


def sbuf_request(config: CoreConfig) -> data.StructLayout:
    """Read a row of SBUF, or write the bytes of it that ``mask`` names."""
    return data.StructLayout(
        {
            "write": 1,
            "row": bits(config.sbuf_rows),
            "data": row_layout(config),
            "mask": 4 * config.partitions,
        }
    )


def psum_request(config: CoreConfig) -> data.StructLayout:
    """Read a location of PSUM; ``write`` is 0."""
    return data.StructLayout({"write": 1, "location": bits(config.tensor.psum_depth)})


def psum_store(config: CoreConfig) -> data.StructLayout:
    """Write the bytes of a location of PSUM that ``mask`` names; ``write`` is 1."""
    members = psum_request(config).members
    return data.StructLayout({**members, "data": row_layout(config), "mask": 4 * config.partitions})


def beat_layout(config: CoreConfig) -> data.ArrayLayout:
    """The words that DMA moves in a cycle."""
    return data.ArrayLayout(32, config.dma_lanes)


def beat_request(config: CoreConfig) -> data.StructLayout:
    """Read, or write the bytes that ``mask`` names of, words of SBUF: of one partition in as many rows, from ``row``
    on, or ``across`` partitions of that row. ``lane``: the first partition. Of a read the mask says which words.
    """
    return data.StructLayout(
        {
            "write": 1,
            "across": 1,
            "row": bits(config.sbuf_rows),
            "lane": bits(config.partitions),
            "data": beat_layout(config),
            "mask": 4 * config.dma_lanes,
        }
    )


def line_request(config: CoreConfig) -> data.StructLayout:
    """Read a line of HBM, or write the bytes of it that ``mask`` names."""
    return data.StructLayout({"write": 1, "line": bits(config.hbm_lines), "data": LINE_BITS, "mask": LINE_BYTES})


def answer(shape: Any) -> data.StructLayout:
    """An answer, which cannot be held back: whoever asked has room for it."""
    return data.StructLayout({"valid": 1, "data": shape})


def job_layout(config: CoreConfig) -> data.StructLayout:
    """What a reader or writer does: a pattern with its offset resolved, the size of elements, and how many.

    ``size``: log2 of the bytes of an element. ``fill``: what unused lanes read as.
    """
    return data.StructLayout(
        {
            "psum": 1,
            "quarter": 2,
            "partitions": bits(config.partitions + 1),
            "offset": signed(32),
            "size": 2,
            "count": COUNT_BITS,
            "fill": 32,
            "steps": data.ArrayLayout(signed(16), DIMENSIONS),
            "nums": data.ArrayLayout(16, DIMENSIONS),
        }
    )


def issue_layout(form: str) -> data.StructLayout:
    """An instruction on its way to its unit: checked, offsets resolved."""
    return data.StructLayout({"word": form_layout(form), "counter": COUNTER_BITS})


EXTENT = signed(56)


def transfer_layout() -> data.StructLayout:
    """A transfer on its way to a DMA queue: addresses resolved, with the extents of its inner dimensions."""
    return data.StructLayout(
        {
            "word": form_layout("dma"),
            "counter": COUNTER_BITS,
            "engine": 2,
            "source": data.StructLayout({"first": EXTENT, "low": EXTENT, "high": EXTENT}),
            "target": data.StructLayout({"first": EXTENT, "low": EXTENT, "high": EXTENT}),
        }
    )


LINE_INDEX_BITS = ADDRESS_BITS - LINE_BYTES.bit_length() + 1
START = data.StructLayout({"line": LINE_INDEX_BITS, "count": COUNTER_BITS})
"""Where an engine's program lies: the HBM line of its first instruction, and its instructions."""

PATIENCE_BITS = 24
PROGRAMS = data.StructLayout({"programs": data.ArrayLayout(START, len(ENGINES)), "patience": PATIENCE_BITS})
"""What starts a core. ``patience``: cycles without anything under way after which who waits waits forever; 0: no end.
Where no one else changes its semaphores a few are enough."""

ENGINE_REPORT = data.StructLayout(
    {
        "counter": COUNTER_BITS,
        "issued": 32,
        "busy": 32,
        "waiting": 1,
        "awaited": 8,
        "target": signed(32),
        "holds": signed(32),
    }
)
REPORT = data.StructLayout(
    {
        "fault": FAULT,
        "cycles": 32,
        "conflicts": 32,
        "corrected": 32,
        "engines": data.ArrayLayout(ENGINE_REPORT, len(ENGINES)),
    }
)
"""How a program ended; ``counter`` and what follows it as the engine stood at the end."""
