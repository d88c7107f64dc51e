"""Payloads as integers, as 32-bit words and as numpy arrays, from the Amaranth shape that describes them.

A payload is one packed vector in Verilog, first field in the low bits. Three forms of it are used: a Python integer
(cocotb writes a whole vector at once), a row of little-endian ``uint32`` words (compiled models), and fields by name.

>>> from amaranth.lib import data
>>> shape = data.StructLayout({"last": 1, "lanes": data.ArrayLayout(8, 2)})
>>> hex(pack(shape, {"last": 1, "lanes": [0x12, 0x34]}))
'0x6825'
>>> unpack(shape, 0x6825)
{'last': 1, 'lanes': [18, 52]}
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Shape
from amaranth.lib import data

Words = npt.NDArray[np.uint32]


@dataclasses.dataclass(frozen=True)
class Leaf:
    """One element of a payload that has no fields of its own; ``path`` is what Python would index it with."""

    path: tuple[str | int, ...]
    offset: int
    width: int
    signed: bool

    @property
    def name(self) -> str:
        """The path as Python writes it: ``lanes[3].sign``."""
        text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path)
        return text.removeprefix(".") or "payload"


def layout_of(shape: Any) -> data.Layout | None:
    """The layout behind a struct class, a layout or a view's shape; None for a plain number."""
    if isinstance(shape, type) and issubclass(shape, (data.Struct, data.Union)):
        described: Any = shape
        shape = described.as_shape()
    return shape if isinstance(shape, data.Layout) else None


def width_of(shape: Any) -> int:
    """Bits of a payload."""
    return Shape.cast(shape).width


def words_of(shape: Any) -> int:
    """32-bit words of a payload; a payload without bits has none."""
    return -(-width_of(shape) // 32)


def leaves(shape: Any, path: tuple[str | int, ...] = (), offset: int = 0) -> list[Leaf]:
    """Every element of a payload, in order of offset."""
    layout = layout_of(shape)
    if layout is None:
        plain = Shape.cast(shape)
        return [Leaf(path, offset, plain.width, plain.signed)]
    found = []
    for key, field in layout:
        found += leaves(field.shape, (*path, key), offset + field.offset)
    return found


def pack(shape: Any, value: Any) -> int:
    """One payload as an integer. Structs are mappings, arrays are sequences, numbers wrap to their width.

    A field that is not named is zero; a name the payload does not have is a ``KeyError``.
    """
    layout = layout_of(shape)
    if layout is None:
        return int(value) & ((1 << width_of(shape)) - 1)
    if not isinstance(value, (Mapping, Sequence, np.ndarray)):
        return int(value) & ((1 << width_of(layout)) - 1)
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    packed = 0
    for key, element in items:
        field = layout[key]
        packed |= pack(field.shape, element) << field.offset
    return packed


def unpack(shape: Any, packed: int) -> Any:
    """The inverse of :func:`pack`: dicts, lists and integers."""
    layout = layout_of(shape)
    if layout is None:
        plain = Shape.cast(shape)
        value = packed & ((1 << plain.width) - 1)
        return value - (1 << plain.width) if plain.signed and value >> (plain.width - 1) else value
    parts = {key: unpack(field.shape, packed >> field.offset) for key, field in layout}
    return list(parts.values()) if isinstance(layout, data.ArrayLayout) else parts


def to_words(values: Iterable[int], width: int) -> Words:
    """Integers of ``width`` bits as an array ``[item, word]``."""
    count = -(-width // 32)
    mask = (1 << width) - 1
    raw = b"".join((int(value) & mask).to_bytes(count * 4, "little") for value in values)
    return np.frombuffer(raw, dtype="<u4").reshape(-1, count).copy() if count else np.zeros((0, 0), np.uint32)


def from_words(words: Words) -> list[int]:
    """An array ``[item, word]`` as integers."""
    rows = np.ascontiguousarray(words, dtype="<u4")
    return [int.from_bytes(row.tobytes(), "little") for row in rows]


def pack_array(shape: Any, fields: Any) -> Words:
    """Many payloads at once: ``fields`` as in :func:`pack`, with arrays ``[item]`` (``[item, index]`` for arrays).

    Elements may be up to 64 bits wide; the result is ``[item, word]``.
    """
    columns = _columns(shape, fields)
    count = max((len(column) for column, _ in columns), default=0)
    words = np.zeros((count, words_of(shape)), np.uint32)
    for column, leaf in columns:
        values = np.asarray(column).astype(np.int64 if np.asarray(column).dtype.kind == "i" else np.uint64)
        bits = values.view(np.uint64) if values.dtype == np.int64 else values
        if leaf.width < 64:
            bits = bits & np.uint64((1 << leaf.width) - 1)
        for word, shift in _places(leaf):
            part = bits << np.uint64(shift) if shift >= 0 else bits >> np.uint64(-shift)
            words[:, word] |= (part & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return words


def unpack_array(shape: Any, words: Words) -> Any:
    """The inverse of :func:`pack_array`: dicts of arrays; ``[item, index]`` for arrays of numbers."""
    layout = layout_of(shape)
    return _read(shape, words, 0) if layout is not None else _read_leaf(leaves(shape)[0], words)


def _read(shape: Any, words: Words, offset: int) -> Any:
    layout = layout_of(shape)
    if layout is None:
        plain = Shape.cast(shape)
        return _read_leaf(Leaf((), offset, plain.width, plain.signed), words)
    parts = {key: _read(field.shape, words, offset + field.offset) for key, field in layout}
    if not isinstance(layout, data.ArrayLayout):
        return parts
    columns = list(parts.values())
    return np.stack(columns, axis=1) if columns and isinstance(columns[0], np.ndarray) else columns


def _read_leaf(leaf: Leaf, words: Words) -> npt.NDArray[Any]:
    bits = np.zeros(len(words), np.uint64)
    for word, shift in _places(leaf):
        part = words[:, word].astype(np.uint64)
        bits |= part >> np.uint64(shift) if shift >= 0 else part << np.uint64(-shift)
    if leaf.width < 64:
        bits &= np.uint64((1 << leaf.width) - 1)
    if leaf.signed:
        unused = np.int64(64 - leaf.width)
        return (bits.view(np.int64) << unused) >> unused
    return bits


def _places(leaf: Leaf) -> list[tuple[int, int]]:
    """``(word, shift)`` of every 32-bit word a leaf touches; its bits go left by ``shift`` to stand in that word."""
    if leaf.width > 64:
        raise ValueError(f"{leaf.name} has {leaf.width} bits: arrays hold at most 64; use whole payloads as integers")
    first, last = leaf.offset // 32, (leaf.offset + leaf.width - 1) // 32
    return [(word, leaf.offset - 32 * word) for word in range(first, last + 1)] if leaf.width else []


def _columns(shape: Any, fields: Any, path: tuple[str | int, ...] = (), offset: int = 0) -> list[tuple[Any, Leaf]]:
    layout = layout_of(shape)
    if layout is None:
        plain = Shape.cast(shape)
        return [(np.asarray(fields), Leaf(path, offset, plain.width, plain.signed))]
    if isinstance(fields, Mapping):
        items: Iterable[tuple[Any, Any]] = fields.items()
    elif isinstance(fields, np.ndarray):
        items = ((index, fields[:, index]) for index in range(fields.shape[1]))
    else:
        items = enumerate(fields)
    found = []
    for key, column in items:
        field = layout[key]
        found += _columns(field.shape, column, (*path, key), offset + field.offset)
    return found
