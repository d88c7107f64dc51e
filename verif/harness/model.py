"""A block as a compiled model that is driven in batches: numpy arrays in, numpy arrays out, one call for many cycles.

>>> model = Model(block)                                                       # doctest: +SKIP
>>> run = model.run({"i": {"a": a, "b": b}}, expect={"o": 1000}, stalls={"o": STALLS["half"]})  # doctest: +SKIP
>>> run.fields("o")["sum"], run.stamps["o"], run.cycles                        # doctest: +SKIP

Streams are named as in Verilog (``i``, ``lanes__3``). In each cycle: inputs change, everything settles, transfers
happen where ``valid`` and ``ready`` meet, plain outputs are sampled, then the clock rises. Cycle 0 of a run is the
first of these. The block is reset for one cycle at power-on, before the first run; a later run continues where the
one before it stopped.
"""

import ctypes
import dataclasses
import functools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Shape

from verif.harness.compile import HERE, Driver, Options, compiled
from verif.harness.design import Design, design_of
from verif.harness.packing import Words, from_words, pack_array, to_words, unpack_array
from verif.harness.stalls import NEVER, Stall, start_state

REASONS = ("content", "idle", "limit")
NEVER_ENDS = -1
TAIL = 8
"""Cycles a run goes on after its last expected item, so that a surplus item shows."""


