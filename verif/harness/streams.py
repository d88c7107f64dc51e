"""Streams in cocotb: a source that sends, a sink that takes, a monitor that watches the rules.

An item is one integer, the whole payload (see :mod:`~.packing`). Each agent is a task of its own that lives until the
end of the test::

    source, sink = StreamSource(dut, "i", stall=STALLS["half"]), StreamSink(dut, "o")
    await start(dut)
    await source.send(items)
    assert await sink.take(len(items)) == expected

Agents pause at random from cocotb's seeded generator, so a run repeats with its seed. Every agent also checks the
rules of a stream while it runs: once ``valid`` is high it stays high, with the same payload, until ``ready``.
"""

import zlib
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import Event, RisingEdge, Timer

from verif.harness.runner import PERIOD
from verif.harness.stalls import NEVER, Stall


class ProtocolError(AssertionError):
    """A rule of valid/ready streams was broken."""


async def start(dut: Any, cycles: int = 2) -> None:
    """Start the clock and hold reset for ``cycles`` rising edges. Every input that is not a stream's is left alone."""
    dut.rst.value = 1
    Clock(dut.clk, PERIOD, unit="step").start()
    for _ in range(cycles):
        await RisingEdge(dut.clk)
    dut.rst.value = 0


async def reset(dut: Any, cycles: int = 1) -> None:
    """Reset in mid-flight: what the block holds is lost, agents go on with their next item."""
    dut.rst.value = 1
    for _ in range(cycles):
        await RisingEdge(dut.clk)
    dut.rst.value = 0


class _Agent:
    """The wires of one stream, sampled at each rising edge."""

    def __init__(self, dut: Any, name: str, stall: Stall = NEVER) -> None:
        self.dut, self.name = dut, name
        self.cycle = 0
        self.valid = getattr(dut, f"{name}__valid", None)
        self.ready = getattr(dut, f"{name}__ready", None)
        self.payload = getattr(dut, f"{name}__payload", None)
        self.stall(stall)
        self.stamps: list[int] = []
        self._offered: int | None = None
        self.task = cocotb.start_soon(self._run())

    def stall(self, stall: Stall) -> None:
        """Change the pause pattern from the next cycle on."""
        self.pauses = stall.pattern(cocotb.RANDOM_SEED + self.cycle, zlib.crc32(self.name.encode()))

    async def _run(self) -> None:
        raise NotImplementedError

    def _sample(self) -> int | None:
        """The payload if an item moves at this edge; checks that an offer stands until taken."""
        self.cycle += 1
        if _bit(self.dut.rst):
            self._offered = None
            return None
        valid = self.valid is None or _bit(self.valid)
        payload = 0 if self.payload is None or not valid else int(self.payload.value)
        if self._offered is not None:
            if not valid:
                raise ProtocolError(f"{self.name}: valid fell before ready, in cycle {self.cycle}")
            if payload != self._offered:
                raise ProtocolError(
                    f"{self.name}: payload changed from 0x{self._offered:x} to 0x{payload:x} before ready, "
                    f"in cycle {self.cycle}"
                )
        if not valid:
            return None
        ready = self.ready is None or _bit(self.ready)
        self._offered = None if ready else payload
        if not ready:
            return None
        self.stamps.append(self.cycle)
        return payload


class StreamSource(_Agent):
    """Sends items into a stream the block consumes."""

    def __init__(self, dut: Any, name: str, stall: Stall = NEVER) -> None:
        self.queue: deque[int] = deque()
        self._empty = Event()
        self._empty.set()
        super().__init__(dut, name, stall)
        if self.valid is not None:
            self.valid.value = 0

    def put(self, items: Iterable[int]) -> None:
        """Queue items without waiting."""
        self.queue.extend(items)
        if self.queue:
            self._empty.clear()

    async def send(self, items: Iterable[int]) -> None:
        """Queue items and wait until the block has taken the last of them."""
        self.put(items)
        await self._empty.wait()

    async def _run(self) -> None:
        offering = False
        while True:
            await RisingEdge(self.dut.clk)
            moved = self._sample() is not None
            if offering and moved:
                self.queue.popleft()
                offering = False
            if not self.queue:
                self._empty.set()
            resetting = _bit(self.dut.rst)
            offering = bool(self.queue) and not resetting and (offering or not next(self.pauses))
            if self.valid is not None:
                self.valid.value = int(offering)
            if offering and self.payload is not None:
                self.payload.value = self.queue[0]


class StreamSink(_Agent):
    """Takes items from a stream the block produces."""

    def __init__(self, dut: Any, name: str, stall: Stall = NEVER) -> None:
        self.items: list[int] = []
        self._arrived = Event()
        super().__init__(dut, name, stall)
        if self.ready is not None:
            self.ready.value = 0

    async def take(self, count: int, limit: int = 100_000) -> list[int]:
        """The next ``count`` items; fails with what came if they take more than ``limit`` cycles."""
        last = self.cycle + limit
        while len(self.items) < count:
            if self.cycle >= last:
                raise AssertionError(f"{self.name}: {len(self.items)} of {count} items came in {limit} cycles")
            await RisingEdge(self.dut.clk)
            await Timer(1, "step")
        taken, self.items = self.items[:count], self.items[count:]
        return taken

    async def _run(self) -> None:
        while True:
            await RisingEdge(self.dut.clk)
            item = self._sample()
            if item is not None:
                self.items.append(item)
            if self.ready is not None:
                self.ready.value = int(not next(self.pauses))


class StreamMonitor(_Agent):
    """Watches a stream that other agents drive; ``callback`` sees each item in the cycle it moves."""

    def __init__(self, dut: Any, name: str, callback: Callable[[int], None] | None = None) -> None:
        self.items: list[int] = []
        self.callback = callback
        super().__init__(dut, name)

    async def _run(self) -> None:
        while True:
            await RisingEdge(self.dut.clk)
            item = self._sample()
            if item is not None:
                self.items.append(item)
                if self.callback is not None:
                    self.callback(item)


def _bit(handle: Any) -> bool:
    return str(handle.value) == "1"
