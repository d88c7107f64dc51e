"""What an element of the array takes for an operand."""

from typing import Any

from amaranth import signed, unsigned
from amaranth.hdl import Module, Mux, Shape, Signal
from amaranth.lib import data

from hdl.numerics import Operand
from hdl.numerics.layouts import ZERO_EXPONENT
from spec.formats import SIGNIFICAND_BITS
from spec.tensor import SCALE, SPARSE_PLANES, SPARSE_ROWS, TAG_BITS, TensorConfig

OTHERS = SPARSE_ROWS * SPARSE_PLANES - 1
"""Operands beside its own that an element of a sparse stationary chooses from."""


class Narrow(data.Struct):
    """A decoded number of a format that comes several at a time, as :class:`Operand` but with just the bits it needs.

    Its significand is 0 if and only if the number is zero; the exponent then means nothing.
    """

    significand: unsigned(4)
    exponent: signed(5)
    sign: unsigned(1)
    infinite: unsigned(1)
    nan: unsigned(1)


class Bits(data.Struct):
    """What lies in the place of the number where bits are moved: 16 of them, which half of a word they are, and whether
    any bit of the element is set.
    """

    value: unsigned(16)
    upper: unsigned(1)
    any: unsigned(1)


def bits_of(operand: Any) -> Any:
    """The same operand seen as :class:`Bits`."""
    return data.View(Bits, operand.as_value()[: Shape.cast(Bits).width])


def element_layout(config: TensorConfig) -> data.StructLayout:
    """One operand or several, as many as the array takes of any format.

    ``paired`` tells that ``second`` holds a number, ``quad`` that ``second``, ``third`` and ``fourth`` do, with the
    code of their ``scale``; ``moved`` tells that ``first`` holds :class:`Bits`.
    """
    members: dict[str, Any] = {"first": Operand}
    if config.double_row or config.microscaling:
        members |= {"second": Narrow}
    if config.double_row:
        members |= {"paired": 1}
    if config.microscaling:
        members |= {"third": Narrow, "fourth": Narrow, "quad": 1, "scale": SCALE.width}
    if config.transpose:
        members |= {"moved": 1}
    return data.StructLayout(members)


def numbers_layout(config: TensorConfig) -> data.StructLayout:
    """What the arithmetic takes of an operand: all but whether it is bits."""
    return element_layout(config.replace(transpose=False))


def moving_layout(config: TensorConfig) -> data.StructLayout:
    """What goes right along a row: its ``own`` operand and, with sparsity, numbers its elements may take instead."""
    members: dict[str, Any] = {"own": element_layout(config)}
    if config.sparsity:
        members["others"] = data.ArrayLayout(Operand, OTHERS)
    return data.StructLayout(members)


def load_layout(config: TensorConfig) -> data.StructLayout:
    """What goes right along a row to be loaded: operands of a ``group`` of columns and, with sparsity, their tags."""
    operands = data.ArrayLayout(element_layout(config), config.load_columns)
    members: dict[str, Any] = {"valid": 1, "group": range(max(2, config.load_cycles)), "operands": operands}
    if config.sparsity:
        members["tags"] = data.ArrayLayout(TAG_BITS, config.load_columns)
    return data.StructLayout(members)


def narrowed(m: Module, operand: Any) -> Signal:
    """The operand in the narrow form; it fits because its format is one of those."""
    narrow = Signal(Narrow)
    m.d.comb += [
        narrow.significand.eq(operand.significand[-len(narrow.significand) :]),
        narrow.exponent.eq(operand.exponent),
        narrow.sign.eq(operand.sign),
        narrow.infinite.eq(operand.infinite),
        narrow.nan.eq(operand.nan),
    ]
    return narrow


def widened(m: Module, narrow: Any) -> Signal:
    """The same number as an :class:`Operand`."""
    operand = Signal(Operand)
    m.d.comb += [
        operand.significand.eq(narrow.significand << (SIGNIFICAND_BITS - len(narrow.significand))),
        operand.exponent.eq(Mux(narrow.significand.any(), narrow.exponent, ZERO_EXPONENT)),
        operand.sign.eq(narrow.sign),
        operand.infinite.eq(narrow.infinite),
        operand.nan.eq(narrow.nan),
    ]
    return operand
