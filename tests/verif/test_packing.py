"""Payloads survive every form they are put into."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Shape
from amaranth.lib import data, enum
from hypothesis import given
from hypothesis import strategies as st

from verif.harness.packing import from_words, leaves, pack, pack_array, to_words, unpack, unpack_array, words_of


class Kind(enum.Enum, shape=2):
    A = 0
    B = 2


class Inner(data.Struct):
    kind: Kind
    number: Shape(37, signed=True)  # type: ignore[valid-type]  # a shape, not a type
    lanes: data.ArrayLayout(17, 3)  # type: ignore[valid-type]  # a shape, not a type


SHAPES: dict[str, Any] = {
    "number": 19,
    "wide": 200,
    "signed": Shape(5, signed=True),
    "struct": Inner,
    "nested": data.StructLayout({"head": 1, "parts": data.ArrayLayout(Inner, 2), "tail": 64}),
    "flexible": data.FlexibleLayout(40, {"low": data.Field(8, 3), "high": data.Field(12, 20)}),
}


@pytest.mark.parametrize("name", SHAPES)
@given(bits=st.integers(min_value=0, max_value=(1 << 300) - 1))
def test_unpacked_and_packed_again_is_the_same(name: str, bits: int) -> None:
    shape = SHAPES[name]
    mask = sum(((1 << leaf.width) - 1) << leaf.offset for leaf in leaves(shape))
    assert pack(shape, unpack(shape, bits & mask)) == bits & mask


@pytest.mark.parametrize("name", [name for name in SHAPES if name != "wide"])
@given(items=st.lists(st.integers(min_value=0, max_value=(1 << 300) - 1), min_size=1, max_size=5))
def test_arrays_agree_with_single_items(name: str, items: list[int]) -> None:
    shape = SHAPES[name]
    mask = sum(((1 << leaf.width) - 1) << leaf.offset for leaf in leaves(shape))
    words = to_words([item & mask for item in items], Shape.cast(shape).width)
    assert words.shape == (len(items), words_of(shape))
    assert from_words(words) == [item & mask for item in items]
    assert (pack_array(shape, unpack_array(shape, words)) == words).all()


def test_amaranth_packs_a_constant_the_same_way() -> None:
    value = {"kind": Kind.B, "number": -5, "lanes": [1, 2, 3]}
    packed = pack(Inner, {**value, "kind": Kind.B.value})
    described: Any = Inner
    assert packed == described.const(value).as_bits()


def test_fields_of_arrays_are_arrays() -> None:
    words = to_words([pack(Inner, {"number": -1, "lanes": [4, 5, 6]})] * 2, Shape.cast(Inner).width)
    fields = unpack_array(Inner, words)
    assert fields["number"].tolist() == [-1, -1]
    assert fields["lanes"].tolist() == [[4, 5, 6]] * 2


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(KeyError):
        pack(Inner, {"nothing": 1})


def test_an_element_wider_than_64_bits_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="payload has 200 bits: arrays hold at most 64"):
        pack_array(200, np.zeros(3))
