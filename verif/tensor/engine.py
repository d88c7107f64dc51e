"""Bench of the tensor engine: every result bit, every status and every cycle against golden."""

import itertools
from typing import Any

import numpy as np

from golden.tensor.array import Engine
from hdl.tensor import TensorEngine
from spec.formats import FLOATS
from spec.tensor import TensorConfig, operand_kind
from verif.harness.bench import Bench, Trial
from verif.harness.faults import check_notices_late
from verif.harness.stalls import STALLS
from verif.tensor import products
from verif.tensor.checker import COVER, STREAMS, Checker
from verif.tensor.stimulus import CLASSES, Program, Writer, overlapping, single_accumulations


def check(trial: Trial) -> None:
    """Values, statuses, cycles, stalls, hazards, reads, reset and refusals."""
    checker, config = Checker(trial), trial.config
    writer, rng = checker.writer, trial.rng
    rounds = 20 if trial.long else 3

    for kind in CLASSES:
        with trial.test(f"formats, operands {kind}"):
            for one, other in itertools.product(config.operands, repeat=2):
                if operand_kind(one) == operand_kind(other):
                    checker.check(_product(writer, kind, one, other))
            COVER.hit(operands=kind)
    with trial.test("random programs, full speed"):
        for _ in range(rounds):
            checker.check(writer.random(60))
    with trial.test("random programs with refusals, full speed"):
        for _ in range(rounds):
            checker.check(writer.random(60, errors=0.4))
    for name, stall in STALLS.items():
        for stream in STREAMS:
            with trial.test(f"{stream} stalls {name}"):
                checker.check(writer.random(20, errors=0.2), {stream: stall})
                COVER.hit(stall=name, stream=stream)
    with trial.test("every stream stalls"):
        for _ in range(rounds):
            chosen = {stream: STALLS[str(rng.choice(sorted(STALLS)))] for stream in STREAMS}
            checker.check(writer.random(60, errors=0.2), chosen)
    with trial.test("accumulation onto a location in flight waits"):
        checker.check(single_accumulations(writer, 12))
        checker.check(overlapping(writer, 12))
    with trial.test("products of any size"):
        products.products(checker)
    if config.sparsity:
        with trial.test("sparse products"):
            products.sparse_products(checker)
    if config.tiles > 1:
        with trial.test("small products side by side"):
            products.batches(checker)
    if config.bf16_results:
        with trial.test("stochastic rounding from any seed"):
            products.seeds(checker)
    with trial.test("convolutions"):
        products.convolutions(checker)
    with trial.test("reads beside accumulation"):
        _reads(checker)
    with trial.test("reset in mid-flight"):
        _resets(checker)
    with trial.test("steady state, and planted faults are noticed"):
        _steady(trial, checker)


def _product(writer: Writer, kind: str, one: str, other: str) -> Program:
    """Two passes over a whole bank, the second accumulated."""
    depth = writer.config.bank_depth
    return [
        writer.load(kind=kind, name=one),
        writer.matmul(depth, 0, kind=kind, name=other),
        writer.load(kind=kind, name=other),
        writer.matmul(depth, 0, accumulate=True, kind=kind, name=one),
    ]


