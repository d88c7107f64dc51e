"""Bench of the vector engine: every instruction, operation, format and status, bit for bit and cycle for cycle."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from golden.vector.instructions import NO_OPERANDS, OPERATION_USERS, TWO_OPERANDS, Instruction, constants_of, error_of
from hdl.vector.engine import VectorEngine
from spec.tables import pattern
from spec.vector import (
    ELEMENT_FORMATS,
    KEEP,
    MX_ELEMENTS,
    OPCODES,
    OPERATIONS,
    PACKABLE,
    REDUCE_COMMANDS,
    SEARCHES,
    STATUS,
    VectorConfig,
)
from verif.harness.bench import Bench, Trial
from verif.harness.coverage import CoverGroup
from verif.harness.faults import check_notices_late
from verif.harness.model import Result
from verif.harness.packing import pack_array
from verif.harness.stalls import STALLS
from verif.vector.programs import Expected, constants, expected, fields, operands, random_instruction

QUIET = 200
"""Cycles without a transfer after which a run has ended."""


COVER = CoverGroup(
    "vector.engine",
    {
        "opcode": tuple(OPCODES),
        "op0": tuple(OPERATIONS),
        "op1": tuple(OPERATIONS),
        "reverse0": (False, True),
        "left": ELEMENT_FORMATS,
        "right": ELEMENT_FORMATS,
        "output": ELEMENT_FORMATS,
        "rounding": ("nearest", "stochastic"),
        "reduce": REDUCE_COMMANDS,
        "constants": (0, 1, 2),
        "packed": (0, 1, 2),
        "last": ("op0", "op1"),
        "rows": ("1", "2 to 20", "more"),
        "stalled": ("no", "yes"),
        "status": STATUS,
    },
    [("op0", "reverse0"), ("opcode", "stalled"), ("constants", "stalled"), ("rows", "stalled")],
)


class Engine:
    """The compiled engine and golden side by side; both start from reset."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.config = trial, trial.config
        self.model = trial.model()
        self.shape = self.model.design.streams["results"].shape
        self.rows = trial.scoreboard("results", self.shape)
        self.codes = trial.scoreboard("status", self.model.design.streams["status"].shape)

    def run(self, program: Sequence[Instruction], **options: Any) -> tuple[Result, Expected, Any]:
        """Run a program from reset on both and compare bits; cycles too if no stream stalls."""
        inputs = [operands(self.config, entry, self.trial.rng) for entry in program]
        golden = expected(self.config, program, inputs)
        self.model.run({}, resets=[(0, 1)], limit=2)
        run = self.model.run(
            {
                "instructions": fields(self.config, program),
                "constants": constants(self.config, program),
                "left": np.concatenate([left for left, _ in inputs]),
                "right": np.concatenate([right for _, right in inputs]),
            },
            expect={"results": len(golden.rows), "status": len(program)},
            idle=QUIET,
            **options,
        )
        written = golden.written @ (1 << np.arange(self.config.lanes))
        content = {"row": golden.rows & np.uint64(0xFFFFFFFF), "written": written}
        if self.config.ways == 4:
            content["more"] = golden.rows >> np.uint64(32)
        rows = pack_array(self.shape, content)
        self.rows.compare(run.outputs["results"], rows)
        self._cover(program, golden, options.get("stalls"))
        self.codes.compare(run.outputs["status"], np.array(golden.statuses, np.uint32)[:, None])
        if "stalls" not in options:
            self.rows.compare_cycles(run.stamps["results"], golden.row_cycles)
            self.codes.compare_cycles(run.stamps["status"], golden.status_cycles)
        return run, golden, rows

    def _cover(self, program: Sequence[Instruction], golden: Expected, stalls: Any) -> None:
        """Note what the program met."""
        for entry, code in zip(program, golden.statuses, strict=True):
            COVER.hit(status=STATUS[code])
            if STATUS[code] != "done":
                continue
            COVER.hit(
                opcode=entry.opcode,
                constants=len(constants_of(entry)),
                packed=entry.packed,
                rows="1" if entry.length == 1 else "2 to 20" if entry.length <= 20 else "more",
                stalled="yes" if stalls else "no",
            )
            if entry.opcode in OPERATION_USERS:
                COVER.hit(op0=entry.op0, reverse0=entry.reverse0)
                if entry.opcode != "tensor_tensor":
                    COVER.hit(op1=entry.op1)
                for side, name in (("op0", entry.op0), ("op1", entry.op1)):
                    if OPERATIONS[name].last:
                        COVER.hit(last=side)
            if entry.opcode not in NO_OPERANDS:
                COVER.hit(left=entry.left_format)
            if entry.opcode in TWO_OPERANDS:
                COVER.hit(right=entry.right_format)
            if entry.opcode != "set_seed":
                COVER.hit(output=entry.output_format, rounding="stochastic" if entry.stochastic else "nearest")
            if entry.opcode in ("select_reduce", "range_select"):
                COVER.hit(reduce=entry.reduce)


