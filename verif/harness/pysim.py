"""The stimulus of :mod:`~.model` in Amaranth's own simulator: nothing to compile, a few hundred cycles a second.

For unit tests at small size. Cycles, transfers and pauses are those of the compiled model, so both give the same
:class:`~.model.Result` for the same arguments.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from amaranth.hdl import ClockDomain, Const, Module, Value, ValueCastable
from amaranth.sim import Simulator

from verif.harness.design import Design, StreamPort, interface_of
from verif.harness.model import NEVER_ENDS, TAIL, ProtocolError, Result, as_words
from verif.harness.packing import from_words, to_words
from verif.harness.stalls import NEVER, Stall

PERIOD = 1e-6


class _Stream:
    """One stream during a run."""

    def __init__(self, port: StreamPort, wires: Mapping[str, Any], items: list[int], wanted: int, pauses: Any) -> None:
        self.port, self.items, self.wanted, self.pauses = port, items, wanted, pauses
        self.valid, self.ready, self.payload = (wires.get(f"{port.name}__{wire}") for wire in _WIRES)
        self.stamps: list[int] = []
        self.held = False
        self.offered = 0

    @property
    def content(self) -> bool:
        if self.port.into:
            return len(self.stamps) == len(self.items)
        return self.wanted < 0 or len(self.stamps) >= self.wanted

    def before_edge(self, ctx: Any, reset: bool) -> None:
        """Set what this side of the stream drives."""
        pause = next(self.pauses) or reset
        if not self.port.into:
            _set(ctx, self.ready, int(not pause))
            return
        left = len(self.stamps) < len(self.items)
        self.held = not reset and left and (self.held or not pause or self.valid is None)
        _set(ctx, self.valid, int(self.held))
        if self.held:
            _set(ctx, self.payload, self.items[len(self.stamps)])

    def at_edge(self, ctx: Any, cycle: int, reset: bool) -> bool:
        """Note a transfer, check that an offer stands."""
        if reset:
            self.held = False
            return False
        valid = self.held if self.port.into else _get(ctx, self.valid)
        ready = _get(ctx, self.ready)
        if not self.port.into:
            payload = ctx.get(self.payload) if valid and self.payload is not None else 0
            if self.held and not (valid and payload == self.offered):
                raise ProtocolError(
                    f"stream {self.port.name} withdrew or changed an item before it was taken, in cycle {cycle}"
                )
            self.offered = payload
            if valid and ready:
                self.items.append(payload)
        self.held = bool(valid and not ready)
        if valid and ready:
            self.stamps.append(cycle)
        return bool(valid and ready)


_WIRES = ("valid", "ready", "payload")


class Simulation:
    """One instance of a block in Amaranth's simulator: :class:`~.model.Model` without a compiler.

    Its state lives from run to run, and no cycle passes between two runs.
    """

    def __init__(self, block: Any) -> None:
        self.ports, self.plain = interface_of(block)
        self.wires = _wires(block)
        self.design = Design(type(block).__name__, "", self.ports, self.plain, tuple(self.wires))
        self.cycles = 0
        """Cycles of all runs, reset included."""
        self._domain: Any = ClockDomain("sync")
        self._job: _Job | None = None
        top: Any = Module()
        top.domains.sync = self._domain
        top.submodules.block = block
        simulator: Any = Simulator(top)
        simulator.add_clock(PERIOD)
        simulator.add_testbench(self._bench)
        self._simulator = simulator
        self.run(limit=1, resets=[(0, 1)])

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        expect: Mapping[str, int] | None = None,
        stalls: Mapping[str, Stall] | None = None,
        hold: Mapping[str, int] | None = None,
        drive: Mapping[str, Sequence[int]] | None = None,
        sample: Sequence[str] = (),
        resets: Sequence[tuple[int, int]] = (),
        limit: int = 1_000_000,
        idle: int = NEVER_ENDS,
        tail: int = TAIL,
        seed: int = 0,
    ) -> Result:
        """Run; the arguments are those of :meth:`.model.Model.run`."""
        streams = []
        for index, (name, port) in enumerate(self.ports.items()):
            items = from_words(as_words(port.shape, port.width, (inputs or {}).get(name, []))) if port.into else []
            pauses = (stalls or {}).get(name, NEVER).pattern(seed, index)
            streams.append(_Stream(port, self.wires, items, (expect or {}).get(name, -1), pauses))
        driven = {
            name: list((drive or {}).get(name, [(hold or {}).get(name, port.init)]))
            for name, port in self.plain.items()
            if port.into and name in self.wires
        }
        self._job = job = _Job(
            streams,
            driven,
            {name: [] for name in sample},
            resets,
            limit,
            idle,
            tail if inputs or expect else NEVER_ENDS,
        )
        while not job.reason:
            self._simulator.advance()
        self.cycles += job.cycles
        return Result(
            design=self.design,
            cycles=job.cycles,
            reason=job.reason,
            outputs={s.port.name: _words(s.items, s.port.width) for s in streams if not s.port.into},
            stamps={s.port.name: np.array(s.stamps, np.int64) for s in streams},
            samples={name: _words(values, self.plain[name].width) for name, values in job.samples.items()},
        )

    async def _bench(self, ctx: Any) -> None:
        while True:
            if self._job is not None:
                job, self._job = self._job, None
                await self._execute(ctx, job)
            # Time stands still outside :meth:`run`; the next one begins before the next edge.
            await ctx.delay(PERIOD / 1000)

    async def _execute(self, ctx: Any, job: "_Job") -> None:
        cycle, quiet, left = 0, 0, job.tail
        while True:
            if not all(stream.content for stream in job.streams):
                left = job.tail
            elif left == 0:
                job.end(cycle, "content")
                return
            else:
                left -= 1
            if cycle == job.limit or quiet == job.idle:
                job.end(cycle, "limit" if cycle == job.limit else "idle")
                return
            reset = any(at <= cycle < at + length for at, length in job.resets)
            ctx.set(self._domain.rst, int(reset))
            for name, values in job.driven.items():
                ctx.set(self.wires[name], int(values[min(cycle, len(values) - 1)]))
            for stream in job.streams:
                stream.before_edge(ctx, reset)
            moved = [stream.at_edge(ctx, cycle, reset) for stream in job.streams]
            for name, values in job.samples.items():
                values.append(ctx.get(self.wires[name]))
            quiet = 0 if any(moved) else quiet + 1
            await ctx.tick()
            cycle += 1


@dataclasses.dataclass
class _Job:
    """What one run shall do, and how it ended."""

    streams: list[_Stream]
    driven: dict[str, list[int]]
    samples: dict[str, list[int]]
    resets: Sequence[tuple[int, int]]
    limit: int
    idle: int
    tail: int
    cycles: int = 0
    reason: str = ""

    def end(self, cycles: int, reason: str) -> None:
        """Leave the run."""
        self.cycles, self.reason = cycles, reason


def simulate(block: Any, inputs: Mapping[str, Any] | None = None, *, limit: int = 10_000, **settings: Any) -> Result:
    """Build ``block``, reset it for a cycle and run it once; the arguments are those of :meth:`.model.Model.run`."""
    return Simulation(block).run(inputs, limit=limit, **settings)


def _words(values: list[int], width: int) -> Any:
    return to_words(values, width).reshape(len(values), -(-width // 32))


def _wires(block: Any) -> dict[str, Any]:
    """Signal of each port by its name in Verilog."""
    found = {}
    for path, _member, value in block.signature.flatten(block):
        plain = value.as_value() if isinstance(value, ValueCastable) else Value.cast(value)
        if not isinstance(plain, Const) and len(plain):
            found["__".join(map(str, path))] = plain
    return found


def _set(ctx: Any, wire: Any, value: int) -> None:
    if wire is not None:
        ctx.set(wire, value)


def _get(ctx: Any, wire: Any) -> bool:
    return True if wire is None else bool(ctx.get(wire))