def _reads(checker: Checker) -> None:
    """Locations that no running matmul touches can be read at any time, from the bank that accumulates too."""
    config, writer, depth = checker.config, checker.writer, checker.config.bank_depth
    labels = ("bank that accumulates", "bank at rest")[: config.psum_banks]
    for bank, label in enumerate(labels):
        before = [writer.load(), *(writer.matmul(depth, other * depth) for other in range(len(labels)))]
        _, engine = checker.check(before)
        quiet = bank * depth + depth // 2 + np.arange(depth // 2)
        program = [writer.matmul(depth // 2, 0, accumulate=True) for _ in range(4)]
        inputs = checker.driver.inputs(program) | {"reads": {"bank": quiet // depth, "offset": quiet % depth}}
        expect = {"status": len(program), "results": len(quiet)}
        run_both = checker.driver.model.run(inputs, expect=expect, stalls={"results": STALLS["half"]}, seed=bank)
        checker.results.compare(run_both.outputs["results"], checker.expected(engine)[quiet])
        for instruction, codes in program:
            engine.execute(instruction, codes)
        checker.check_psum(engine)
        COVER.hit(read=label)
    beyond = np.array([config.psum_banks]), np.array([0])
    missing = checker.driver.model.run({"reads": {"bank": beyond[0], "offset": beyond[1]}}, expect={"results": 1})
    assert not missing.fields("results")["written"].any(), "a bank that does not exist is said to be written"


def _resets(checker: Checker) -> None:
    """Cut a program anywhere: nothing of it is left, and the next program runs as ever."""
    writer, driver = checker.writer, checker.driver
    empty = Engine(checker.config)
    for cut in (1, 3, 7, 20, 45):
        program = writer.steady(8, checker.config.bank_depth)
        driver.model.run(driver.inputs(program), expect={"status": len(program)}, limit=cut)
        driver.model.run(resets=[(0, 1)], limit=1)
        late = driver.model.run(limit=checker.config.latency + 10)
        assert not len(late.outputs["status"]), "a status came out after reset"
        checker.check_psum(empty)
        checker.check(writer.random(20))
        COVER.hit(reset="loading" if cut < 3 else "multiplying")


def _steady(trial: Trial, checker: Checker) -> None:
    """A stationary for each matmul and no idle cycle; the same comparisons fail when a fault is planted."""
    config, writer = checker.config, checker.writer
    pairs = 40
    program = writer.steady(pairs, config.bank_depth)
    result, engine = checker.check(program)
    cycles = int(result.stamps["status"][-1] - result.stamps["requests"][0] + 1)
    trial.row.utilisation = pairs * config.bank_depth / cycles
    trial.notices("results", checker.layout, checker.expected(engine))
    check_notices_late(
        lambda late: checker.statuses.compare_cycles(late, result.stamps["status"]), result.stamps["status"]
    )


def _config(rows: int, columns: int, **more: Any) -> TensorConfig:
    return TensorConfig(rows=rows, columns=columns, **more)


EVERY_RATE = _config(
    8,
    2,
    formats=("fp8_e4m3fn", "fp8_e5m2", "fp4_e2m1"),
    double_row=True,
    microscaling=True,
    sparsity=True,
    load_columns=1,
    psum_banks=2,
    psum_bank_bytes=32,
    multiply_stages=1,
    add_stages=2,
)
"""Small, with every mode that is faster than a dense one."""

BENCH = Bench(
    "tensor.engine",
    block=TensorEngine,
    quick=(
        _config(
            3,
            3,
            formats=("bf16", "fp8_e4m3", "fp8_e4m3fn", "fp8_e5m2"),
            double_row=True,
            transpose=True,
            load_columns=2,
            hop_columns=2,
            psum_banks=3,
            psum_bank_bytes=32,
            multiply_stages=2,
            add_stages=1,
        ),
        _config(
            8,
            4,
            formats=tuple(FLOATS),
            load_columns=1,
            hop_columns=1,
            psum_banks=5,
            psum_bank_bytes=32,
            transpose=True,
            tiles=4,
            bf16_results=True,
            add_stages=3,
            queue_depth=3,
            whole_psum=True,
        ),
        EVERY_RATE,
    ),
    long=(
        _config(2, 2, load_columns=1, psum_banks=1, psum_bank_bytes=16),
        _config(6, 2, formats=("fp16",), load_columns=2, psum_bank_bytes=128, multiply_stages=3, add_stages=4),
        _config(8, 8, formats=("bf16", "fp8_e4m3fn", "fp8_e5m2", "fp8_e3m4", "fp4_e2m1"), psum_bank_bytes=256),
        _config(16, 16, psum_bank_bytes=256, hop_columns=4),
        _config(
            16,
            2,
            formats=tuple(FLOATS),
            double_row=True,
            microscaling=True,
            transpose=True,
            sparsity=True,
            tiles=2,
            bf16_results=True,
            whole_psum=True,
            load_columns=1,
            psum_banks=2,
            psum_bank_bytes=32,
            multiply_stages=1,
            add_stages=1,
        ),
    ),
    check=check,
    cover=COVER,
)
