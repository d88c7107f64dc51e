"""Bench of the scalar engine: every function, instruction, format and status, bit for bit and cycle for cycle."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from golden.scalar.activation import Instruction, ScalarEngine, constants_of, rows_of
from hdl.scalar.engine import ScalarEngine as Hardware
from spec.functions import FUNCTIONS
from spec.scalar import OPCODES, REDUCE_COMMANDS, STATUS, ScalarConfig
from spec.vector import ELEMENT_FORMATS
from verif.harness.bench import Bench, Trial
from verif.harness.coverage import CoverGroup
from verif.harness.faults import check_notices_late
from verif.harness.model import Result
from verif.harness.packing import Words
from verif.harness.stalls import STALLS
from verif.numerics.words import fp32_words
from verif.scalar.programs import (
    Expected,
    constants,
    expected,
    fields,
    operands_of,
    random_instruction,
    takes_operand,
)

QUIET = 200
"""Cycles without a transfer after which a run has ended."""


FEW = ("copy", "exp", "rsqrt", "gelu")

COVER = CoverGroup(
    "scalar.engine",
    {
        "opcode": tuple(OPCODES),
        "function": tuple(FUNCTIONS),
        "input": ELEMENT_FORMATS,
        "output": ELEMENT_FORMATS,
        "argument": ("zero", "subnormal", "normal", "infinite", "nan"),
        "sign": ("positive", "negative"),
        "saturate": (False, True),
        "reduce": tuple(REDUCE_COMMANDS),
        "constants": (0, 1, 2),
        "rows": ("1", "2 to 20", "more"),
        "stalled": ("no", "yes"),
        "status": tuple(STATUS),
    },
    [("opcode", "reduce"), ("opcode", "stalled"), ("rows", "stalled"), ("function", "argument"), ("argument", "sign")],
)


class Engine:
    """The compiled engine and golden side by side; both start from reset."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.config = trial, trial.config
        self.model = trial.model()
        self.rows = trial.scoreboard("results", self.model.design.streams["results"].shape)
        self.codes = trial.scoreboard("status", self.model.design.streams["status"].shape)

    def run(self, program: Sequence[Instruction], **options: Any) -> tuple[Result, Expected]:
        """Run a program from reset on both and compare bits; cycles too if no stream stalls."""
        operands = [operands_of(self.config, entry, self.trial.rng) for entry in program]
        golden = expected(self.config, program, operands)
        self.model.run({}, resets=[(0, 1)], limit=2)
        run = self.model.run(
            {
                "instructions": fields(self.config, program),
                "constants": constants(self.config, program),
                "operands": stacked(self.config, operands),
            },
            expect={"results": len(golden.rows), "status": len(program)},
            idle=QUIET,
            **options,
        )
        self.rows.compare(run.outputs["results"], golden.rows)
        self._cover(program, golden, operands, options.get("stalls"))
        self.codes.compare(run.outputs["status"], np.array(golden.statuses, np.uint32)[:, None])
        if "stalls" not in options:
            self.rows.compare_cycles(run.stamps["results"], golden.row_cycles)
            self.codes.compare_cycles(run.stamps["status"], golden.status_cycles)
        return run, golden

    def _cover(self, program: Sequence[Instruction], golden: Expected, operands: Sequence[Words], stalls: Any) -> None:
        """Note what the program met."""
        for entry, code, operand in zip(program, golden.statuses, operands, strict=True):
            status = list(STATUS)[code]
            COVER.hit(status=status)
            if status != "done":
                continue
            rows = rows_of(entry)
            COVER.hit(
                opcode=entry.opcode,
                reduce=entry.reduce,
                output=entry.output_format,
                constants=constants_of(entry),
                rows="1" if rows == 1 else "2 to 20" if rows <= 20 else "more",
                stalled="yes" if stalls else "no",
            )
            COVER.hit(saturate=entry.saturate)
            if entry.opcode == "activation":
                COVER.hit(function=entry.function)
                _cover_arguments(entry, operand)
            if entry.opcode != "read_accumulator":
                COVER.hit(input=entry.input_format)


def _cover_arguments(entry: Instruction, operand: Words) -> None:
    """The kinds of numbers a function met, where they reach it as they are."""
    if (
        entry.input_format != "fp32"
        or np.ndim(entry.scale)
        or np.ndim(entry.bias)
        or entry.scale != 1
        or entry.bias != 0
    ):
        return
    magnitude = operand & np.uint32(0x7FFFFFFF)
    edges = np.array([1, 0x800000, 0x7F800000, 0x7F800001])
    kinds = COVER.points["argument"]
    for kind, sign in np.unique(
        np.stack([np.searchsorted(edges, magnitude.ravel(), "right"), operand.ravel() >> 31]), axis=1
    ).T:
        COVER.hit(function=entry.function, argument=kinds[kind], sign=("positive", "negative")[sign])


def stacked(config: ScalarConfig, operands: Sequence[Words]) -> Words:
    """Rows of all instructions as one stream."""
    return np.concatenate([np.zeros((0, config.lanes), np.uint32), *operands])


