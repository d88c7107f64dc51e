"""Bench of the stream FIFO: every payload once, in order, at the cycle the class promises."""

from hdl.fifo import Fifo
from spec.fifo import FifoConfig
from verif.harness.bench import Bench, Trial
from verif.harness.coverage import CoverGroup
from verif.harness.faults import check_notices_late
from verif.harness.packing import to_words
from verif.harness.stalls import ALWAYS, STALLS

COVER = CoverGroup(
    "fifo",
    {"source": tuple(STALLS), "sink": tuple(STALLS), "level": ("empty", "full"), "reset": ("full",)},
    crosses=[("source", "sink")],
)


def check(trial: Trial) -> None:
    """Order and completeness under every pair of stalls, latency and rate at full speed, reset in mid-flight."""
    config: FifoConfig = trial.config
    board = trial.scoreboard("o", config.width)
    model = trial.model()
    count = 2_000 if trial.long else 200
    items = to_words([int.from_bytes(trial.rng.bytes(config.width // 8 + 1)) for _ in range(count)], config.width)
    for source, into in STALLS.items():
        for sink, out in STALLS.items():
            with trial.test(f"source {source}, sink {sink}"):
                run = model.run({"i": items}, expect={"o": count}, stalls={"i": into, "o": out}, seed=trial.seed)
                board.compare(run.outputs["o"], items)
                COVER.hit(source=source, sink=sink)

    with trial.test("latency 1, full speed from depth 2"):
        run = model.run({"i": items}, expect={"o": count})
        pace = 2 if config.depth == 1 else 1
        board.compare_cycles(run.stamps["o"], [pace * index + 1 for index in range(count)])
        trial.row.utilisation = count / (run.stamps["o"][-1] + 1)

    with trial.test("planted faults are noticed"):
        trial.notices("o", config.width, items)
        check_notices_late(lambda late: board.compare_cycles(late, run.stamps["o"]), run.stamps["o"])

    with trial.test("takes exactly depth payloads without a reader"):
        run = model.run({"i": items}, idle=10, stalls={"o": ALWAYS}, sample=["level"], limit=config.depth + 20)
        assert len(run.stamps["i"]) == min(config.depth, count), f"took {len(run.stamps['i'])} of {config.depth}"
        assert run.sampled("level").max() == min(config.depth, count)
        assert run.sampled("level")[0] == 0
        COVER.hit(level="empty")
        COVER.hit(level="full")

    with trial.test("reset in mid-flight empties it"):
        run = model.run({}, resets=[(3, 1)], stalls={"o": ALWAYS}, sample=["level"], limit=6)
        assert run.sampled("level")[0] == config.depth
        assert run.sampled("level")[-1] == 0
        COVER.hit(reset="full")
        run = model.run({"i": items[:1]}, expect={"o": 1})
        board.compare(run.outputs["o"], items[:1])
    assert board.compared >= 36 * count, "the bench compared less than it meant to"


def _configs(*pairs: tuple[int, int]) -> tuple[FifoConfig, ...]:
    return tuple(FifoConfig(width=width, depth=depth) for width, depth in pairs)


BENCH = Bench(
    "fifo",
    block=Fifo,
    quick=_configs((8, 1), (35, 2), (16, 5)),
    long=_configs((1, 1), (64, 3), (100, 16), (1024, 33)),
    cocotb="verif.test_fifo",
    check=check,
    cover=COVER,
)
