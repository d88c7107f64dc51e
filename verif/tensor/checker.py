"""Runs programs on a tensor engine and compares them with golden; what the bench has to meet."""

import itertools
from typing import Any

import numpy as np

from golden.tensor.array import Engine, run
from golden.tensor.program import Timing, timing
from hdl.tensor.layouts import STATUS, result_layout
from spec.formats import FLOATS, FP32
from spec.tensor import PAIRS, PATTERNS, QUADS, Operation, ResultFormat, Status
from verif.harness.bench import Trial
from verif.harness.coverage import CoverGroup
from verif.harness.model import Result
from verif.harness.packing import pack_array
from verif.harness.stalls import STALLS, Stall
from verif.tensor.driver import TensorDriver
from verif.tensor.stimulus import CLASSES, Program, Writer

STREAMS = ("requests", "stationary", "moving", "status", "reads", "results")

SHAPES = ("one", "less", "equal", "more", "no multiple")
"""K, M and N of a product beside rows, columns and the depth of a bank."""

PLAIN = [name for name in FLOATS if name != FP32.name]
PAIRINGS = [
    *itertools.product(PLAIN, repeat=2),
    (FP32.name, FP32.name),
    *itertools.product(PAIRS, repeat=2),
    *itertools.product(QUADS, repeat=2),
]
"""Every two operands that can be multiplied: single numbers, double row, microscaling."""

COVER = CoverGroup(
    "tensor.engine",
    {
        "load": ("OK", "FORMAT", "COLUMNS", "ADDRESS"),
        "matmul": [status.name for status in Status],
        "columns": ("one", "some", "most"),
        "accumulate": (False, True),
        "tiles": (1, 2, 4),
        "masked": (False, True),
        "result": [result.name for result in ResultFormat],
        "pattern": tuple(PATTERNS),
        "pairing": [f"{one} x {other}" for one, other in PAIRINGS],
        "width": (8, 16, 32),
        "shape": SHAPES,
        "operands": CLASSES,
        "stall": tuple(STALLS),
        "stream": STREAMS,
        "reset": ("loading", "multiplying"),
        "read": ("bank at rest", "bank that accumulates"),
    },
    crosses=[
        ("columns", "accumulate"),
        ("tiles", "accumulate"),
        ("result", "accumulate"),
        ("stall", "stream"),
        ("pairing", "shape"),
        ("pattern", "shape"),
        ("width", "shape"),
    ],
)


class Checker:
    """Runs programs on one model and compares with golden."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.config = trial, trial.config
        self.layout = result_layout(self.config)
        self.driver = TensorDriver(self.config, trial.model(**TensorDriver.build(self.config)))
        self.writer = Writer(self.config, trial.rng)
        self.statuses = trial.scoreboard("status", STATUS)
        self.results = trial.scoreboard("results", self.layout, {"values": "fp32"})

    def check(self, program: Program, stalls: dict[str, Stall] | None = None) -> tuple[Result, Engine]:
        """From reset: statuses, all of PSUM, and without stalls every cycle."""
        self.driver.model.run(resets=[(0, 1)], limit=1)
        engine, statuses = run(self.config, program)
        result = self.driver.run(program, stalls=stalls or {}, seed=self.trial.seed, limit=1_000_000)
        assert result.reason == "content", f"the engine stopped: {result.reason} after {result.cycles} cycles"
        operations = [int(instruction.operation) for instruction, _ in program]
        golden = {"operation": operations, "status": [int(status) for status in statuses]}
        self.statuses.compare(result.outputs["status"], pack_array(STATUS, golden))
        if not stalls:
            self._check_cycles(result, timing(self.config, [instruction for instruction, _ in program]), program)
        self.check_psum(engine, stalls)
        self._cover(program, statuses)
        return result, engine

    def check_psum(self, engine: Engine, stalls: dict[str, Stall] | None = None) -> None:
        """Every location of PSUM; where nothing was written, only that fact."""
        _, _, reads = self.driver.read(np.arange(self.config.psum_depth), stalls=stalls or {}, seed=self.trial.seed)
        words = reads.outputs["results"].copy()
        words[:, : self.config.columns] *= self.masks(engine)
        self.results.compare(words, self.expected(engine))

    def expected(self, engine: Engine) -> Any:
        """What reading all of PSUM gives."""
        bits = engine.written.astype(np.uint32) << np.arange(self.config.tiles, dtype=np.uint32)[:, None]
        return np.concatenate([engine.psum.T * self.masks(engine), bits.sum(axis=0, dtype=np.uint32)[:, None]], axis=1)

    def masks(self, engine: Engine) -> Any:
        """``[addresses, columns]``, 1 where PSUM was written."""
        return np.repeat(engine.written, self.config.columns // self.config.tiles, axis=0).T.astype(np.uint32)

    def _check_cycles(self, result: Result, golden: list[Timing], program: Program) -> None:
        """Instructions taken, first and last operands, statuses: all in the cycles that golden says."""
        stamps, origin = result.stamps, result.stamps["requests"][0]
        self.statuses.compare_cycles(stamps["requests"] - origin, [entry.accepted for entry in golden])
        self.statuses.compare_cycles(stamps["status"] - origin, [entry.done for entry in golden])
        for stream, operation in (("stationary", Operation.LOAD_STATIONARY), ("moving", Operation.MATMUL)):
            lanes = self.config.load_columns if operation == Operation.LOAD_STATIONARY else 1
            ends = itertools.accumulate(
                -(-instruction.columns // lanes) for instruction, _ in program if instruction.operation == operation
            )
            entries = [
                entry
                for (instruction, _), entry in zip(program, golden, strict=True)
                if instruction.operation == operation
            ]
            begin = 0
            for entry, end in zip(entries, ends, strict=True):
                if end > begin:
                    taken = [stamps[stream][begin] - origin, stamps[stream][end - 1] - origin]
                    self.statuses.compare_cycles(taken, [entry.first, entry.last])
                begin = end

    def _cover(self, program: Program, statuses: list[Status]) -> None:
        for (instruction, _), status in zip(program, statuses, strict=True):
            if instruction.operation == Operation.LOAD_STATIONARY:
                COVER.hit(load=status.name)
                continue
            COVER.hit(matmul=status.name)
            if status == Status.OK:
                count = instruction.columns
                columns = "one" if count == 1 else "most" if count == self.config.bank_depth else "some"
                COVER.hit(
                    columns=columns,
                    accumulate=instruction.accumulate,
                    tiles=1 << instruction.split,
                    masked=instruction.masked > 0,
                    result=ResultFormat(instruction.result).name,
                )
