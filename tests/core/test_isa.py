"""The instruction table: what goes in comes out, and what is wrong is refused."""

import random

import pytest

from spec import isa
from spec.core import core_of
from spec.isa import INSTRUCTION_BYTES, OPERATIONS, assemble, decode, disassemble, encode, fields_of, names_used
from spec.parameters import ParameterError
from spec.presets import machine_named


def legal(name: str, rng: random.Random) -> dict[str, int]:
    layout = fields_of(OPERATIONS[name].form)
    return {key: rng.randint(layout[key].low, layout[key].high) for key in names_used(OPERATIONS[name])[1:]}


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_instruction_survives_encoding_and_assembly(name: str) -> None:
    rng = random.Random(name)
    for _ in range(50):
        values = legal(name, rng)
        word = encode(name, values)
        assert word < 1 << 8 * INSTRUCTION_BYTES
        assert decode(word) == (name, values)
        assert assemble(disassemble(word)) == word


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_field_refuses_what_lies_outside(name: str) -> None:
    layout = fields_of(OPERATIONS[name].form)
    for key in names_used(OPERATIONS[name])[1:]:
        for wrong in (layout[key].low - 1, layout[key].high + 1, "no such name", 0.5):
            with pytest.raises(ParameterError, match="legal is"):
                encode(name, {key: wrong})


def test_unknown_instruction_field_and_opcode_are_refused() -> None:
    with pytest.raises(ParameterError, match="instruction 'multiply'"):
        encode("multiply", {})
    with pytest.raises(ParameterError, match=r"matmul.queue = 1: legal is a field among"):
        encode("matmul", {"queue": 1})
    with pytest.raises(ParameterError, match="opcode = 255"):
        decode(255)
    with pytest.raises(ParameterError, match="field=value"):
        assemble("matmul columns")


def test_version_depends_on_the_parameters() -> None:
    assert isa.version(core_of(machine_named("TINY"))) != isa.version(core_of(machine_named("SMALL")))


def test_opcodes_are_unique_and_fit_the_engines_own_codes() -> None:
    assert len(isa.BY_OPCODE) == len(OPERATIONS)
    assert all(entry.opcode < 256 for entry in OPERATIONS.values())
