"""Verilator models, compiled once and cached by content under ``build/models``.

The key is a hash of everything that can change the result: Verilog, options, driver, tool versions. A model is built in
a temporary folder and moved into place with one rename, so an interruption leaves nothing half-built, and a lock makes
a second process wait for the first instead of building the same model again. Verilator's own runtime is compiled once
for all models.
"""

import contextlib
import dataclasses
import fcntl
import fnmatch
import functools
import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from spec.results import BUILD
from verif.tools import ToolError, compiler, verilator_root

HERE = Path(__file__).parent
SHIM = HERE / "cpp" / "shim"
JOBS = 2
"""Compilers at a time for one model; benches run beside each other, so more would oversubscribe the machine."""

CXXFLAGS = ("-std=c++20", "-fPIC", "-pthread", "-faligned-new", "-w")
COVERAGE_FLAGS = ("--coverage-line", "--coverage-toggle", "--coverage-expr")


@dataclasses.dataclass(frozen=True)
class Options:
    """How a model is compiled.

    ``hierarchy`` names modules that Verilator compiles separately and once (``hier_block``): rows, cores, chips, never
    single elements. ``no_inline`` names modules whose instances are functions of their own; those of ``shared`` modules
    are one function for all instances, which stays in the processor's instruction cache, at the price of one of
    Verilator's optimisations: for arrays of thousands. Both take ``*``. ``public`` lists the top's ports that VPI
    must see (cocotb only). ``optimise`` is the C++ optimisation of the hot code: ``-O2`` takes three times as long to
    compile as ``-O1``, which pays in runs of many minutes only.
    """

    waves: bool = False
    coverage: bool = False
    threads: int = 1
    hierarchy: tuple[str, ...] = ()
    no_inline: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    public: tuple[str, ...] = ()
    optimise: str = "-O1"

    def control_file(self, top: str, verilog: str) -> str:
        """The Verilator control file (``.vlt``) that says the above of the modules of ``verilog``."""
        lines = ["`verilator_config"]
        lines += [f'public_flat_rw -module "{top}" -var "{name}"' for name in self.public]
        lines += [f'hier_block -module "{name}"' for name in self.hierarchy]
        lines += [f'no_inline -module "{name}"' for name in (*self.no_inline, *self.shared)]
        # Ports that are kept as they are do not tie the code behind them to what drives them. Nothing reads a clock
        # there, but one that is kept would be copied to every instance at each edge.
        for module, ports in re.findall(r"^module (\w+)\((.*?)\);", verilog, re.MULTILINE):
            if any(fnmatch.fnmatch(module, name) for name in self.shared):
                names = [port.strip("\\ ") for port in ports.split(", ") if port != "clk"]
                lines += [f'public_flat_rd -module "{module}" -port "{port}"' for port in names]
        if self.coverage:
            # A select by conditions of which at most one holds ends in an arm for two: no run can take it.
            arms = [number for number, line in enumerate(verilog.splitlines(), 1) if line == "      default:"]
            lines += [f'coverage_off -file "*design.v" -lines {number}-{number + 1}' for number in arms]
        return "\n".join(lines) + "\n"

    @property
    def runtime(self) -> list[str]:
        """The parts of Verilator's runtime that the model needs."""
        parts = {"verilated": True, "verilated_threads": True, "verilated_vpi": bool(self.public)}
        parts |= {"verilated_cov": self.coverage, "verilated_fst_c": self.waves}
        return [name for name, needed in parts.items() if needed]

    @property
    def flags(self) -> list[str]:
        """Verilator's command line, without files."""
        flags = ["--cc", "--prefix", "Vtop", "-Wno-fatal", "-Wno-lint", "-Wno-style", "-O3", "--x-assign", "fast"]
        flags += ["--x-initial", "fast", "--noassert", "--output-split", "20000"]
        flags += ["--vpi"] if self.public else []
        flags += ["--trace-fst", "--trace-structs"] if self.waves else []
        flags += list(COVERAGE_FLAGS) if self.coverage else []
        # Blocks compiled separately are called through DPI, which Verilator otherwise keeps to one thread.
        flags += ["--threads", str(self.threads), "--threads-dpi", "all"] if self.threads > 1 else []
        flags += ["--hierarchical"] if self.hierarchy else []
        flags += ["-fno-dfg"] if self.shared else []  # it numbers what it adds through all instances
        return flags


@dataclasses.dataclass(frozen=True)
class Driver:
    """The C++ that surrounds the model: its text, the name of what it links to, and the linker's arguments."""

    source: str
    artefact: str
    link: tuple[str, ...]


