"""Bench of the link layer: nothing lost, doubled or reordered at any bit error rate; every cycle equal to golden's."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.link.link import End
from hdl.link.link import LinkPair
from spec.link import LinkConfig
from verif.harness import counts
from verif.harness.bench import Bench, Trial
from verif.harness.model import Result
from verif.harness.packing import from_words, to_words
from verif.harness.stalls import STALLS

RATES = (0.0, 1e-4, 1e-3, 1e-2)
"""Bit error rates of the bench; the last is far beyond what the link is made for."""


COUNTERS = tuple(f"{name}__{number}" for number in range(2) for name in ("dead", "replays", "damaged"))
"""What is compared in every cycle beside payloads; ``damaged`` counts at the far end of its direction."""


@dataclasses.dataclass(frozen=True)
class Carried:
    """What a golden pair delivered: payloads and the cycle each stands at the output, by direction.

    ``counters``: ``[cycle, counter]`` as the pair shows them, in the order of :data:`COUNTERS`.
    """

    payloads: tuple[list[int], list[int]]
    stamps: tuple[list[int], list[int]]
    counters: NDArray[np.int64]
    ends: tuple[End, End]


def carry(
    config: LinkConfig, flips: tuple[list[int], list[int]], items: tuple[list[int], list[int]], cycles: int, cut: int
) -> Carried:
    """Run two golden ends, each offering its items at full speed; the wires die in cycle ``cut``."""
    ends = (End(config), End(config))
    wires = [[0] * config.wire_cycles for _ in ends]
    payloads: tuple[list[int], list[int]] = ([], [])
    stamps: tuple[list[int], list[int]] = ([], [])
    place = [0, 0]
    counters = []
    for cycle in range(cycles):
        pairs = (ends, ends[::-1])
        counters.append([int(n) for near, far in pairs for n in (near.dead, near.replays, far.damaged)])
        seen = []
        for number, end in enumerate(ends):
            wires[number].insert(0, end.transmit)
            seen.append(0 if cycle >= cut else wires[number].pop() ^ flips[number][cycle])
            if cycle >= cut:
                wires[number] = wires[number][: config.wire_cycles]
        for number, end in enumerate(ends):
            offer = items[number][place[number]] if end.ready and place[number] < len(items[number]) else None
            place[number] += offer is not None
            output = end.step(seen[1 - number], offer)
            if output is not None and cycle + 1 < cycles:
                payloads[1 - number].append(output)
                stamps[1 - number].append(cycle + 1)
    return Carried(payloads, stamps, np.array(counters), ends)


def flips(rng: np.random.Generator, config: LinkConfig, rate: float, cycles: int) -> list[int]:
    """Random bit errors of each frame."""
    errors: NDArray[Any] = np.packbits(rng.random((cycles, config.frame_bits)) < rate, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in errors]


def check(trial: Trial) -> None:
    """Error rates, stalls, a burst that hits every frame for a while, a broken cable."""
    config: LinkConfig = trial.config
    cycles = 20_000 if trial.long else 2_000
    model = trial.model()
    random = trial.rng
    count = cycles
    size = -(-config.payload_bits // 8)
    whole = (1 << config.payload_bits) - 1
    items = tuple([int.from_bytes(random.bytes(size), "little") & whole for _ in range(count)] for _ in range(2))
    for rate in RATES:
        with trial.test(f"bit error rate {rate}: golden's payloads in golden's cycles"):
            errors = (flips(random, config, rate, cycles), flips(random, config, rate, cycles))
            golden = carry(config, errors, (items[0], items[1]), cycles, cycles)
            run = _run(model, config, errors, (items[0], items[1]), cycles)
            for direction in range(2):
                board = trial.scoreboard(f"o__{direction}", config.payload_bits)
                words = to_words(golden.payloads[direction], config.payload_bits)
                board.compare(run.outputs[f"o__{direction}"], words)
                board.compare_cycles(run.stamps[f"o__{direction}"], golden.stamps[direction])
                received = from_words(run.outputs[f"o__{direction}"])
                # Beyond that rate, errors that a check sum of 8 bits misses are to be expected.
                if rate <= 1e-3:
                    assert received, "nothing arrived"
                    assert received == items[direction][: len(received)], "a payload was lost, doubled or out of order"
            _same_counters(run, golden)
            trial.row.figures[f"payloads a cycle at error rate {rate}"] = len(run.outputs["o__0"]) / cycles
    for name, stall in STALLS.items():
        with trial.test(f"source stalls {name}, error rate 1e-3: everything arrives"):
            errors = (flips(random, config, 1e-3, cycles), flips(random, config, 1e-3, cycles))
            few = items[0][: cycles // 40]
            model.power_on()
            drive = {f"flips__{n}": errors[n] for n in range(2)}
            run = model.run(
                {"i__0": to_words(few, config.payload_bits)},
                expect={"o__0": len(few)},
                stalls={"i__0": stall},
                drive=drive,
                limit=50 * cycles,
                seed=trial.seed,
            )
            trial.scoreboard("o__0", config.payload_bits).compare(
                run.outputs["o__0"], to_words(few, config.payload_bits)
            )
    with trial.test("a storm that damages every frame for two timeouts loses nothing"):
        storm = [1 if 100 <= cycle < 100 + 2 * config.timeout else 0 for cycle in range(cycles)]
        run = _run(model, config, (storm, storm), (items[0][:200], items[1][:200]), cycles)
        assert from_words(run.outputs["o__0"]) == items[0][:200]
        assert from_words(run.outputs["o__1"]) == items[1][:200]
    with trial.test("a broken cable is reported, and nobody hangs"):
        model.power_on()
        limit = 200 + (config.retries + 2) * config.timeout
        run = model.run(
            {"i__0": to_words(items[0][:count], config.payload_bits)},
            drive={"cut": [int(cycle >= 100) for cycle in range(limit)]},
            sample=COUNTERS,
            limit=limit,
            tail=limit,
        )
        clean = [0] * limit
        golden = carry(config, (clean, clean), (items[0][:count], []), limit, 100)
        _same_counters(run, golden)
        dead = run.sampled("dead__0")
        assert not dead[: config.retries * config.timeout].any(), "declared dead too early"
        assert dead[-1], "not declared dead"
        assert len(run.stamps["i__0"]) > config.window + 100, "the sender stopped taking"
    with trial.test("a counter that is off by one in one cycle is noticed"), counts.paused():
        golden.counters[limit // 2, 1] += 1
        try:
            _same_counters(run, golden)
        except AssertionError:
            return
        raise AssertionError("it was not")


def _run(model: Any, config: LinkConfig, errors: Any, items: Any, cycles: int) -> Any:
    model.power_on()
    return model.run(
        {f"i__{n}": to_words(items[n], config.payload_bits) for n in range(2)},
        drive={f"flips__{n}": errors[n] for n in range(2)},
        limit=cycles,
        tail=cycles,
        expect={f"o__{n}": cycles for n in range(2)},
        sample=COUNTERS,
    )


def _same_counters(run: Result, golden: Carried) -> None:
    """Counters and the mark of a dead link are golden's in every cycle."""
    found = np.stack([run.sampled(name).astype(np.int64) for name in COUNTERS], 1)
    wrong = np.argwhere(found != golden.counters)
    counts.add(found.size, len(wrong))
    if len(wrong):
        cycle, index = (int(n) for n in wrong[0])
        raise AssertionError(
            f"cycle {cycle}: {COUNTERS[index]} is {found[cycle, index]}, golden has {golden.counters[cycle, index]}"
        )


BENCH = Bench(
    "link.link",
    block=LinkPair,
    quick=(LinkConfig(), LinkConfig(payload_bits=7, sequence_bits=3, crc_bits=8, wire_cycles=0, timeout=9, retries=3)),
    long=(LinkConfig(payload_bits=200, sequence_bits=6, crc_bits=32, wire_cycles=11, timeout=100),),
    check=check,
)