def check(trial: Trial) -> None:
    """Operations, instructions, formats, errors, stalls, reset."""
    config: VectorConfig = trial.config
    engine = Engine(trial)
    count = 20_000 if trial.long else 300
    for name in OPERATIONS:
        with trial.test(f"operation {name}"):
            pair = Instruction(opcode="tensor_tensor", op0=name, length=count)
            second = Instruction(opcode="scalar_tensor_tensor", op1=name, c0=pattern(2.5), length=40)
            engine.run([pair, dataclasses.replace(pair, reverse0=True, length=40), second])
    for name, entry in OPERATIONS.items():
        if entry.reduces:
            with trial.test(f"reduce by {name}"):
                reduce = Instruction(opcode="tensor_reduce", op1=name, length=60, group=7)
                engine.run(
                    [reduce, dataclasses.replace(reduce, group=0, negate=True), dataclasses.replace(reduce, group=1)]
                )
                engine.run([Instruction(opcode="tensor_tensor_scan", op0=name, op1=name, length=50, c0=pattern(1.5))])
    for name in config.formats:
        with trial.test(f"format {name}"):
            both: dict[str, Any] = {"left_format": name, "right_format": name, "output_format": name}
            engine.run(
                [
                    Instruction(opcode="tensor_tensor", op0="add", **both, length=150),
                    Instruction(opcode="tensor_tensor", op0="multiply", **both, length=60, stochastic=True),
                    Instruction(opcode="tensor_tensor", op0="bitwise_xor", **both, length=60),
                    Instruction(opcode="tensor_copy", **both, length=60),
                    Instruction(opcode="tensor_copy_predicated", **both, length=60),
                    Instruction(opcode="reciprocal", **both, length=60, saturate=True),
                ]
            )
    opcodes = [name for name in OPCODES if name != "quantize_mx" or set(config.formats) & set(MX_ELEMENTS)]
    for opcode in opcodes:
        with trial.test(f"instruction {opcode}"):
            engine.run(_variants(trial, opcode))
    with trial.test("shuffle: reversed lanes, one kept"):
        mask = np.arange(config.lanes, dtype=np.uint32)[::-1].copy()
        mask[0] = KEEP
        engine.run([Instruction(opcode="nc_stream_shuffle", c0=mask, length=20)])
    with trial.test("power and rsqrt where they may stand"):
        engine.run(_powers(trial))
    for length in (1, 2, 3, 21, 512):
        with trial.test(f"statistics of {length}"):
            stats = Instruction(opcode="bn_stats", length=length)
            aggregate = Instruction(opcode="bn_aggr", length=3 * length)
            engine.run([stats, aggregate, stats, dataclasses.replace(stats, output_format="bf16"), aggregate])
    for name in config.formats:
        if name in MX_ELEMENTS:
            with trial.test(f"blocks of {name}"):
                quantize = Instruction(opcode="quantize_mx", output_format=name, length=80)
                engine.run([quantize, dataclasses.replace(quantize, length=4, left_format=config.formats[0])])
    with trial.test("blocks transposed"):
        block = Instruction(opcode="nc_transpose", length=3 * config.block)
        one = dataclasses.replace(block, length=config.block, output_format=config.formats[-1])
        engine.run([block, one, block, Instruction(opcode="memset", length=2), block])
    with trial.test("packed: as many elements a cycle as there are ways"):
        engine.run(_packed(trial))
    for name in SEARCHES:
        with trial.test(f"{name}: many equal elements"):
            search = Instruction(
                opcode=name, left_format="fp8_e4m3" if "fp8_e4m3" in config.formats else "bf16", length=90
            )
            engine.run([search, dataclasses.replace(search, length=3), dataclasses.replace(search, left_format="fp32")])
    for command in REDUCE_COMMANDS:
        with trial.test(f"accumulate: {command}"):
            select = Instruction(opcode="select_reduce", c0=pattern(0.5), length=9, reduce="reset_reduce")
            read = Instruction(opcode="read_accumulator", length=1)
            engine.run([select, dataclasses.replace(select, reduce=command), read])
    with trial.test("one and two operands take as many cycles as rows"):
        run, golden, _ = engine.run(
            [Instruction(opcode="tensor_tensor", op0="add", length=n % 5 + 1) for n in range(40)]
        )
        trial.row.utilisation = len(golden.rows) / (run.stamps["results"][-1] - run.stamps["results"][0] + 1)
    with trial.test("every status"):
        engine.run(_wrong(config))
    for number in range(60 if trial.long else 8):
        with trial.test(f"random program {number}"):
            engine.run(_random(trial, 25))
    for name, stall in STALLS.items():
        with trial.test(f"stalls: {name}"):
            streams = engine.model.design.streams
            program = [_legal(trial, opcode) for opcode in trial.rng.permutation(opcodes)]
            engine.run(program, stalls=dict.fromkeys(streams, stall), seed=trial.seed)
    with trial.test("reset in mid-instruction"):
        _reset(engine)
    with trial.test("planted faults are noticed"):
        run, golden, rows = engine.run([Instruction(opcode="tensor_copy", length=40)])
        trial.notices("results", engine.shape, rows)
        check_notices_late(lambda late: engine.rows.compare_cycles(late, golden.row_cycles), run.stamps["results"])
    trial.row.figures["latency [cycles]"] = config.latency
    assert engine.rows.compared > count * len(OPERATIONS), "the bench compared less than it meant to"


