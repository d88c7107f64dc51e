import dataclasses
from typing import Any

import pytest

from spec.parameters import ParameterError
from spec.presets import PRESETS, machine_named


def leaves(value: Any, path: str = "") -> list[str]:
    """Dotted paths of every figure in a machine."""
    paths: list[str] = []
    for field in dataclasses.fields(value):
        inner, name = getattr(value, field.name), f"{path}{field.name}"
        paths += leaves(inner, f"{name}.") if dataclasses.is_dataclass(inner) else [name]
    return paths


def source_of(preset: str, path: str) -> str | None:
    """The preset's own source of a figure, or the design's for a figure the public record does not state."""
    entry = PRESETS[preset]
    value: Any = entry.machine
    *heads, last = path.split(".")
    for head in heads:
        value = getattr(value, head)
    rule = next(field.metadata for field in dataclasses.fields(value) if field.name == last)
    default = next(field.default for field in dataclasses.fields(value) if field.name == last)
    if path in entry.sources:
        return entry.sources[path]
    if "" in entry.sources:
        return entry.sources[""]
    return rule["source"] if getattr(value, last) == default else None


@pytest.mark.parametrize("preset", PRESETS)
def test_every_figure_has_a_source(preset: str) -> None:
    missing = [path for path in leaves(PRESETS[preset].machine) if not source_of(preset, path)]
    assert not missing


@pytest.mark.parametrize("preset", PRESETS)
def test_every_source_belongs_to_a_figure(preset: str) -> None:
    paths = leaves(PRESETS[preset].machine)
    assert all(path == "" or path in paths for path in PRESETS[preset].sources)


def test_presets_differ() -> None:
    assert len({entry.machine.digest() for entry in PRESETS.values()}) == len(PRESETS)


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match="preset 'TRN9': legal is one of SMALL, TINY, TRN1, TRN2, TRN3"):
        machine_named("TRN9")
