"""Proofs with sby: properties are written in Amaranth, a proof is one call.

:class:`Properties` place a block with :meth:`FormalPlatform.place` and state ``Assert``, ``Assume`` and ``Cover`` about
its ports and about the contents of its memories::

    proof = Proof("fifo 3", lambda: FifoProperties(FifoConfig(width=8, depth=3)))
    proof.run().check()
"""

import dataclasses
import re
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amaranth.back import rtlil  # type: ignore[attr-defined]  # the stubs leave it out
from amaranth.hdl import Array, Elaboratable, Fragment, Module, Shape, Signal, Value
from amaranth.lib.memory import Memory

from spec.parameters import lookup
from spec.results import BUILD
from verif.tools import environment, require

MODES = ("prove", "bmc", "cover")
SETTLED = {"PASS": "pass", "FAIL": "fail", "UNKNOWN": "unknown", "TIMEOUT": "timeout", "ERROR": "error"}


class FormalPlatform:
    """Elaborates blocks for a proof: children are real submodules, memories are registers that properties can name."""

    def __init__(self) -> None:
        self.memories: list[tuple[Memory, list[Signal]]] = []
        """Each memory with its rows, in the order in which they were met."""

    def place(self, block: Any) -> Fragment:
        """``block`` elaborated; its memories are in :attr:`memories` from then on."""
        get: Any = Fragment.get
        fragment: Fragment = get(block, self)
        return fragment

    def get_memory(self, memory: Any) -> Fragment:
        """Called by ``amaranth.lib.memory``: the same behaviour in flip-flops without reset."""
        m = Module()
        width, depth = Shape.cast(memory.shape).width, memory.depth
        init = [row & (1 << width) - 1 for row in memory.data.init._raw]
        rows = [Signal(width, name=f"row_{index}", init=init[index], reset_less=True) for index in range(depth)]
        for port in memory.write_ports:
            lane = width // max(1, len(port.en))
            for index, row in enumerate(rows):
                for part in range(len(port.en)):
                    bits = slice(part * lane, (part + 1) * lane)
                    with m.If(port.en[part] & (port.addr == index)):
                        m.d[port.domain] += row[bits].eq(Value.cast(port.data)[bits])
        for port in memory.read_ports:
            stored = Array(rows)[port.addr]
            if port.domain == "comb":
                m.d.comb += Value.cast(port.data).eq(stored)
                continue
            with m.If(port.en):
                m.d[port.domain] += Value.cast(port.data).eq(stored)
                for write in port.transparent_for:
                    lane = width // max(1, len(write.en))
                    for part in range(len(write.en)):
                        bits = slice(part * lane, (part + 1) * lane)
                        with m.If(write.en[part] & (write.addr == port.addr)):
                            m.d[port.domain] += Value.cast(port.data)[bits].eq(Value.cast(write.data)[bits])
        self.memories.append((memory, rows))
        return self.place(m)


class Properties(Elaboratable):
    """Base of a set of properties; ``inputs`` are the signals the solver may choose in every cycle."""

    inputs: tuple[Any, ...] = ()


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Outcome of a proof. ``result`` is pass, fail, unknown, timeout or error; ``detail`` is the tool's word on it."""

    name: str
    mode: str
    depth: int
    result: str
    seconds: float
    detail: str
    trace: Path | None

    def check(self) -> None:
        """Raise an AssertionError unless it passed."""
        if self.result != "pass":
            raise AssertionError(f"{self.name} ({self.mode}, depth {self.depth}): {self.result}: {self.detail}")


@dataclasses.dataclass(frozen=True)
class Proof:
    """``mode`` is ``prove`` (k-induction with k = ``depth``), ``bmc`` (the first ``depth`` cycles) or ``cover``."""

    name: str
    properties: Callable[[], Properties]
    mode: str = "prove"
    depth: int = 2
    solver: str = "z3"
    timeout: int = 300

    def __post_init__(self) -> None:
        lookup("mode of a proof", dict.fromkeys(MODES), self.mode)

    def run(self, build: Path | None = None) -> Verdict:
        """Prove it now. A counterexample is kept as a VCD file under ``build/formal``."""
        top = self.properties()
        platform = FormalPlatform()
        text = rtlil.convert(top, name="top", platform=platform, ports=list(top.inputs))
        script = [
            "[options]",
            f"mode {self.mode}",
            f"depth {self.depth}",
            f"timeout {self.timeout}",
            "[engines]",
            f"smtbmc {self.solver}",
            "[script]",
            "read_rtlil design.il",
            "prep -top top",
            "[files]",
            "design.il",
        ]
        with tempfile.TemporaryDirectory(prefix="systola-") as folder:
            work = Path(folder)
            (work / "design.il").write_text(text)
            (work / "proof.sby").write_text("\n".join(script) + "\n")
            started = time.monotonic()
            done = subprocess.run(
                [str(require("yowasp-sby")), "-f", "proof.sby"],
                cwd=work,
                env=environment(formal=True),
                capture_output=True,
                text=True,
                check=False,
            )
            seconds = time.monotonic() - started
            output = done.stdout + done.stderr
            found = re.search(r"DONE \((\w+)", output)
            result = SETTLED.get(found[1], "error") if found else "error"
            trace = self._keep(work, build) if result == "fail" else None
        return Verdict(self.name, self.mode, self.depth, result, seconds, _detail(output, result), trace)

    def _keep(self, work: Path, build: Path | None) -> Path | None:
        traces = sorted(work.glob("proof/engine_0/trace*.vcd"))
        if not traces:
            return None
        folder = (build or BUILD) / "formal"
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / f"{re.sub('[^A-Za-z0-9]+', '-', self.name)}-{self.mode}.vcd"
        target.write_bytes(traces[0].read_bytes())
        return target


def _detail(output: str, result: str) -> str:
    if result == "pass":
        return ""
    lines = [line for line in output.splitlines() if re.search(r"Assert failed|Unreached|ERROR|failed", line)]
    return re.sub(r"^SBY .*?\[proof\] ", "", (lines or output.strip().splitlines() or ["no output"])[0])