def _random(trial: Trial, count: int) -> list[Instruction]:
    return [random_instruction(trial.config, trial.rng, 30) for _ in range(count)]


def _legal(trial: Trial, opcode: str) -> Instruction:
    """A random instruction of one kind that is not refused."""
    while True:
        entry = random_instruction(trial.config, trial.rng, 30, opcode)
        if error_of(trial.config, entry) == "done":
            return entry


def _variants(trial: Trial, opcode: str) -> list[Instruction]:
    """Random instructions of one kind, with constants in each form, and one element."""
    found = [_legal(trial, opcode) for _ in range(6)]
    rows = trial.rng.normal(0, 4, (2, trial.config.lanes)).astype(np.float32).view(np.uint32)
    one = dataclasses.replace(found[0], c0=rows[0], c1=7, length=1, group=0)
    return [
        *found,
        one,
        dataclasses.replace(found[1], c0=rows[0], c1=rows[1]),
        dataclasses.replace(found[2], c0=pattern(1.5), c1=rows[1]),
        dataclasses.replace(found[3], c0=5, c1=3),
    ]


def _powers(trial: Trial) -> list[Instruction]:
    """As first and as second operation, in both orders, with each kind of exponent."""
    row = trial.rng.normal(0, 2, trial.config.lanes).astype(np.float32).view(np.uint32)
    found = []
    for name in ("power", "rsqrt"):
        scalar = Instruction(opcode="tensor_scalar", op0="multiply", op1=name, c0=pattern(3), c1=row, length=50)
        tensor = Instruction(opcode="scalar_tensor_tensor", op0="add", op1=name, c0=row, length=50)
        first = Instruction(opcode="tensor_scalar", op0=name, c0=pattern(-1.5), length=50)
        pair = Instruction(opcode="tensor_tensor", op0=name, length=50)
        for entry in (scalar, tensor, first, pair, dataclasses.replace(first, opcode="scalar_tensor_tensor")):
            side = "reverse0" if OPERATIONS[entry.op0].last else "reverse1"
            found += [entry, dataclasses.replace(entry, **{side: True})]  # type: ignore[arg-type]  # a flag
    return found