def check(trial: Trial) -> None:
    """Functions, instructions, formats, errors, stalls, reset."""
    config: ScalarConfig = trial.config
    engine = Engine(trial)
    count = 20_000 if trial.long else 600
    for name in config.functions:
        with trial.test(f"function {name}"):
            engine.run([Instruction(function=name, length=count, alpha=-0.75)])
    for name in config.formats:
        with trial.test(f"format {name}"):
            both: dict[str, Any] = {"input_format": name, "output_format": name}
            engine.run(
                [
                    Instruction(**both, length=150, scale=1.5, bias=0.25),
                    Instruction(**both, length=50, saturate=True),
                    Instruction(opcode="tensor_copy", **both, length=50),
                ]
            )
    for command in REDUCE_COMMANDS:
        with trial.test(f"accumulate: {command}"):
            engine.run(_accumulate(command))
    with trial.test("per-lane scale and bias"):
        one = np.linspace(-2, 3, config.lanes, dtype=np.float32)
        engine.run(
            [Instruction(length=9, scale=one, bias=-one), Instruction(length=3, bias=one), *_accumulate("reset")]
        )
    with trial.test("scale and bias of every size"):
        rows = fp32_words(trial.rng, (200, 2, config.lanes)).view(np.float32)
        engine.run([Instruction(opcode="tensor_scalar", length=5, scale=scale, bias=bias) for scale, bias in rows])
    with trial.test("sums of every size"):
        pair = [Instruction(length=3, reduce="reset_reduce"), Instruction(opcode="read_accumulator", length=1)]
        engine.run(pair * 200)
    with trial.test("back to back: as many cycles as rows"):
        run, golden = engine.run([Instruction(length=1 + number % 7) for number in range(40)])
        trial.row.utilisation = len(golden.rows) / (run.stamps["results"][-1] - run.stamps["results"][0] + 1)
    with trial.test("every status"):
        engine.run([*_wrong(config), Instruction(length=2)])
    for number in range(60 if trial.long else 8):
        with trial.test(f"random program {number}"):
            engine.run([random_instruction(config, trial.rng, 40) for _ in range(25)])
    for name, stall in STALLS.items():
        with trial.test(f"stalls: {name}"):
            streams = engine.model.design.streams
            engine.run(
                [random_instruction(config, trial.rng, 30) for _ in range(12)],
                stalls=dict.fromkeys(streams, stall),
                seed=trial.seed,
            )
    with trial.test("reset in mid-instruction"):
        _reset(trial, engine)
    with trial.test("planted faults are noticed"):
        run, golden = engine.run([Instruction(function="copy", length=40, output_format="fp32")])
        trial.notices("results", engine.rows.shape, golden.rows)
        check_notices_late(lambda late: engine.rows.compare_cycles(late, golden.row_cycles), run.stamps["results"])
    trial.row.figures["latency [cycles]"] = config.latency
    assert engine.rows.compared > count * len(config.functions), "the bench compared less than it meant to"


def _accumulate(command: str) -> list[Instruction]:
    read = Instruction(opcode="read_accumulator", length=1)
    first = Instruction(length=5, reduce="reset_reduce")
    return [first, Instruction(length=6, reduce=command), read, dataclasses.replace(read, output_format="bf16")]


def _wrong(config: ScalarConfig) -> list[Instruction]:
    """One instruction for each error, two of length, and one that is wrong in two ways."""
    good = Instruction(length=2)
    wrong = [
        dataclasses.replace(good, opcode="?"),
        dataclasses.replace(good, function="?"),
        dataclasses.replace(good, input_format="?"),
        dataclasses.replace(good, output_format="?"),
        dataclasses.replace(good, length=0),
        dataclasses.replace(good, length=(1 << 16) + 1),
        dataclasses.replace(good, function="?", length=0),
    ]
    assert len(wrong) >= len(STATUS) - 1
    assert len(OPCODES) < 7
    return wrong


def _reset(trial: Trial, engine: Engine) -> None:
    """A reset at several distances into an instruction; the next program starts from clear accumulators."""
    config = engine.config
    long = Instruction(length=60, reduce="reduce")
    for cycle in (1, 3, 9, config.latency, config.latency + 20):
        operand = operands_of(config, long, trial.rng)
        engine.model.run(
            {"instructions": fields(config, [long]), "operands": operand}, resets=[(cycle, 1)], limit=cycle + 2
        )
        engine.run([Instruction(opcode="read_accumulator", length=1), Instruction(length=4, reduce="reduce")])
    assert takes_operand(config, long)
    assert ScalarEngine(config).accumulators.sum() == 0


BENCH = Bench(
    "scalar.engine",
    block=Hardware,
    quick=(
        ScalarConfig(lanes=2),
        ScalarConfig(
            lanes=1,
            functions=FEW,
            formats=("fp32", "bf16"),
            multiply_stages=2,
            add_stages=2,
        ),
    ),
    long=(ScalarConfig(lanes=3),),
    check=check,
    cover=COVER,
)
