"""Sphinx configuration. Tables that state the machine are generated here from `spec` and from measured results."""

import dataclasses
from pathlib import Path
from typing import Any

from scale.plots import draw
from spec import isa, results
from spec.formats import BLOCKS, FLOATS, INTS, SCALES
from spec.parameters import Parameters
from spec.presets import PRESETS
from verif.harness.plan import read_plans

project = "systola"
author = "the systola authors"
copyright = "2026, the systola authors. Apache-2.0"
extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "systola"
exclude_patterns = ["generated"]
GENERATED = Path(__file__).parent / "generated"


def grid(header: list[str], rows: list[list[Any]]) -> str:
    """A Markdown table."""
    cells = [header, ["---"] * len(header), *rows]
    return (
        "\n".join("| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |" for row in cells) + "\n"
    )


def formats() -> str:
    rows = [
        [f"`{f.name}`", f"1/{f.exponent_bits}/{f.mantissa_bits}", f.bias, "yes" if f.infinity else "no",
         hex(f.nan_pattern) if f.nan_pattern is not None else "none", hex(f.max_finite), f.storage]
        for f in FLOATS.values()
    ]  # fmt: skip
    text = grid(["float", "sign/exp/man", "bias", "infinity", "canonical NaN", "largest finite", "bits stored"], rows)
    text += "\n" + grid(
        ["scale", "bits", "bias", "NaN"],
        [[f"`{s.name}`", s.width, s.bias, hex(s.nan_pattern)] for s in SCALES.values()],
    )
    text += "\n" + grid(
        ["block format", "elements", "scale", "block"],
        [[f"`{b.name}`", ", ".join(b.elements), b.scale, b.block] for b in BLOCKS.values()],
    )
    return (
        text
        + "\n"
        + grid(
            ["integer", "bits", "least", "largest"],
            [[f"`{i.name}`", i.width, i.minimum, i.maximum] for i in INTS.values()],
        )
    )


def leaves(value: Any, path: str = "") -> dict[str, tuple[Any, str]]:
    """Dotted path -> (value, unit) of every figure in a machine."""
    found: dict[str, tuple[Any, str]] = {}
    for field in dataclasses.fields(value):
        inner = getattr(value, field.name)
        if isinstance(inner, Parameters):
            found |= leaves(inner, f"{path}{field.name}.")
        else:
            found[f"{path}{field.name}"] = (inner, field.metadata.get("unit", ""))
    return found


def presets() -> str:
    machines = {name: leaves(preset.machine) for name, preset in PRESETS.items()}
    rows = []
    for path, (_, unit) in machines["TRN2"].items():
        values = [machine[path][0] for machine in machines.values()]
        shown = [", ".join(map(str, value)) if isinstance(value, tuple) else value for value in values]
        rows.append([f"`{path}`", *shown, unit, PRESETS["TRN2"].sources.get(path, "design choice")])
    digests = ["digest", *(f"`{preset.machine.digest()}`" for preset in PRESETS.values()), "", ""]
    return grid(["figure", *PRESETS, "unit", "source (TRN2)"], [*rows, digests])


def status() -> str:
    rows = results.read(Path(__file__).parent.parent / results.BUILD)
    if not rows:
        return "Nothing has been measured in this checkout yet: run `make sim bench claims`, then `make docs`.\n"
    keys = ("made_by", "block", "figure", "value", "unit", "target", "met", "reference")
    return grid(["made by", *keys[1:]], [[row[key] for key in keys] for row in rows])


def plan() -> str:
    root = Path(__file__).parent.parent
    rows = [
        [f"`{feature.block}`", feature.name, feature.text, "<br>".join(f"`{test}`" for test in feature.tests)]
        for feature in read_plans(root)
    ]
    return grid(["block", "feature", "what must hold", "shown by"], rows)


def instructions() -> str:
    rows = [
        [f"`{entry.opcode:#04x}`", f"`{entry.name}`", ", ".join(entry.engines), entry.semantics,
         ", ".join(f"`{name}`" for name in entry.uses)]
        for entry in isa.OPERATIONS.values()
    ]  # fmt: skip
    text = grid(["opcode", "instruction", "engines", "does", "fields beside the header"], rows)
    tables = {"header": isa.HEADER, "pattern": isa.PATTERN} | {
        f"form `{form}`": isa.FORMS[form][0] for form in isa.FORMS
    }
    for title, fields in tables.items():
        legal = [", ".join(f.names) if f.names else f"{f.low} to {f.high}" for f in fields]
        cells = [[f"`{f.name}`", f.width, values, f.doc] for f, values in zip(fields, legal, strict=True)]
        text += "\n" + grid([title, "bits", "legal", "meaning"], cells)
    return text


GENERATED.mkdir(exist_ok=True)
made = {"formats": formats(), "instructions": instructions(), "plan": plan(), "presets": presets(), "status": status()}
for name, text in made.items():
    (GENERATED / f"{name}.md").write_text(text)
draw(GENERATED)
