"""Bench of the tensor engine: every result bit, every status and every cycle against golden."""

import itertools
from typing import Any

import numpy as np
from amaranth.lib import data

from golden.tensor.array import Engine, gemm, run
from golden.tensor.convolution import Convolution, convolve
from golden.tensor.program import Timing, timing
from hdl.tensor import TensorEngine
from hdl.tensor.layouts import STATUS, result_layout
from spec.formats import FLOATS, FP32
from spec.tensor import (
    BITS,
    PAIRS,
    PATTERNS,
    QUAD_ROWS,
    QUADS,
    Operation,
    ResultFormat,
    Status,
    TensorConfig,
    first_state,
    operand_kind,
)
from verif.harness.bench import Bench, Trial
from verif.harness.coverage import CoverGroup
from verif.harness.faults import check_notices_late
from verif.harness.model import Result
from verif.harness.packing import pack_array
from verif.harness.stalls import STALLS, Stall
from verif.tensor.driver import TensorDriver
from verif.tensor.stimulus import (
    CLASSES,
    Program,
    Writer,
    operands,
    overlapping,
    single_accumulations,
    sparsified,
)

STREAMS = ("requests", "stationary", "moving", "status", "reads", "results")

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
        "operands": CLASSES,
        "stall": tuple(STALLS),
        "stream": STREAMS,
        "reset": ("loading", "multiplying"),
        "read": ("bank at rest", "bank that accumulates"),
    },
    crosses=[("columns", "accumulate"), ("tiles", "accumulate"), ("result", "accumulate"), ("stall", "stream")],
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
        _products(checker)
    if config.sparsity:
        with trial.test("sparse products"):
            _sparse_products(checker)
    if config.tiles > 1:
        with trial.test("small products side by side"):
            _batches(checker)
    if config.bf16_results:
        with trial.test("stochastic rounding from any seed"):
            _seeds(checker)
    with trial.test("convolutions"):
        _convolutions(checker)
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


def _products(checker: Checker) -> None:
    """Tiles that fill the array, and tiles that do not, for every format; fp32 in four passes, FP8 in pairs, MX."""
    config, rng = checker.config, checker.trial.rng
    packed = [name for name in config.operands if name in PAIRS or name in QUADS]
    for name in (*config.formats, *packed):
        dense = PAIRS.get(name, name)
        least = QUAD_ROWS if name in QUADS else 1
        for k, m, n in ((least, 1, 1), (config.rows, config.columns, config.bank_depth), (13 * least, 11, 19)):
            stationary, moving = (operands(rng, dense, shape, "moderate") for shape in ((k, m), (k, n)))
            product = checker.driver.matmul(stationary, moving, name, name)
            golden = gemm(config, stationary, moving, name, name)
            board = checker.trial.scoreboard("product", data.ArrayLayout(FP32.width, m), "fp32")
            board.compare(product.bits.T.copy(), golden.T.copy())
    for width in sorted({BITS[name] for name in config.operands if name in BITS}):
        dtype = {8: np.uint8, 16: np.uint16, 32: np.uint32}[width]
        codes = rng.integers(0, 1 << width, (13, 11), dtype=dtype)
        board = checker.trial.scoreboard("transpose", data.ArrayLayout(32, 13))
        board.compare(checker.driver.transpose(codes)[0].astype(np.uint32), codes.T.astype(np.uint32))


def _sparse_products(checker: Checker) -> None:
    """Every pattern, every number format; a pass takes the cycles of a dense one with a fraction of its K."""
    config, rng, driver = checker.config, checker.trial.rng, checker.driver
    for name in config.formats:
        dense = operands(rng, name, (config.rows, config.columns + config.bank_depth), "moderate")
        expected = driver.matmul(dense[:, : config.columns], dense[:, config.columns :], name, name).cycles
        for pattern, (kept, block) in PATTERNS.items():
            k = config.rows * block // kept
            for depth, m, n in ((k, config.columns, config.bank_depth), (k + 3, config.columns + 1, 5), (1, 1, 1)):
                stationary, moving = (operands(rng, name, (depth, size), "moderate") for size in (m, n))
                stationary = sparsified(stationary, kept, block)
                product = driver.matmul(stationary, moving, name, name, pattern)
                golden = gemm(config, stationary, moving, name, name, pattern)
                board = checker.trial.scoreboard("product", data.ArrayLayout(FP32.width, m), "fp32")
                board.compare(product.bits.T.copy(), golden.T.copy())
                assert depth != k or product.cycles == expected, f"{pattern} takes {product.cycles}, not {expected}"
            COVER.hit(pattern=pattern)


