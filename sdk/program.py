"""Programs of a NeuronCore, built in Python.

::

    with Program(TINY) as p:
        a, b = p.input("a", (4, 16), "fp32"), p.output("b", (4, 16), "fp32")
        x = p.sbuf((4, 16), "fp32")
        p.dma(x, a)
        p.scalar.activation(x, x, "exp")
        p.dma(b, x)
    p.run(a=numbers)["b"]

Instructions are written in the order in which they should seem to happen; they go to the engines' own queues, and what
touches the same bytes is ordered with semaphores (``golden.core.order``). Loops are Python's.
"""

import contextlib
import dataclasses
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from golden.core.order import Entry, agents, encoded, ordered
from sdk.engines import ScalarQueue, TensorQueue, VectorQueue
from sdk.tensors import Scaled, View, contiguous
from spec.core import ENGINES, LINE_BYTES, WORD_BYTES, CoreConfig, core_of
from spec.isa import DIMENSIONS, INDEXED, INSTRUCTION_BYTES, disassemble, encode
from spec.parameters import refuse
from spec.presets import Preset

SDK = str(Path(__file__).parent)


@dataclasses.dataclass(frozen=True)
class Code:
    """The finished program: for each engine its words and the source line of each, and where they lie in HBM."""

    words: dict[str, list[int]]
    lines: dict[str, list[str]]
    starts: dict[str, int]
    """HBM line of each engine's first instruction."""

    def bytes(self, engine: str) -> bytes:
        """An engine's instructions as they lie in memory."""
        return b"".join(word.to_bytes(INSTRUCTION_BYTES, "little") for word in self.words[engine])