def _packed(trial: Trial) -> list[Instruction]:
    """Each instruction that packs with each number of ways, legal or not for the engine."""
    names = [name for name in trial.config.formats if name in ("bf16", "fp16", "int16", "uint16")] or ["bf16"]
    row = trial.rng.normal(0, 2, trial.config.lanes).astype(np.float32).view(np.uint32)
    found = []
    for opcode in PACKABLE:
        for packed in (1, 2):
            for op0, op1, c0 in (("add", "multiply", row), ("bitwise_xor", "int_add", 0x1234), ("max", "bypass", row)):
                left, right, target = (str(name) for name in trial.rng.choice(names, 3))
                found.append(
                    Instruction(
                        opcode=opcode,
                        op0=op0,
                        op1=op1,
                        reverse0=bool(trial.rng.integers(2)),
                        left_format=left,
                        right_format=right,
                        output_format=target,
                        c0=c0,
                        c1=pattern(1.5),
                        length=48,
                        packed=packed,
                        saturate=bool(trial.rng.integers(2)),
                    )
                )
    return found


def _wrong(config: VectorConfig) -> list[Instruction]:
    """Instructions for each error, and one that is wrong in two ways."""
    good = Instruction(opcode="tensor_tensor", op0="add", length=2)
    pack = Instruction(opcode="tensor_copy", left_format="bf16", output_format="bf16", length=4, packed=1)
    wrong = [
        dataclasses.replace(good, opcode="?"),
        dataclasses.replace(good, op0="?"),
        dataclasses.replace(good, opcode="tensor_scalar", op0="add", op1="bitwise_or"),
        dataclasses.replace(good, opcode="tensor_reduce", op1="is_equal"),
        dataclasses.replace(good, opcode="range_select"),
        dataclasses.replace(good, right_format="?"),
        dataclasses.replace(good, output_format="?"),
        dataclasses.replace(good, length=0),
        dataclasses.replace(good, opcode="tensor_reduce", op1="add", group=3),
        dataclasses.replace(good, op0="?", length=0),
        dataclasses.replace(good, op0="power", op1="add"),
        dataclasses.replace(good, op0="rsqrt", reverse1=True),
        dataclasses.replace(good, opcode="tensor_reduce", op0="rsqrt", op1="add"),
        dataclasses.replace(good, opcode="tensor_tensor_scan", op0="add", op1="power"),
        dataclasses.replace(good, opcode="tensor_tensor", op0="add", op1="power"),
        dataclasses.replace(good, opcode="quantize_mx", length=4),
        dataclasses.replace(good, opcode="bn_stats", length=513),
        *(dataclasses.replace(good, opcode="bn_aggr", length=length) for length in (1, 2, 4, 5, 65534)),
        dataclasses.replace(good, opcode="nc_transpose", length=config.block + (config.block > 1)),
        dataclasses.replace(pack, packed=3, length=8),
        dataclasses.replace(pack, length=3),
        dataclasses.replace(pack, stochastic=True),
        dataclasses.replace(pack, output_format="fp32"),
        dataclasses.replace(pack, left_format="fp32"),
        dataclasses.replace(pack, opcode="reciprocal"),
        dataclasses.replace(pack, opcode="tensor_tensor", right_format="fp32"),
        dataclasses.replace(pack, opcode="tensor_tensor", right_format="bf16", packed=2),
        dataclasses.replace(pack, opcode="tensor_scalar", op1="rsqrt"),
    ]
    assert len(wrong) >= len(STATUS) - 1
    return [*wrong, good]


def _reset(engine: Engine) -> None:
    """A reset at several distances into an instruction; the next program starts afresh."""
    config = engine.config
    long = Instruction(opcode="tensor_reduce", op1="add", length=60)
    for cycle in (1, 3, config.latency, config.latency + 20):
        left, _ = operands(config, long, engine.trial.rng)
        engine.model.run({"instructions": fields(config, [long]), "left": left}, resets=[(cycle, 1)], limit=cycle + 2)
        engine.run([Instruction(opcode="read_accumulator", length=1), Instruction(opcode="rng", length=2), long])


BENCH = Bench(
    "vector.engine",
    block=VectorEngine,
    quick=(VectorConfig(lanes=2, ways=4), VectorConfig(lanes=1, formats=("bf16", "fp32", "int32"), operation_stages=2)),
    long=(
        VectorConfig(lanes=5, operation_stages=3),
        VectorConfig(lanes=16, ways=2, formats=("fp32", "bf16", "fp16", "fp8_e4m3fn", "fp8_e5m2", "fp4_e2m1")),
    ),
    check=check,
    cover=COVER,
)
