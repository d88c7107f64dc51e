"""The import rule between the rooms, read from the source text."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("spec", "hdl", "golden", "verif", "scale", "sdk")

# What each room may import besides the standard library and itself. `None`: anything.
ALLOWED: dict[str, set[str] | None] = {
    "spec": set(),
    "hdl": {"amaranth", "spec"},
    "golden": {"numpy", "ml_dtypes", "numba", "spec"},
    "verif": None,
    "scale": None,
    "sdk": None,
}
FORBIDDEN = {"verif": {"scale", "sdk"}, "scale": {"hdl", "verif", "sdk", "cocotb", "amaranth"}, "sdk": set()}


def imported(source: str) -> set[str]:
    """Top-level names of every module a source text imports, wherever the statement stands."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def violations(room: str, source: str) -> set[str]:
    names = imported(source) - set(sys.stdlib_module_names) - {room}
    allowed = ALLOWED[room]
    return names & FORBIDDEN[room] if allowed is None else names - allowed


@pytest.mark.parametrize("room", ROOMS)
def test_room_imports_only_what_it_may(room: str) -> None:
    found = {
        f"{path.relative_to(ROOT)} imports {name}"
        for path in (ROOT / room).rglob("*.py")
        for name in violations(room, path.read_text())
    }
    assert not found


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("spec", "import numpy"),
        ("hdl", "def f():\n    from golden.numerics import arith"),
        ("golden", "import hdl.block as b"),
        ("verif", "from sdk import cli"),
        ("scale", "import cocotb"),
    ],
)
def test_a_planted_violation_is_seen(room: str, source: str) -> None:
    assert violations(room, source)


def test_numba_stays_in_golden_time_models() -> None:
    """Values are numpy; only models of time may be compiled, and their first paragraph says that they are such."""
    users = [path for path in (ROOT / "golden").rglob("*.py") if "numba" in imported(path.read_text())]
    said = {path.name: path.read_text().split('"""')[1].lower() for path in users}
    assert not [name for name, text in said.items() if "cycle" not in text and "slot" not in text]
