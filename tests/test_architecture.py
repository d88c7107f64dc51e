"""The import rule between the rooms, read from the source text."""

import ast
import shutil
import sys
from pathlib import Path

import pytest

from golden.compiled import state

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


def test_compiled_code_stays_where_numpy_is_too_slow() -> None:
    """Models of time go cycle by cycle, some values take tens of steps an element: a module's first lines say which."""
    golden = {path: path.read_text() for path in (ROOT / "golden").rglob("*.py")}
    assert [path.name for path, text in golden.items() if "numba" in imported(text)] == ["compiled.py"]
    users = {
        path.name: text.split('"""')[1].lower() for path, text in golden.items() if "golden.compiled import" in text
    }
    assert not [name for name, said in users.items() if not any(word in said for word in ("cycle", "slot", "compiled"))]


def test_compiled_code_is_not_taken_for_that_of_other_sources(tmp_path: Path) -> None:
    for room in ("golden", "spec"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    before = state(tmp_path)
    assert before == state()
    constants = tmp_path / "spec" / "power.py"
    constants.write_text(constants.read_text().replace("PRODUCT_BITS = 31", "PRODUCT_BITS = 30"))
    assert state(tmp_path) != before