def _batches(checker: Checker) -> None:
    """Independent products in tiles of rows take the cycles of one."""
    config, rng = checker.config, checker.trial.rng
    name = next(name for name in config.operands if name in FLOATS)
    for count in (1 << split for split in range(1, config.splits)):
        k, m, n = config.rows // count, config.columns, config.bank_depth
        stationaries = [operands(rng, name, (k, m), "special") for _ in range(count)]
        movings = [operands(rng, name, (k, n), "special") for _ in range(count)]
        bits, cycles = checker.driver.batch(stationaries, movings, name)
        golden = [gemm(config, w, x, name, name) for w, x in zip(stationaries, movings, strict=True)]
        board = checker.trial.scoreboard("batch", data.ArrayLayout(FP32.width, n), "fp32")
        board.compare(bits.reshape(-1, n), np.concatenate(golden))
        assert cycles == checker.driver.matmul(stationaries[0], movings[0], name, name).cycles


def _seeds(checker: Checker) -> None:
    """The state of every generator follows from the seed; one of them is the seed that would make a state 0."""
    driver, writer, config = checker.driver, checker.writer, checker.config
    depth = config.bank_depth
    name = next(name for name in config.operands if name in FLOATS)
    for seed in (1, first_state(config.columns - 1), int(checker.trial.rng.integers(1 << 32))):
        driver.model.run(resets=[(0, 1)], limit=1)
        driver.model.run(hold={"reseed": 1, "seed": seed}, limit=1)
        engine = Engine(config)
        engine.reseed(seed)
        program = [writer.load(kind="moderate", name=name)]
        for accumulate in (False, True):
            result = ResultFormat.BF16_STOCHASTIC
            program.append(writer.matmul(depth, 0, kind="moderate", name=name, accumulate=accumulate, result=result))
        for instruction, codes in program:
            engine.execute(instruction, codes)
        driver.run(program)
        checker.check_psum(engine)


def _convolutions(checker: Checker) -> None:
    """A strided, padded layer and a depthwise one, for the first format that is multiplied in one pass."""
    config, rng = checker.config, checker.trial.rng
    name = next(name for name in config.operands if name in FLOATS)
    for layer in (
        Convolution(channels=5, outputs=4, height=5, width=4, stride=2, padding=1),
        Convolution(channels=3, outputs=3, height=4, width=4, groups=3, dilation=1),
    ):
        shape = layer.outputs, layer.channels // layer.groups * layer.kernel**2
        weights = operands(rng, name, shape, "moderate").reshape(layer.outputs, -1, layer.kernel, layer.kernel)
        image = operands(rng, name, (layer.channels, layer.height * layer.width), "moderate")
        image = image.reshape(layer.channels, layer.height, layer.width)
        ours, _ = checker.driver.convolve(layer, weights, image, name)
        golden = convolve(config, layer, weights, image, name)
        board = checker.trial.scoreboard("convolution", data.ArrayLayout(FP32.width, layer.outputs), "fp32")
        board.compare(ours.reshape(layer.outputs, -1).T.copy(), golden.reshape(layer.outputs, -1).T.copy())


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


BENCH = Bench(
    "tensor.engine",
    block=TensorEngine,
    quick=(
        _config(
            3,
            5,
            formats=("bf16", "fp8_e4m3", "fp8_e5m2"),
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
            formats=("bf16", "tf32", "fp32"),
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
        _config(
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
        ),
    ),
    long=(
        _config(2, 2, load_columns=1, psum_banks=1, psum_bank_bytes=16),
        _config(6, 2, formats=("fp16",), load_columns=2, psum_bank_bytes=128, multiply_stages=3, add_stages=4),
        _config(8, 8, formats=("bf16", "fp8_e4m3fn", "fp8_e5m2", "fp8_e3m4", "fp4_e2m1"), psum_bank_bytes=256),
        _config(16, 16, psum_bank_bytes=256, hop_columns=4),
    ),
    check=check,
    cover=COVER,
)
