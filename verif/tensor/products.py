"""Whole products, convolutions and transposes through the engine, bit for bit, in every mode it has."""

import numpy as np
from amaranth.lib import data

from golden.tensor.array import Engine, gemm
from golden.tensor.convolution import Convolution, convolve
from golden.tensor.gemm import rows_of_pass
from spec.formats import FLOATS, FP32
from spec.tensor import BITS, PAIRS, PATTERNS, QUAD_ROWS, QUADS, ResultFormat, TensorConfig, first_state
from verif.tensor.checker import COVER, PAIRINGS, Checker
from verif.tensor.stimulus import operands, sparsified


def _shapes(config: TensorConfig, k: int, least: int = 1) -> dict[str, tuple[int, int, int]]:
    """K, M and N of each class of shapes, for a pass that takes ``k`` of K, in steps of ``least``."""
    m, n = config.columns, config.bank_depth
    return {
        "one": (least, 1, 1),
        "less": (max(least, k - least), m - 1, n - 1),
        "equal": (k, m, n),
        "more": (2 * k, 2 * m, 2 * n),
        "no multiple": (k + least, m + 1, n + 3),
    }


def products(checker: Checker) -> None:
    """Every two formats that can be multiplied, every class of shapes; the transpose of every width."""
    config, rng = checker.config, checker.trial.rng
    known = {*config.formats, *config.operands}
    for one, other in PAIRINGS:
        if not {one, other} <= known:
            continue
        least = QUAD_ROWS if one in QUADS else 1
        for shape, (k, m, n) in _shapes(config, rows_of_pass(config, one), least).items():
            stationary = operands(rng, PAIRS.get(one, one), (k, m), "moderate")
            moving = operands(rng, PAIRS.get(other, other), (k, n), "moderate")
            product = checker.driver.matmul(stationary, moving, one, other)
            golden = gemm(config, stationary, moving, one, other)
            board = checker.trial.scoreboard("product", data.ArrayLayout(FP32.width, m), "fp32")
            board.compare(product.bits.T.copy(), golden.T.copy())
            COVER.hit(pairing=f"{one} x {other}", shape=shape)
    for width in sorted({BITS[name] for name in config.operands if name in BITS}):
        dtype = {8: np.uint8, 16: np.uint16, 32: np.uint32}[width]
        for shape, (k, m, _) in _shapes(config, config.rows).items():
            codes = rng.integers(0, 1 << width, (k, m), dtype=dtype)
            board = checker.trial.scoreboard("transpose", data.ArrayLayout(32, k))
            board.compare(checker.driver.transpose(codes)[0].astype(np.uint32), codes.T.astype(np.uint32))
            COVER.hit(width=width, shape=shape)


def sparse_products(checker: Checker) -> None:
    """Every pattern, every class of shapes; a pass takes the cycles of a dense one with a fraction of its K."""
    config, rng, driver = checker.config, checker.trial.rng, checker.driver
    for index, (pattern, (kept, block)) in enumerate(PATTERNS.items()):
        name = config.formats[index % len(config.formats)]
        for shape, (k, m, n) in _shapes(config, rows_of_pass(config, name, pattern)).items():
            stationary = sparsified(operands(rng, name, (k, m), "moderate"), kept, block)
            moving = operands(rng, name, (k, n), "moderate")
            product = driver.matmul(stationary, moving, name, name, pattern)
            golden = gemm(config, stationary, moving, name, name, pattern)
            board = checker.trial.scoreboard("product", data.ArrayLayout(FP32.width, m), "fp32")
            board.compare(product.bits.T.copy(), golden.T.copy())
            COVER.hit(pattern=pattern, shape=shape)
            if shape == "equal":
                dense = driver.matmul(stationary[: config.rows], moving[: config.rows], name, name).cycles
                assert product.cycles == dense, f"{pattern} takes {product.cycles} cycles, a dense pass {dense}"


def batches(checker: Checker) -> None:
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


def seeds(checker: Checker) -> None:
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


def convolutions(checker: Checker) -> None:
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
