import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdl.fifo import Fifo
from spec.fifo import FifoConfig
from tests.verif.harness_blocks import Adder, Fault, Relay, RelayConfig, WideConfig
from verif.harness.model import Model, ProtocolError
from verif.harness.pysim import simulate
from verif.harness.stalls import ALWAYS, STALLS


@pytest.fixture(scope="module")
def relay() -> Iterator[Model]:
    with Model(Relay(RelayConfig())) as model:
        yield model


def fields(count: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"tag": rng.integers(0, 8, count), "value": rng.integers(0, 1 << 16, (count, 2))}


@pytest.mark.parametrize("source", STALLS)
@pytest.mark.parametrize("sink", STALLS)
def test_every_item_arrives_once_and_in_order(relay: Model, source: str, sink: str) -> None:
    items = fields(100)
    run = relay.run({"i": items}, expect={"o": 100}, stalls={"i": STALLS[source], "o": STALLS[sink]}, seed=3)
    assert run.reason == "content"
    assert (run.fields("o")["tag"] == (items["tag"] + 1) % 8).all()
    assert (run.fields("o")["value"] == items["value"]).all()
    assert (run.stamps["o"] > run.stamps["i"]).all()


def test_full_speed_moves_an_item_every_cycle(relay: Model) -> None:
    run = relay.run({"i": fields(50)}, expect={"o": 50})
    assert run.stamps["i"].tolist() == list(range(50))
    assert run.stamps["o"].tolist() == list(range(1, 51))


@pytest.mark.parametrize("stall", ["never", "half", "bursts", "trickle"])
def test_amaranths_simulator_and_the_compiled_model_agree_in_every_cycle(stall: str) -> None:
    arguments: dict[str, Any] = {
        "inputs": {"i": fields(40)},
        "expect": {"o": 40},
        "stalls": {"i": STALLS["half"], "o": STALLS[stall]},
        "resets": [(30, 2)],
        "sample": ["taken"],
        "limit": 400,
        "seed": 11,
        "idle": 30,
    }
    with Model(Relay(RelayConfig())) as model:
        compiled = model.run(**arguments)
    interpreted = simulate(Relay(RelayConfig()), **arguments)
    assert (compiled.cycles, compiled.reason) == (interpreted.cycles, interpreted.reason)
    assert compiled.values("o") == interpreted.values("o")
    for name in ("i", "o"):
        assert compiled.stamps[name].tolist() == interpreted.stamps[name].tolist()
    assert compiled.sampled("taken").tolist() == interpreted.sampled("taken").tolist()


@pytest.mark.parametrize("fault", [Fault.WITHDRAW, Fault.CHANGE])
def test_a_broken_protocol_is_refused_by_both_simulators(relay: Model, fault: Fault) -> None:
    arguments: dict[str, Any] = {
        "inputs": {"i": [1]},
        "stalls": {"o": ALWAYS},
        "hold": {"fault": fault.value},
        "drive": {"trigger": [0] * 5 + [1]},
        "limit": 10,
        "idle": -1,
    }
    relay.power_on()
    with pytest.raises(ProtocolError, match=r"stream o .* in cycle 5"):
        relay.run(**arguments)
    with pytest.raises(ProtocolError, match=r"stream o .* in cycle 5"):
        simulate(Relay(RelayConfig()), **arguments)


def test_a_lost_item_ends_the_run_as_idle(relay: Model) -> None:
    relay.power_on()
    run = relay.run({"i": fields(9)}, expect={"o": 9}, hold={"fault": 3}, drive={"trigger": [0, 0, 1, 0]}, idle=20)
    assert run.reason == "idle"
    assert len(run.outputs["o"]) == 8


def test_reset_in_mid_flight_drops_what_is_inside_only(relay: Model) -> None:
    items = fields(20)
    run = relay.run({"i": items}, expect={"o": 19}, resets=[(5, 3)])
    arrived = run.fields("o")["value"].tolist()
    assert arrived == [*items["value"][:4].tolist(), *items["value"][5:].tolist()]
    assert not set(range(5, 8)) & {*run.stamps["i"].tolist(), *run.stamps["o"].tolist()}


def test_driven_inputs_and_sampled_outputs_are_wide_and_signed() -> None:
    rng = np.random.default_rng(5)
    a, b = ([int.from_bytes(rng.bytes(72)) for _ in range(10)] for _ in range(2))
    with Model(Adder(WideConfig())) as model:
        run = model.run(drive={"a": a, "b": b}, sample=["sum"], limit=10)
    lanes = [
        [(x >> 64 * lane) + (y >> 64 * lane) & (1 << 64) - 1 for lane in range(9)] for x, y in zip(a, b, strict=True)
    ]
    assert run.samples["sum"].view("<u8").tolist() == lanes


def test_outputs_nobody_counts_are_collected_without_limit(relay: Model) -> None:
    run = relay.run({"i": fields(5000)}, idle=20)
    assert len(run.outputs["o"]) == 5000


def test_unknown_names_are_refused_with_the_legal_ones(relay: Model) -> None:
    with pytest.raises(KeyError, match="has no x: legal is i, o, fault, trigger, taken"):
        relay.run({"x": [1]})


def test_waves_are_a_readable_fst_file(tmp_path: Path) -> None:
    path = tmp_path / "relay.fst"
    with Model(Relay(RelayConfig()), waves=path) as model:
        model.run({"i": fields(10)}, expect={"o": 10})
    assert b"o__payload" in _hierarchy(path.read_bytes())


def _hierarchy(content: bytes) -> bytes:
    """The hierarchy of an FST file, read by its published layout: blocks of type, big-endian length, body."""
    at = 0
    while at < len(content):
        kind, length = content[at], int.from_bytes(content[at + 1 : at + 9])
        if kind == 6:  # compressed with LZ4; ours are literals only
            body = content[at + 17 : at + 1 + length]
            size = int.from_bytes(content[at + 9 : at + 17])
            return _literals(body, size)
        at += 1 + length
    raise AssertionError("no hierarchy")


def _literals(block: bytes, size: int) -> bytes:
    at, count = 1, block[0] >> 4
    if count == 15:
        while True:
            count += block[at]
            at += 1
            if block[at - 1] != 255:
                break
    assert count == size
    assert len(block) == at + count
    return block[at:]


def test_a_small_block_runs_at_a_hundred_thousand_cycles_a_second() -> None:
    with Model(Fifo(FifoConfig(width=8, depth=2))) as model:
        items = np.zeros((300_000, 1), np.uint32)
        started = time.process_time()
        run = model.run({"i": items}, expect={"o": len(items)}, stalls={"o": STALLS["half"]})
        assert run.cycles / (time.process_time() - started) > 100_000
