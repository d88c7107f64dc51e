"""The front door: what `make` says before anything is installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SHELL_TOOLS = ("awk", "bash", "cksum", "cut", "grep", "make", "rm", "touch", "tail")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files `make` reads, without an environment, and a `bin` folder with nothing but the shell's tools."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "bin").mkdir()
    for name in SHELL_TOOLS:
        found = shutil.which(name)
        assert found, name
        (tmp_path / "bin" / name).symlink_to(found)
    return tmp_path


def add(checkout: Path, name: str, text: str = "exit 0") -> None:
    program = checkout / "bin" / name
    program.write_text(f"#!/bin/bash\n{text}\n")
    program.chmod(0o755)


def make(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [checkout / "bin" / "make", *arguments],
        cwd=checkout,
        env={"PATH": str(checkout / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )


def complaint(done: subprocess.CompletedProcess[str]) -> str:
    """What was said, without make's own closing line."""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert done.returncode == 2
    assert len(lines) == 1
    return lines[0]


def test_help_lists_the_commands_without_installing(checkout: Path) -> None:
    done = make(checkout)
    assert done.returncode == 0
    for name in [
        "sim",
        "test",
        "verilog",
        "bench",
        "claims",
        "lint",
        "formal",
        "coverage",
        "regress",
        "docs",
        "status",
        "doctor",
    ]:
        assert f"make {name} " in done.stdout
    assert not (checkout / ".venv").exists()


@pytest.mark.parametrize("target", ["sim", "test"])
def test_missing_python_is_said_in_one_line(checkout: Path, target: str) -> None:
    assert complaint(make(checkout, target)).startswith("missing: Python 3.11 or newer")


def test_an_old_python_is_no_python(checkout: Path) -> None:
    add(checkout, "python3", "exit 0")  # prints nothing, as an interpreter that fails the version test does
    assert complaint(make(checkout, "sim")).startswith("missing: Python 3.11 or newer")


def test_missing_compiler_is_said_in_one_line(checkout: Path) -> None:
    (checkout / "bin" / "python3").symlink_to(sys.executable)
    assert complaint(make(checkout, "sim")).startswith("missing: a C++ compiler")


def test_missing_perl_is_said_in_one_line(checkout: Path) -> None:
    (checkout / "bin" / "python3").symlink_to(sys.executable)
    add(checkout, "c++")
    assert complaint(make(checkout, "sim")).startswith("missing: perl")


def test_missing_venv_module_is_said_in_one_line(checkout: Path) -> None:
    add(checkout, "python3", 'case "$1" in -c) echo python3;; *) exit 1;; esac')
    add(checkout, "c++")
    add(checkout, "perl")
    assert complaint(make(checkout, "sim")).startswith("missing: Python's venv module")


def test_an_interrupted_install_is_taken_up_again(checkout: Path) -> None:
    """The stamp comes last: without it the next call installs, with it no call does."""
    add(checkout, "python3", "echo python3")
    add(checkout, "c++")
    add(checkout, "perl")
    environment = checkout / ".venv" / "bin"
    environment.mkdir(parents=True)
    calls = checkout / "calls"
    for name, text in {
        "pip": f"echo pip >> {calls}; test -e {checkout}/network",
        "systola": f"echo systola >> {calls}",
    }.items():
        (environment / name).write_text(f"#!/bin/bash\n{text}\n")
        (environment / name).chmod(0o755)

    assert make(checkout, "sim").returncode == 2
    assert calls.read_text().split() == ["pip"]
    (checkout / "network").touch()
    assert make(checkout, "sim").returncode == 0
    assert calls.read_text().split() == ["pip", "pip", "pip", "systola"]
    assert make(checkout, "sim").returncode == 0
    assert calls.read_text().split() == ["pip", "pip", "pip", "systola", "systola"]
