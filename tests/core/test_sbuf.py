"""Who has a bank of SBUF: a matmul's rows first, and still nobody waits for ever."""

from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

import hdl.core.sbuf
from hdl.core.sbuf import TURNS, Sbuf
from verif.core.bench import LITTLE

CYCLES = 4 * TURNS * TURNS
MOVING, PORTS, BEATS = 1, 3, 2


def served() -> dict[str, list[int]]:
    """Cycles in which each asker was served, when all of them always want row 0."""
    dut = Sbuf(LITTLE, MOVING, PORTS, BEATS)
    m = Module()
    m.submodules.dut = dut
    askers: dict[str, Any] = {f"row {index}": getattr(dut, f"request_{index}") for index in range(PORTS)}
    askers |= {f"beat {index}": getattr(dut, f"beat_{index}") for index in range(BEATS)}
    found: dict[str, list[int]] = {name: [] for name in askers}

    async def ask(context: Any) -> None:
        for name, asker in askers.items():
            context.set(asker.valid, 1)
            if name.startswith("beat"):
                context.set(asker.payload.mask, 15)
        for cycle in range(CYCLES):
            for name, asker in askers.items():
                if context.get(asker.ready):
                    found[name].append(cycle)
            await context.tick()

    simulator = Simulator(m)
    simulator.add_clock(1e-6)  # type: ignore[no-untyped-call]  # the stubs leave it bare
    simulator.add_testbench(ask)
    simulator.run()  # type: ignore[no-untyped-call]
    return found


def longest(cycles: list[int]) -> int:
    """Cycles from one service to the next, or to the end of the run."""
    return max(after - before for before, after in zip([0, *cycles], [*cycles, CYCLES], strict=True))


def test_a_matmul_goes_first_and_nobody_waits_for_ever() -> None:
    found = served()
    assert sum(map(len, found.values())) == CYCLES, "the bank stood still, or served two at once"
    assert len(found["row 0"]) == CYCLES * (TURNS - 1) // TURNS
    for name in ("row 1", "row 2"):
        assert longest(found[name]) <= 3 * TURNS, name
    for name in ("beat 0", "beat 1"):
        assert longest(found[name]) <= 2 * TURNS * TURNS, name


def test_without_the_bound_beats_would_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdl.core.sbuf, "TURNS", CYCLES + 1)
    assert not served()["beat 0"]