class _Stream(ctypes.Structure):
    _fields_ = (
        ("valid", ctypes.c_int32),
        ("ready", ctypes.c_int32),
        ("payload", ctypes.c_int32),
        ("words", ctypes.c_int32),
        ("into", ctypes.c_int32),
        ("stall", ctypes.c_uint32),
        ("state", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("stamps", ctypes.c_void_p),
        ("capacity", ctypes.c_int64),
        ("wanted", ctypes.c_int64),
        ("done", ctypes.c_int64),
        ("mask", ctypes.c_void_p),
        ("mask_length", ctypes.c_int64),
        ("held", ctypes.c_int64),
        ("dropped", ctypes.c_int64),
    )


class _Wire(ctypes.Structure):
    _fields_ = (
        ("port", ctypes.c_int32),
        ("words", ctypes.c_int32),
        ("data", ctypes.c_void_p),
        ("count", ctypes.c_int64),
    )


class _Reset(ctypes.Structure):
    _fields_ = (("at", ctypes.c_int64), ("cycles", ctypes.c_int64))


class _Run(ctypes.Structure):
    _fields_ = (
        ("streams", ctypes.c_void_p),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("resets", ctypes.c_void_p),
        ("stream_count", ctypes.c_int32),
        ("input_count", ctypes.c_int32),
        ("output_count", ctypes.c_int32),
        ("reset_count", ctypes.c_int32),
        ("clk", ctypes.c_int32),
        ("rst", ctypes.c_int32),
        ("cycle", ctypes.c_int64),
        ("limit", ctypes.c_int64),
        ("idle_limit", ctypes.c_int64),
        ("idle", ctypes.c_int64),
        ("tail", ctypes.c_int64),
        ("tail_left", ctypes.c_int64),
    )


class ProtocolError(AssertionError):
    """The block broke a rule of valid/ready streams."""


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run did. ``reason`` is why it ended: ``content``, ``idle`` or ``limit``."""

    design: Design
    cycles: int
    reason: str
    outputs: dict[str, Words]
    stamps: dict[str, npt.NDArray[np.int64]]
    """Cycle of each transfer, of every stream; of an input stream its length says how many items were taken."""
    samples: dict[str, Words]

    def values(self, name: str) -> list[int]:
        """The items of an output stream as integers."""
        return from_words(self.outputs[name])

    def fields(self, name: str) -> Any:
        """The items of an output stream by field, each an array."""
        return unpack_array(self.design.streams[name].shape, self.outputs[name])

    def sampled(self, name: str) -> npt.NDArray[Any]:
        """A plain output, one number a cycle (at most 64 bits)."""
        port = self.design.ports[name]
        return unpack_array(_plain_shape(port.width, port.signed), self.samples[name])


class Model:
    """One instance of a compiled block. Its state lives from run to run; :meth:`power_on` starts afresh.

    ``waves`` is the path of an FST file to write; ``hierarchy``, ``no_inline``, ``shared``, ``optimise`` are
    those of :class:`~.compile.Options`.
    Use it in a ``with`` statement, or call :meth:`close`, so that waves and coverage are written.
    """

    def __init__(
        self,
        block: Any,
        *,
        waves: Path | None = None,
        coverage: Path | None = None,
        threads: int = 1,
        hierarchy: Sequence[str] = (),
        no_inline: Sequence[str] = (),
        shared: Sequence[str] = (),
        optimise: str = Options.optimise,
        seed: int = 0,
    ) -> None:
        self.design = block if isinstance(block, Design) else design_of(block)
        self._waves, self._coverage, self._threads, self._seed = waves, coverage, threads, seed
        names = self.design.names
        self._port = {name: index for index, name in enumerate(names)}
        options = Options(
            waves=waves is not None,
            coverage=coverage is not None,
            threads=threads,
            hierarchy=tuple(hierarchy),
            no_inline=tuple(no_inline),
            shared=tuple(shared),
            optimise=optimise,
        )
        self._library = _load(compiled(self.design.top, self.design.verilog, options, _driver(names)))
        self.cycles = 0
        """Cycles of all runs, reset included."""
        self.seconds = 0.0
        """Time all runs took."""
        self._handle: int | None = None
        self.power_on()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def close(self) -> None:
        """Write waves and coverage, free the instance."""
        if self._handle is not None:
            self._library.model_destroy(self._handle, str(self._coverage or "").encode())
            self._handle = None

    def power_on(self) -> None:
        """A fresh instance, memories at their initial contents, reset for one cycle."""
        self.close()
        trace = str(self._waves).encode() if self._waves else None
        self._handle = self._library.model_create(self._threads, trace, self._seed)
        self.run(limit=1, resets=[(0, 1)])

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        expect: Mapping[str, int] | None = None,
        stalls: Mapping[str, Stall] | None = None,
        hold: Mapping[str, int] | None = None,
        drive: Mapping[str, Sequence[int] | npt.NDArray[Any]] | None = None,
        sample: Sequence[str] = (),
        resets: Sequence[tuple[int, int]] = (),
        limit: int = 1_000_000,
        idle: int = NEVER_ENDS,
        tail: int = TAIL,
        seed: int = 0,
        check_protocol: bool = True,
    ) -> Result:
        """Run until every input is taken and every stream of ``expect`` gave its items, or until ``idle`` or ``limit``.

        With neither inputs nor expectations only ``idle`` and ``limit`` end it.

        inputs   items of each input stream: words ``[item, word]``, fields as for :func:`~.packing.pack_array`, or a
                 list of integers. An input stream that is not named stays silent.
        expect   items wanted of each output stream. Others are collected too, and never waited for.
        stalls   pause patterns by stream; without one a stream runs at full speed.
        hold     plain inputs held at one value (otherwise at their ``init``).
        drive    plain inputs with a value for each cycle; the last one stays.
        sample   plain outputs to record in each cycle; needs a ``limit`` that fits into memory.
        resets   ``(cycle, length)`` of resets during the run. No stream moves meanwhile; an item that was offered and
                 not taken is offered again afterwards.
        idle     cycles without any transfer after which the run ends.
        tail     cycles to go on after everything expected has come.
        seed     of the pauses.

        Raises :class:`ProtocolError` if the block withdraws ``valid`` or changes a payload that was not taken.
        """
        unknown = {*(inputs or {}), *(expect or {}), *(stalls or {})} - set(self.design.streams)
        unknown |= {*(hold or {}), *(drive or {}), *sample} - set(self.design.ports)
        if unknown:
            legal = [*self.design.streams, *self.design.ports]
            raise KeyError(f"{self.design.top} has no {', '.join(sorted(unknown))}: legal is {', '.join(legal)}")
        job = _Job(self, inputs or {}, expect or {}, stalls or {}, seed)
        job.wire(hold or {}, drive or {}, sample, limit)
        tail = tail if inputs or expect else NEVER_ENDS
        started = time.perf_counter()
        result = job.execute(self._library, self._handle, resets, limit, idle, tail)
        self.seconds += time.perf_counter() - started
        self.cycles += result.cycles
        if check_protocol:
            job.check_protocol()
        return result


class _Job:
    """The arrays of one run; C++ holds pointers into them."""

    def __init__(
        self,
        model: Model,
        inputs: Mapping[str, Any],
        expect: Mapping[str, int],
        stalls: Mapping[str, Stall],
        seed: int,
    ) -> None:
        self.design, self.port = model.design, model._port
        self.names = list(self.design.streams)
        self.streams = (_Stream * len(self.names))()
        self.data: dict[str, Words] = {}
        self.stamps: dict[str, npt.NDArray[np.int64]] = {}
        self.keep: list[Any] = []
        for index, name in enumerate(self.names):
            port, entry = self.design.streams[name], self.streams[index]
            self.data[name] = (
                as_words(port.shape, port.width, inputs.get(name, []))
                if port.into
                else np.zeros((expect.get(name, 0) + 64, -(-port.width // 32)), np.uint32)
            )
            entry.valid, entry.ready, entry.payload = (
                self.port.get(f"{name}__{wire}", -1) for wire in ("valid", "ready", "payload")
            )
            entry.words, entry.into, entry.dropped = self.data[name].shape[1], port.into, -1
            entry.wanted = expect.get(name, -1)
            stall = stalls.get(name, NEVER)
            entry.stall = stall.threshold
            entry.state = start_state(seed, index)
            if stall.mask:
                mask = np.array(stall.mask, np.uint8)
                self.keep.append(mask)
                entry.mask, entry.mask_length = mask.ctypes.data, len(mask)
            self._attach(index, name, len(self.data[name]))

    def _attach(self, index: int, name: str, capacity: int) -> None:
        """Point C++ at arrays with room for ``capacity`` items; what has come so far is kept."""
        entry, old = self.streams[index], self.data[name]
        if capacity > len(old):
            self.data[name] = np.zeros((capacity, old.shape[1]), np.uint32)
            self.data[name][: len(old)] = old
        stamps = np.zeros(capacity, np.int64)
        if name in self.stamps:
            stamps[: entry.done] = self.stamps[name][: entry.done]
        self.stamps[name] = stamps
        entry.capacity = capacity
        entry.data, entry.stamps = self.data[name].ctypes.data, stamps.ctypes.data

    def wire(self, hold: Mapping[str, int], drive: Mapping[str, Any], sample: Sequence[str], limit: int) -> None:
        """Prepare the plain ports."""
        rows: list[tuple[str, Words]] = []
        for name, port in self.design.ports.items():
            if port.into and name in self.port:
                values = drive[name] if name in drive else [hold.get(name, port.init)]
                rows.append((name, to_words([int(value) for value in values], port.width)))
        self.inputs, self.input_rows = self._wires(rows), rows
        self.samples = [
            (name, np.zeros((limit, -(-self.design.ports[name].width // 32)), np.uint32)) for name in sample
        ]
        self.outputs = self._wires(self.samples)

    def _wires(self, rows: list[tuple[str, Words]]) -> ctypes.Array[_Wire]:
        wires = (_Wire * len(rows))()
        for wire, (name, values) in zip(wires, rows, strict=True):
            wire.port, wire.words = self.port[name], values.shape[1]
            wire.data, wire.count = values.ctypes.data, len(values)
        return wires

    def execute(
        self, library: Any, handle: int | None, resets: Sequence[tuple[int, int]], limit: int, idle: int, tail: int
    ) -> Result:
        """Run to the end; output arrays grow as needed."""
        pauses = (_Reset * len(resets))(*(_Reset(at, cycles) for at, cycles in resets))
        run = _Run(
            ctypes.addressof(self.streams),
            ctypes.addressof(self.inputs),
            ctypes.addressof(self.outputs),
            ctypes.addressof(pauses),
            len(self.streams),
            len(self.inputs),
            len(self.outputs),
            len(resets),
            self.port.get("clk", -1),
            self.port.get("rst", -1),
        )
        run.limit, run.idle_limit, run.tail, run.tail_left = limit, idle, tail, tail
        while (reason := library.model_run(handle, ctypes.byref(run))) >= len(REASONS):
            for index, name in enumerate(self.names):
                entry = self.streams[index]
                if not entry.into and entry.done == entry.capacity:
                    self._attach(index, name, 2 * entry.capacity)
        done = {name: self.streams[index].done for index, name in enumerate(self.names)}
        return Result(
            design=self.design,
            cycles=run.cycle,
            reason=REASONS[reason],
            outputs={name: self.data[name][:count] for name, count in done.items() if not self._into(name)},
            stamps={name: self.stamps[name][:count] for name, count in done.items()},
            samples={name: rows[: run.cycle] for name, rows in self.samples},
        )

    def _into(self, name: str) -> bool:
        return self.design.streams[name].into

    def check_protocol(self) -> None:
        """Raise if the block withdrew an offer."""
        for index, name in enumerate(self.names):
            if self.streams[index].dropped >= 0:
                raise ProtocolError(
                    f"{self.design.top}: stream {name} withdrew or changed an item before it was taken, "
                    f"in cycle {self.streams[index].dropped}"
                )


def _plain_shape(width: int, signed: bool) -> Any:
    return Shape(width, signed)


def as_words(shape: Any, width: int, items: Any) -> Words:
    """Items in any of the forms :meth:`Model.run` takes, as words ``[item, word]``."""
    if isinstance(items, np.ndarray) and items.ndim == 2 and items.dtype == np.uint32:
        if items.shape[1] != -(-width // 32):
            raise ValueError(f"words of shape {items.shape}: legal is [items, {-(-width // 32)}]")
        return np.ascontiguousarray(items)
    if isinstance(items, list):
        return to_words(items, width).reshape(len(items), -(-width // 32))
    return np.ascontiguousarray(pack_array(shape, items))


def _driver(names: Sequence[str]) -> Driver:
    # Verilator escapes the second of two underscores in names of C++ members.
    ports = "\n".join(f"PORT({name.replace('__', '___05F')})" for name in names)
    source = (HERE / "cpp" / "driver.cpp").read_text().replace('#include "ports.inc"', ports)
    # Several models live in one process: none may take another's copy of Verilator's runtime.
    return Driver(source, "model.so", ("-shared", "-Wl,--exclude-libs,ALL", "-Wl,-Bsymbolic"))


@functools.cache
def _load(folder: Path) -> Any:
    library = ctypes.CDLL(str(folder / "model.so"))
    library.model_create.restype = ctypes.c_void_p
    library.model_create.argtypes = (ctypes.c_int32, ctypes.c_char_p, ctypes.c_uint64)
    library.model_destroy.restype = None
    library.model_destroy.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
    library.model_run.restype = ctypes.c_int32
    library.model_run.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
    return library