class Program:
    """A program for one core. Entered as a context, it is finished when the context ends."""

    def __init__(self, machine: Preset | CoreConfig, *, hbm: range | None = None) -> None:
        """``hbm``: the bytes of HBM that tensors and code are put into, lines from end to end; all, by default."""
        self.config = core_of(machine.machine) if isinstance(machine, Preset) else machine
        self.entries: list[Entry] = []
        self.tensors: dict[str, View] = {}
        self.code: Code | None = None
        room = range(self.config.hbm_bytes) if hbm is None else hbm
        if room.start % LINE_BYTES or not 0 <= room.start < room.stop <= self.config.hbm_bytes:
            raise refuse("Program", "hbm", room, f"bytes of 0 to {self.config.hbm_bytes}, from a line's first on")
        self._sbuf, self._hbm, self._hbm_end = 0, room.start, room.stop
        self._psum = 0
        self._queue = 0
        self.tensor = TensorQueue(self)
        self.vector = VectorQueue(self)
        self.scalar = ScalarQueue(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.finish()

    def hbm(self, name: str, shape: Sequence[int], format_: str) -> View:
        """An array in HBM, from a line's first byte on."""
        if name in self.tensors:
            raise refuse("Program", "name", name, "a name that no other tensor has")
        view = contiguous("hbm", format_, tuple(shape), self._hbm, name=name)
        self._hbm = -(-view.box.high // LINE_BYTES) * LINE_BYTES
        if self._hbm > self._hbm_end:
            raise refuse("Program", name, shape, f"what fits into HBM up to byte {self._hbm_end}")
        self.tensors[name] = view
        return view

    input = output = hbm

    def sbuf(self, shape: Sequence[int], format_: str, name: str = "tile") -> View:
        """A tile of SBUF, ``(partitions, free dimensions ...)``, from partition 0 on."""
        self._check_partitions(shape, name)
        view = contiguous("sbuf", format_, tuple(shape), self._sbuf, name=name)
        high = -(-view.box.high // 4) * 4
        if high > self.config.sbuf_bytes:
            free = self.config.sbuf_bytes - self._sbuf
            raise refuse("Program", name, tuple(shape), f"at most {free} bytes a partition, as many are free")
        self._sbuf = high
        return view

    def scaled(self, partitions: int, columns: int, format_: str) -> Scaled:
        """A tile of SBUF for microscaled operands, ``format_`` that of their elements."""
        return Scaled(self.sbuf((partitions, columns, 2), "fp32"), format_)

    def psum(self, columns: int, bank: int | None = None) -> View:
        """A tile of PSUM, fp32, all partitions: the first columns of a bank, by default of the banks in turn."""
        tensor = self.config.tensor
        if not 1 <= columns <= tensor.bank_depth:
            raise refuse("Program", "psum", columns, f"1 to {tensor.bank_depth} columns")
        chosen = self._psum % tensor.psum_banks if bank is None else bank
        self._psum += bank is None
        return contiguous("psum", "fp32", (tensor.columns, columns), chosen * tensor.psum_bank_bytes, name="psum")

    def _check_partitions(self, shape: Sequence[int], name: str) -> None:
        if not 1 <= shape[0] <= self.config.partitions:
            raise refuse("Program", name, tuple(shape), f"1 to {self.config.partitions} partitions")

    def add(
        self, agent: str, name: str, fields: Mapping[str, Any], reads: Sequence[View], writes: Sequence[View]
    ) -> Entry:
        """Append an instruction. ``agent`` is the engine, or ``queue n`` for a transfer, which sync triggers."""
        entry = Entry(
            agent=agent,
            engine=agent if agent in ENGINES else "sync",
            name=name,
            fields=dict(fields),
            reads=tuple(view.box for view in reads),
            writes=tuple(view.box for view in writes),
            line=_caller(),
        )
        encode(name, entry.fields)
        self.entries.append(entry)
        return entry

    def dma(
        self,
        target: View,
        source: View,
        *,
        accumulate: bool = False,
        queue: int | None = None,
        priority: int = 0,
        gather: View | None = None,
        scatter: View | None = None,
    ) -> None:
        """Copy between memories, element by element, with a cast where the formats differ.

        Shapes must agree; a transposed source is a transpose. With ``gather`` (int32 in HBM), row ``i`` of the target
        takes row ``gather[i]`` of the source; with ``scatter`` row ``scatter[i]`` of the target takes row ``i``.
        """
        indices = gather if gather is not None else scatter
        rows = indices.shape[0] if indices is not None else source.shape[0]
        if target.shape[1:] != source.shape[1:] or (indices is None and target.shape != source.shape):
            raise refuse("dma", "shape", target.shape, f"{source.shape}, as the source has")
        inner = DIMENSIONS - (indices is not None)
        if len(source.shape) > DIMENSIONS:
            raise refuse("dma", "shape", source.shape, f"at most {DIMENSIONS} dimensions")
        if not accumulate and indices is None:
            target, source = widened(target, source)
        if queue is None:
            queue, self._queue = self._queue, (self._queue + 1) % self.config.dma_queues
        fields: dict[str, Any] = {
            "queue": queue,
            "priority": priority,
            "accumulate": int(accumulate),
            "num3": 1,
        }
        for side, view in (("source", source), ("target", target)):
            pitch = {"hbm": 0, "sbuf": self.config.sbuf_pitch, "psum": self.config.psum_pitch}[view.memory]
            steps = [pitch if view.tile and axis == 0 else step for axis, step in enumerate(view.steps)]
            fields |= {
                f"{side}_space": view.memory,
                f"{side}_address": view.start * pitch + view.offset,
                f"{side}_format": view.format,
            }
            if indices is not None:
                fields[f"{side}_step3"] = steps[0]
                steps = steps[1:]
            for dimension, step in enumerate(reversed(steps)):
                fields[f"{side}_step{dimension}"] = step
        shape = source.shape[1:] if indices is not None else source.shape
        for dimension in range(inner):
            fields[f"num{dimension}"] = shape[len(shape) - 1 - dimension] if dimension < len(shape) else 1
        reads = [source, *([target] if accumulate else [])]
        if indices is not None:
            fields |= {
                "num3": rows,
                "indexed": INDEXED[1 if gather is not None else 2],
                "list_address": indices.offset,
            }
            reads.append(indices)
        self.add(f"queue {queue}", "dma", fields, reads, [target])

    def load(self, register: int, word: View, index: int | None = None) -> None:
        """A register of the sync engine takes a word of HBM: the only one of a view, or with ``index``, a register that
        holds bytes, one so far behind its first.
        """
        self._word("load", {"target": register}, word, index)

    def store(self, word: View, register: int, index: int | None = None) -> None:
        """The opposite of :meth:`load`."""
        self._word("store", {"left": register}, word, index)

    def _word(self, name: str, fields: dict[str, int], word: View, index: int | None) -> None:
        if word.memory != "hbm" or word.size != WORD_BYTES or (index is None and math.prod(word.shape) != 1):
            raise refuse(name, "word", word.shape, "one element of 4 bytes in HBM")
        right = {"immediate": 1} if index is None else {"right": index}
        views = ([word], []) if name == "load" else ([], [word])
        self.add("sync", name, fields | right | {"address": word.offset}, *views)

    @contextlib.contextmanager
    def ring(self, queue: int = 0) -> Iterator[None]:
        """Transfers written inside become descriptors in memory, all of one queue, which one instruction processes."""
        before = self.entries
        self.entries = []
        yield
        inside, self.entries = self.entries, before
        if not inside or any(entry.name != "dma" for entry in inside):
            raise refuse("ring", "instructions", [entry.name for entry in inside], "one or more transfers")
        for entry in inside:
            entry.fields["queue"] = queue
        reads, writes = (tuple(box for e in inside for box in getattr(e, side)) for side in ("reads", "writes"))
        register = self.config.registers - 1
        self.add("sync", "alu", {"operation": "move", "target": register, "immediate": 1, "value": 0}, [], [])
        fields = {"left": register, "descriptors": [entry.fields for entry in inside]}
        self.entries.append(Entry(f"queue {queue}", "sync", "ring", fields, reads, writes, inside[0].line))

    def notify(self, core: int, signal: int, *after: View) -> None:
        """Add 1 to a signal of a core of the system, when all that was done with the views ``after`` is complete."""
        self.add("sync", "nop", {}, after, [])
        update = {"update": "increment", "update_semaphore": self._signal(signal), "update_core": core + 1}
        self.add("sync", "nop", update, [], [])

    def expect(self, signal: int, count: int, *before: View) -> None:
        """What touches the views ``before`` from here on waits until a signal of this core has come ``count`` times."""
        wait = {"wait": 1, "wait_semaphore": self._signal(signal), "wait_value": count}
        self.add("sync", "nop", wait, [], [])
        self.add("sync", "nop", {}, [], before)

    def _signal(self, signal: int) -> int:
        """Semaphore of a signal: behind those that order the program."""
        used = len(agents(self.config))
        if not 0 <= signal < self.config.semaphores - used:
            raise refuse("Program", "signal", signal, f"0 to {self.config.semaphores - used - 1}")
        return used + signal

    def finish(self) -> Code:
        """Order what depends, append the halts, and place the code behind the tensors."""
        if self.code is not None:
            return self.code
        found: dict[str, list[Entry]] = {engine: [] for engine in ENGINES}
        for entry in ordered(self.entries, self.config):
            found[entry.engine].append(entry)
        words, lines, starts = {}, {}, {}
        for engine, entries in found.items():
            starts[engine] = self._hbm // LINE_BYTES
            words[engine] = encoded(entries, self._hbm) if entries else []
            lines[engine] = [entry.line for entry in entries] + ["end of the program"] * bool(entries)
            rings = (entry for entry in entries if entry.name == "ring")
            lines[engine] += [entry.line for entry in rings for _ in entry.fields["descriptors"]]
            self._hbm += len(words[engine]) * INSTRUCTION_BYTES
        if self._hbm > self._hbm_end:
            raise refuse("Program", "size", self._hbm, f"what fits into HBM up to byte {self._hbm_end}")
        self.code = Code(words, lines, starts)
        return self.code

    def disassemble(self) -> str:
        """Every instruction with its engine, number and source line."""
        code = self.finish()
        return "\n".join(
            f"{engine:7}{number:5}  {disassemble(word)}  ; {code.lines[engine][number]}"
            for engine in ENGINES
            for number, word in enumerate(code.words[engine])
        )

    def run(self, target: str = "golden", **inputs: Any) -> Any:
        """Run it; see :func:`sdk.run.run`."""
        from sdk.run import run  # the targets need the simulators, a program does not

        return run(self, target, {name: np.asarray(array) for name, array in inputs.items()})


def widened(target: View, source: View) -> tuple[View, View]:
    """Both sides in words where that moves the same bytes: DMA moves an element a cycle, whatever its size."""
    size = source.size
    count = WORD_BYTES // size
    sides = (target, source)
    inner = all(
        len(view.shape) > view.tile and view.steps[-1] == size and view.shape[-1] % count == 0 for view in sides
    )
    steps = [step for view in sides for step in (view.offset, *view.steps[view.tile : -1])]
    if count == 1 or target.format != source.format or not inner or any(step % WORD_BYTES for step in steps):
        return target, source

    def wide(view: View) -> View:
        shape, steps = (*view.shape[:-1], view.shape[-1] // count), (*view.steps[:-1], WORD_BYTES)
        return dataclasses.replace(view, format="fp32", shape=shape, steps=steps)

    return wide(target), wide(source)


def _caller() -> str:
    """File and line outside this package that wrote the instruction."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(SDK):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