def compiled(top: str, verilog: str, options: Options, driver: Driver) -> Path:
    """Folder of the compiled model of ``verilog``, built now unless an identical one exists.

    It holds ``driver.artefact`` and ``design.v`` (which coverage points refer to).
    """
    flags = [*options.flags, *_make_settings(options), *CXXFLAGS, *driver.link]
    control = options.control_file(top, verilog)
    key = _hash(top, verilog, control, driver.source, *flags, _environment())

    def build(work: Path, out: Path) -> None:
        (work / "design.v").write_text(verilog)
        (work / "ports.vlt").write_text(control)
        (work / "driver.cpp").write_text(driver.source)
        root = _root(work)
        verilator = [root / "bin" / "verilator", *options.flags, "--top-module", top, "--Mdir", work]
        _run([*verilator, work / "ports.vlt", work / "design.v"], work, root)
        makefile, target = ("Vtop_hier.mk", "hier_build") if options.hierarchy else ("Vtop.mk", "libVtop")
        # Not part of the key: the same model comes of an interpreter at another place.
        settings = [*_make_settings(options), f"PYTHON3={sys.executable}"]
        _run(["make", "-s", f"-j{JOBS}", "-f", makefile, *settings, target], work, root)
        defines = [f"-DVM_TRACE={int(options.waves)}", f"-DVM_TRACE_FST={int(options.waves)}"]
        defines += [f"-DVM_COVERAGE={int(options.coverage)}"]
        _run(
            [*_cxx(), *CXXFLAGS, "-O2", "-fvisibility=hidden", *defines, *_includes(root, work), "-c", "driver.cpp"],
            work,
            root,
        )
        parts = [work / f"V{name}" / f"lib{name}.a" for name in options.hierarchy]
        objects = ["driver.o", *map(runtime, options.runtime), work / "libVtop.a", *parts]
        _run([*_cxx(), "-pthread", *objects, *driver.link, "-o", driver.artefact], work, root)
        shutil.copy(work / driver.artefact, out)
        shutil.copy(work / "design.v", out)

    return _cached(f"{top}-{key}", build)


def runtime(name: str) -> Path:
    """Object file of one part of Verilator's runtime, compiled once for all models."""

    def build(work: Path, out: Path) -> None:
        root = _root(work)
        source = root / "include" / f"{name}.cpp"
        _run([*_cxx(), *CXXFLAGS, "-O1", *_includes(root), "-c", source, "-o", out / "part.o"], work, root)

    shim = "".join(path.read_text() for path in sorted(SHIM.iterdir()))
    return _cached(f"{name}-{_hash(shim, *CXXFLAGS, _environment())}", build) / "part.o"


def _cached(name: str, build: Callable[[Path, Path], None]) -> Path:
    store = (BUILD / "models").absolute()
    target = store / name
    if target.is_dir():
        return target
    store.mkdir(parents=True, exist_ok=True)
    with _locked(store / f".{name}.lock"):
        if target.is_dir():
            return target
        # make cannot work below a path with spaces; the system's temporary folder has none.
        folder = tempfile.TemporaryDirectory
        with folder(prefix="systola-") as work, folder(prefix=f".{name}.", dir=store) as draft:
            out = Path(draft) / "model"
            out.mkdir()
            build(Path(work), out)
            out.rename(target)
    return target


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # released by the system when the process dies
        yield


def _root(work: Path) -> Path:
    """Verilator's root below ``work``: a link, because the environment's own path may hold spaces."""
    link = work / "verilator"
    if not link.is_symlink():
        link.symlink_to(verilator_root())
    return link


def _cxx() -> list[str]:
    found = compiler()
    if found is None:
        raise ToolError("no C++ compiler: install g++ or clang++, or set CXX")
    return found.split()


@functools.cache
def _environment() -> str:
    """Everything outside a design that decides what its model is: the versions of the tools."""
    cxx = subprocess.run([*_cxx(), "--version"], capture_output=True, text=True, check=False).stdout
    return cxx + importlib.metadata.version("verilator")


def _make_settings(options: Options) -> list[str]:
    clang = "clang" in _environment()
    return [
        f"CXX={' '.join(_cxx())}",
        f"LINK={' '.join(_cxx())}",
        f"CFG_CXXFLAGS_PCH_I={'-include-pch' if clang else '-include'}",
        f"CFG_GCH_IF_CLANG={'.gch' if clang else ''}",
        f"CXXFLAGS={' '.join(CXXFLAGS)}",
        f"OPT_FAST={options.optimise}",
        "OPT_SLOW=-O0",
        "OBJCACHE=",
        "VM_GLOBAL_FAST=",  # would be compiled anew for each model; see runtime()
        "VM_GLOBAL_SLOW=",
    ]


def _includes(root: Path, *more: Path) -> list[str]:
    folders = [*more, SHIM, root / "include", root / "include" / "vltstd"]
    return ["-DVERILATOR=1", *(f"-I{folder}" for folder in folders)]


def _run(command: Iterable[object], work: Path, root: Path) -> None:
    words = [str(word) for word in command]
    environment = {**os.environ, "VERILATOR_ROOT": str(root)}
    done = subprocess.run(words, cwd=work, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"{Path(words[0]).name} failed: {_first_error(done.stderr + done.stdout)}")


def _first_error(text: str) -> str:
    lines = text.strip().splitlines() or ["no message"]
    return next((line for line in lines if "error" in line.lower()), lines[-1])


def _hash(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
