"""Kernels for a NeuronCore: matrix product, softmax, norms, MLP, attention, convolution, digits; each against numpy.

    python -m examples.kernels            # every kernel on the golden core: error and cycles
    python -m examples.kernels rtl        # on the compiled hardware too, and what differs

A matrix whose rows exceed the partitions lies in *blocks*: a tile ``(partitions, blocks, columns)``.
"""

import dataclasses
import itertools
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from examples.train_digits import TRAIN, WEIGHTS, images
from golden.numerics import to_float32
from sdk.program import Program
from sdk.run import run
from sdk.tensors import DTYPES, View
from spec.core import LINE_BYTES, WORD_BYTES, CoreConfig
from spec.formats import FLOATS
from spec.vector import MX_LANES, MX_ROWS
from verif.core.bench import LITTLE, MARKED

Array = npt.NDArray[Any]
EPSILON = 1e-5
PIECE = 4096
"""Bytes of a transfer beside which its start does not count."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A program, its inputs, and what its outputs should be, with the largest error that bf16 operands explain."""

    program: Program
    inputs: dict[str, Array]
    expected: dict[str, Array]
    tolerance: float


def steps(total: int, size: int) -> Iterator[tuple[int, slice]]:
    """``(number, slice)`` of each part of ``size``; the last may be smaller."""
    for number, start in enumerate(range(0, total, size)):
        yield number, slice(start, min(total, start + size))


def blocks(p: Program, rows: int, columns: int, format_: str) -> View:
    """An empty matrix in blocks."""
    lanes = p.config.partitions
    return p.sbuf((min(rows, lanes), -(-rows // lanes), columns), format_)


def fetch(p: Program, target: View, source: View) -> None:
    """A matrix of HBM into blocks, whatever order its bytes have there."""
    for number, part in steps(source.shape[0], p.config.partitions):
        p.dma(target[: part.stop - part.start, number], source[part])


def loaded(p: Program, source: View, format_: str) -> View:
    """A matrix of HBM in blocks of its own."""
    target = blocks(p, source.shape[0], source.shape[1], format_)
    fetch(p, target, source)
    return target


Finish = Callable[[slice, slice, View], None]


def product(p: Program, left: View, right: View, depth: int, finish: Finish) -> None:
    """``left.T @ right`` of two matrices in blocks, ``depth`` rows; ``finish`` takes each tile of results in PSUM."""
    lanes, bank = p.config.partitions, p.config.tensor.bank_depth
    for _, n in steps(right.free[1], bank):
        for _, m in steps(left.free[1], lanes):
            result = p.psum(n.stop - n.start)[: m.stop - m.start]
            for number, part in steps(depth, lanes):
                rows = part.stop - part.start
                p.tensor.matmul(result, left[:rows, number, m], right[:rows, number, n], accumulate=number > 0)
            finish(m, n, result)


def visits(groups: int, parts: int) -> list[tuple[int, int]]:
    """``(group, part)`` in turn, one new operand at a time; at most two parts at once, each in one go."""
    first = range(min(2, parts))
    order = [(group, part) for group in range(groups) for part in (reversed(first) if group % 2 else first)]
    for part in range(2, parts):
        back = order[-1][0] > 0
        order += [(group, part) for group in (reversed(range(groups)) if back else range(groups))]
    return order


def matmul(
    config: CoreConfig, k: int, m: int, n: int, format_: str = "bf16", *, result: str = "fp32", seed: int = 0
) -> Kernel:
    """``c = a.T @ b``: ``a`` stays in SBUF, columns of ``b`` come into two buffers in turn.

    A group of tiles, one in each bank of PSUM, grows together by a block of rows of ``a`` and ``b`` at a time, so that
    the array works on what has come while the rest comes; what the next group needs is fetched meanwhile.
    """
    with Program(config) as p:
        a, b, c = p.input("a", (k, m), format_), p.input("b", (k, n), format_), p.output("c", (m, n), result)
        lanes, bank, banks = config.partitions, config.tensor.bank_depth, config.tensor.psum_banks
        parts = [columns for _, columns in steps(n, bank)]
        groups = [columns for _, columns in steps(m, lanes * banks)]
        left = blocks(p, k, m, format_)
        moving = [blocks(p, k, min(n, bank), format_) for _ in parts[:2]]
        results = [p.sbuf((min(m, lanes), min(n, bank)), result) for _ in range(min(banks, -(-m // lanes)))]
        order = visits(len(groups), len(parts))
        # Twice as many queues as engines fill the port of HBM: it is full while some of them start, and blocks come one
        # after the other, not all at the end.
        fetching = min(2 * LINE_BYTES // (WORD_BYTES * config.dma_lanes), max(1, config.dma_queues // 2))
        queues = itertools.cycle(range(fetching))

        def held(part: int) -> View:
            """Where a part lies: in place of the one that is not in use when it is fetched."""
            other = part > 1 and len(groups) % 2 == 0
            return moving[(part + other) % 2][:, :, : parts[part].stop - parts[part].start]

        def bring(visit: int) -> None:
            """Fetch what a visit is the first to need, each block in pieces, on all queues at once."""
            group, part = order[visit]
            needed = []
            if all(group != earlier for earlier, _ in order[:visit]):
                needed.append((left[:, :, groups[group]], a[:, groups[group]]))
            if all(part != earlier for _, earlier in order[:visit]):
                needed.append((held(part), b[:, parts[part]]))
            for number, rows in steps(k, lanes):
                height = rows.stop - rows.start
                for target, source in needed:
                    least = -(-PIECE // (source.size * source.shape[1]))
                    for _, piece in steps(height, max(least, -(-height // fetching))):
                        p.dma(target[piece, number], source[rows][piece], queue=next(queues))

        bring(0)
        for visit, (group, part) in enumerate(order):
            if visit + 1 < len(order):
                bring(visit + 1)
            base, right = groups[group].start, held(part)
            tiles = [slice(base + s.start, base + s.stop) for _, s in steps(groups[group].stop - base, lanes)]
            grown = [p.psum(right.free[1])[: tile.stop - tile.start] for tile in tiles]
            for number, rows in steps(k, lanes):
                height = rows.stop - rows.start
                for tile, sums in zip(tiles, grown, strict=True):
                    stationary = left[:height, number, tile]
                    p.tensor.matmul(sums, stationary, right[:height, number], accumulate=number > 0)
            for index, (tile, sums) in enumerate(zip(tiles, grown, strict=True)):
                target = results[index][: sums.partitions, : sums.elements]
                copy = p.scalar.tensor_copy if index % 2 else p.vector.tensor_copy
                copy(target, sums)
                p.dma(c[tile, parts[part]], target, queue=(fetching + index % fetching) % config.dma_queues)
    rng = np.random.default_rng(seed)
    x, y = (as_format(rng.normal(size=shape), format_) for shape in ((k, m), (k, n)))
    return Kernel(p, {"a": x, "b": y}, {"c": x.T @ y}, 1e-4 * k)


def scaled_matmul(config: CoreConfig, blocks_: int, m: int, n: int, seed: int = 6) -> Kernel:
    """``c = a.T @ b`` in MXFP8: both are quantized on the vector engine, then multiplied four rows a partition.

    A lane's four elements are ``partitions`` rows apart, so a block that shares a scale is eight by four of them.
    """
    lanes, format_ = config.partitions, "fp8_e4m3fn"
    k = MX_ROWS * lanes * blocks_
    with Program(config) as p:
        c = p.output("c", (m, n), "fp32")
        sources = {"a": p.input("a", (k, m), "bf16"), "b": p.input("b", (k, n), "bf16")}
        result = p.psum(n)[:m]
        raws = [p.sbuf((lanes, max(m, n), MX_ROWS), "bf16") for _ in sources]
        packed = [p.scaled(lanes, max(m, n), format_) for _ in sources]
        for number, (_, part) in enumerate(steps(k, MX_ROWS * lanes)):
            tiles = []
            for raw, target, source in zip(raws, packed, sources.values(), strict=True):
                columns = source.shape[1]
                for group in range(MX_ROWS):
                    p.dma(raw[:, :columns, group], source[part][group * lanes : (group + 1) * lanes])
                tiles.append(target[:, :columns])
                p.vector.quantize_mx(tiles[-1], raw[:, :columns])
            p.tensor.matmul(result, tiles[0], tiles[1], accumulate=number > 0)
        tile = p.sbuf((m, n), "fp32")
        p.vector.tensor_copy(tile, result)
        p.dma(c, tile)
    rng = np.random.default_rng(seed)
    values = {name: as_format(rng.normal(size=source.shape), "bf16") for name, source in sources.items()}
    x, y = (microscaled(value, lanes, format_) for value in values.values())
    return Kernel(p, values, {"c": x.T @ y}, 1e-5 * k)


def microscaled(values: Array, lanes: int, format_: str) -> Array:
    """Numbers rounded to blocks of eight lanes by four with a power of two each (OCP Microscaling v1.0, 6.3)."""
    parts = values.astype(np.float64).reshape(-1, MX_ROWS, lanes // MX_LANES, MX_LANES, values.shape[1])
    largest = np.abs(parts).max(axis=(1, 3), keepdims=True)
    scale = np.exp2(np.floor(np.log2(largest)) - FLOATS[format_].exponent_max)
    most = float(ml_dtypes.finfo(DTYPES[format_]).max)
    codes = np.clip(parts / scale, -most, most).astype(np.float32).astype(DTYPES[format_])
    return np.asarray((codes.astype(np.float64) * scale).reshape(values.shape))


def as_format(values: Array, format_: str) -> Array:
    """Numbers that the format holds, as float32."""
    return values.astype(np.float32).astype(DTYPES[format_]).astype(np.float32)


def _rows(p: Program, source: View, target: View, work: Callable[[View, int], None]) -> None:
    """Rows of HBM, as many at a time as there are partitions, through ``work``, in place."""
    lanes = p.config.partitions
    tiles = [p.sbuf((min(lanes, source.shape[0]), source.shape[1]), "fp32") for _ in range(2)]
    for number, part in steps(source.shape[0], lanes):
        tile = tiles[number % 2][: part.stop - part.start]
        p.dma(tile, source[part])
        work(tile, number % 2)
        p.dma(target[part], tile)


def softmax(config: CoreConfig, rows: int, columns: int, seed: int = 1) -> Kernel:
    """Of each row."""
    with Program(config) as p:
        x, y = p.input("x", (rows, columns), "fp32"), p.output("y", (rows, columns), "fp32")
        small = [p.sbuf((min(rows, config.partitions), 1), "fp32") for _ in range(4)]

        def work(tile: View, turn: int) -> None:
            top, total = (one[: tile.partitions] for one in small[2 * turn : 2 * turn + 2])
            p.vector.tensor_reduce(top, tile, "max", negate=True)
            p.scalar.activation(tile, tile, "exp", bias=top, reduce="reset_reduce")
            p.scalar.read_accumulator(total)
            p.vector.reciprocal(total, total)
            p.vector.tensor_scalar(tile, tile, "multiply", total)

        _rows(p, x, y, work)
    value = np.random.default_rng(seed).normal(0, 3, (rows, columns)).astype(np.float32)
    expected = np.exp(value - value.max(1, keepdims=True))
    return Kernel(p, {"x": value}, {"y": expected / expected.sum(1, keepdims=True)}, 1e-6)


def norm(config: CoreConfig, rows: int, columns: int, *, centred: bool, seed: int = 2) -> Kernel:
    """Layer norm, or RMS norm where the mean stays, with a weight for each column (and a bias in a layer norm)."""
    with Program(config) as p:
        x, y = p.input("x", (rows, columns), "fp32"), p.output("y", (rows, columns), "fp32")
        weight, bias = p.input("weight", (columns,), "fp32"), p.input("bias", (columns,), "fp32")
        lanes = min(rows, config.partitions)
        tables = [p.sbuf((lanes, columns), "fp32") for _ in range(2)]
        for tile, vector in zip(tables, (weight, bias), strict=True):
            p.dma(tile, vector.repeat(0, lanes))
        squares = p.sbuf((lanes, columns), "fp32")
        mean, scale = p.sbuf((lanes, 1), "fp32"), p.sbuf((lanes, 1), "fp32")

        def work(tile: View, _: int) -> None:
            held = tile.partitions
            if centred:
                p.vector.tensor_reduce(mean[:held], tile, "add")
                p.vector.tensor_scalar(mean[:held], mean[:held], "multiply", 1 / columns)
                p.vector.tensor_scalar(tile, tile, "subtract", mean[:held])
            p.scalar.activation(squares[:held], tile, "square", reduce="reset_reduce")
            p.scalar.read_accumulator(scale[:held])
            p.vector.tensor_scalar(scale[:held], scale[:held], "multiply", 1 / columns, "add", EPSILON)
            p.scalar.activation(scale[:held], scale[:held], "rsqrt")
            p.vector.scalar_tensor_tensor(tile, tile, "multiply", scale[:held], "multiply", tables[0][:held])
            if centred:
                p.vector.tensor_tensor(tile, tile, tables[1][:held], "add")

        _rows(p, x, y, work)
    rng = np.random.default_rng(seed)
    value, w, b = (rng.normal(size=shape).astype(np.float32) for shape in ((rows, columns), (columns,), (columns,)))
    centre = value - value.mean(1, keepdims=True) if centred else value
    expected = centre / np.sqrt((centre**2).mean(1, keepdims=True) + EPSILON) * w + (b if centred else 0)
    return Kernel(p, {"x": value, "weight": w, "bias": b}, {"y": expected}, 1e-5)


def dense(p: Program, weight: View, bias: View, x: View, depth: int, result: View, function: str) -> None:
    """``result = function(weight.T @ x + bias)``, all in blocks; the bias has one column."""

    def finish(m: slice, n: slice, found: View) -> None:
        number, held = m.start // p.config.partitions, m.stop - m.start
        p.scalar.activation(result[:held, number, n], found, function, bias=bias[:held, number])

    product(p, weight, x, depth, finish)


def mlp(config: CoreConfig, tokens: int, width: int, hidden: int, seed: int = 3) -> Kernel:
    """``gelu(x @ first + b) @ second + c``; tokens are columns."""
    with Program(config) as p:
        x, y = p.input("x", (width, tokens), "bf16"), p.output("y", (width, tokens), "fp32")
        shapes = {"first": (width, hidden), "second": (hidden, width), "b": (hidden, 1), "c": (width, 1)}
        sources = {name: p.input(name, shape, "fp32" if shape[1] == 1 else "bf16") for name, shape in shapes.items()}
        held = {name: loaded(p, source, source.format) for name, source in sources.items()}
        inputs = loaded(p, x, "bf16")
        between, result = blocks(p, hidden, tokens, "bf16"), blocks(p, width, tokens, "fp32")
        dense(p, held["first"], held["b"], inputs, width, between, "gelu")
        dense(p, held["second"], held["c"], between, hidden, result, "copy")
        for number, part in steps(width, config.partitions):
            p.dma(y[part], result[: part.stop - part.start, number])
    rng = np.random.default_rng(seed)
    values = {name: as_format(rng.normal(0, 0.5, shape), sources[name].format) for name, shape in shapes.items()}
    tokens_in = as_format(rng.normal(size=(width, tokens)), "bf16")
    inner = values["first"].T @ tokens_in + values["b"]
    erf = np.vectorize(math.erf)
    expected = values["second"].T @ (inner * (1 + erf(inner / np.sqrt(2))) / 2) + values["c"]
    return Kernel(p, {"x": tokens_in, **values}, {"y": expected}, 0.02 * hidden**0.5)


def attention(config: CoreConfig, queries: int, keys: int, width: int, seed: int = 4) -> Kernel:
    """``softmax(q.T @ k / sqrt(width)) @ v`` in one pass over blocks of keys, with a running maximum and sum."""
    lanes = config.partitions
    with Program(config) as p:
        q, k = p.input("q", (width, queries), "bf16"), p.input("k", (width, keys), "bf16")
        v, o = p.input("v", (keys, width), "bf16"), p.output("o", (queries, width), "fp32")
        unit = p.input("unit", (lanes, lanes), "bf16")
        one = p.sbuf((lanes, lanes), "bf16")
        p.dma(one, unit)
        keep_k, keep_v, keep_q = loaded(p, k, "bf16"), loaded(p, v, "bf16"), loaded(p, q, "bf16")
        scores, turned = p.sbuf((lanes, lanes), "bf16"), p.sbuf((lanes, lanes), "bf16")
        top, new, shift, total, part_sum, alpha = (p.sbuf((lanes, 1), "fp32") for _ in range(6))
        out = p.sbuf((lanes, width), "fp32")
        scale = 1 / width**0.5
        for _, rows in steps(queries, lanes):
            held = rows.stop - rows.start
            p.vector.memset(top[:held], -1e30)
            p.vector.memset(total[:held], 0.0)
            p.vector.memset(out[:held], 0.0)
            for number, part in steps(keys, lanes):
                size = part.stop - part.start
                found = p.psum(size)[:held]
                for block, inner in steps(width, lanes):
                    high = inner.stop - inner.start
                    p.tensor.matmul(found, keep_q[:high, block, rows], keep_k[:high, block, part], accumulate=block > 0)
                p.vector.tensor_reduce(new[:held], found, "max")
                p.vector.tensor_scalar(new[:held], new[:held], "multiply", scale, "max", top[:held])
                p.vector.tensor_scalar(shift[:held], new[:held], "multiply", -1.0)
                p.scalar.activation(alpha[:held], top[:held], "exp", bias=shift[:held])
                p.scalar.activation(
                    scores[:held, :size], found, "exp", scale=scale, bias=shift[:held], reduce="reset_reduce"
                )
                p.scalar.read_accumulator(part_sum[:held])
                p.vector.tensor_copy(top[:held], new[:held])
                p.vector.scalar_tensor_tensor(
                    total[:held], total[:held], "multiply", alpha[:held], "add", part_sum[:held]
                )
                across = p.psum(held)[:size]
                p.tensor.matmul(across, scores[:held, :size], one[:held, :held])
                p.vector.tensor_copy(turned[:size, :held], across)
                for _, columns in steps(width, config.tensor.bank_depth):
                    mixed = p.psum(columns.stop - columns.start)[:held]
                    p.tensor.matmul(mixed, turned[:size, :held], keep_v[:size, number, columns])
                    tile = out[:held, columns]
                    p.vector.scalar_tensor_tensor(tile, tile, "multiply", alpha[:held], "add", mixed)
            p.vector.reciprocal(total[:held], total[:held])
            p.vector.tensor_scalar(out[:held], out[:held], "multiply", total[:held])
            p.dma(o[rows], out[:held])
    rng = np.random.default_rng(seed)
    shapes = {"q": (width, queries), "k": (width, keys), "v": (keys, width)}
    values = {name: as_format(rng.normal(size=shape), "bf16") for name, shape in shapes.items()}
    weights = np.exp(values["q"].T @ values["k"] * scale)
    expected = weights / weights.sum(1, keepdims=True) @ values["v"]
    return Kernel(p, {**values, "unit": np.eye(lanes, dtype=np.float32)}, {"o": expected}, 0.03)


def convolution(config: CoreConfig, channels: int, outputs: int, size: int, taps: int = 3, seed: int = 5) -> Kernel:
    """A convolution over a padded image: for each tap one product over a strided rectangle of the image."""
    padded = size + taps - 1
    with Program(config) as p:
        image, y = p.input("image", (channels, padded, padded), "bf16"), p.output("y", (outputs, size, size), "fp32")
        weight = p.input("weight", (taps, taps, channels, outputs), "bf16")
        held, kernel = p.sbuf((channels, padded, padded), "bf16"), p.sbuf((channels, taps, taps, outputs), "bf16")
        p.dma(held, image)
        p.dma(kernel, weight.permute(2, 0, 1, 3))
        rows = max(1, config.tensor.bank_depth // size)
        tiles = [p.sbuf((outputs, rows * size), "fp32") for _ in range(2)]
        for number, part in steps(size, rows):
            count = (part.stop - part.start) * size
            result = p.psum(count)[:outputs]
            for tap in range(taps * taps):
                down, right = divmod(tap, taps)
                window = held[:, part.start + down : part.stop + down, right : right + size]
                p.tensor.matmul(result, kernel[:, down, right], window, accumulate=tap > 0)
            tile = tiles[number % 2][:, :count]
            p.scalar.activation(tile, result, "relu")
            p.dma(y[:, part], tile.split(1, size))
    rng = np.random.default_rng(seed)
    x = as_format(np.pad(rng.normal(size=(channels, size, size)), ((0, 0), (taps // 2,) * 2, (taps // 2,) * 2)), "bf16")
    w = as_format(rng.normal(size=(taps, taps, channels, outputs)), "bf16")
    windows = np.lib.stride_tricks.sliding_window_view(x, (taps, taps), axis=(1, 2))
    expected = np.maximum(np.einsum("cyxij,ijco->oyx", windows, w), 0)
    return Kernel(p, {"image": x, "weight": w}, {"y": expected}, 1e-3)


def digits(config: CoreConfig, count: int) -> Kernel:
    """The digits network in one program: images in HBM to classes in HBM."""
    with np.load(WEIGHTS) as found:
        first, second = to_float32("bf16", found["first"]), to_float32("bf16", found["second"])
    pixels = images()[0][TRAIN : TRAIN + count]
    lanes = config.partitions
    inputs, hidden, classes = first.shape[0] - 1, first.shape[1], second.shape[1]
    with Program(config) as p:
        x, y = p.input("x", (count, inputs), "bf16"), p.output("y", (count,), "uint32")
        w1, b1 = p.input("w1", (inputs, hidden), "bf16"), p.input("b1", (hidden, 1), "fp32")
        w2, b2 = p.input("w2", (hidden, classes), "bf16"), p.input("b2", (classes,), "fp32")
        held1, held2, bias1 = loaded(p, w1, "bf16"), loaded(p, w2, "bf16"), loaded(p, b1, "fp32")
        bias2 = p.sbuf((lanes, classes), "fp32")
        p.dma(bias2, b2.repeat(0, lanes))
        pictures, middle = ([blocks(p, rows, lanes, "bf16") for _ in range(2)] for rows in (inputs, hidden))
        searched = [p.sbuf((lanes, 8 + classes), "fp32") for _ in range(2)]
        best = [p.sbuf((lanes, 8), "fp32") for _ in range(2)]  # words, moved as they are
        for number, part in steps(count, lanes):
            turn, held = number % 2, part.stop - part.start
            fetch(p, pictures[turn][:, :, :held], x[part].T)
            dense(p, held1, bias1, pictures[turn][:, :, :held], inputs, middle[turn][:, :, :held], "relu")
            scores = p.psum(classes)[:held]
            for block, inner in steps(hidden, lanes):
                high = inner.stop - inner.start
                p.tensor.matmul(scores, middle[turn][:high, block, :held], held2[:high, block], accumulate=block > 0)
            row, top = searched[turn][:held], best[turn][:held]
            p.vector.tensor_tensor(row[:, 8:], scores, bias2[:held], "add")
            p.vector.max8(row[:, :8], row[:, 8:])
            p.vector.find_index8(top, row)
            p.dma(y.cast("fp32")[part], top[:, 0])
    inputs_ = {"x": pixels, "w1": first[:-1], "b1": first[-1:].T, "w2": second[:-1], "b2": second[-1]}
    scores = as_format(np.maximum(pixels @ first[:-1] + first[-1], 0), "bf16") @ second[:-1] + second[-1]
    return Kernel(p, inputs_, {"y": scores.argmax(1).astype(np.uint32)}, 0.0)


def kernels(config: CoreConfig) -> dict[str, Kernel]:
    """Every kernel at a size that suits the core."""
    lanes = config.partitions
    return {
        "matmul": matmul(config, 2 * lanes, 2 * lanes, 2 * config.tensor.bank_depth),
        "softmax": softmax(config, lanes + 1, 12),
        "layer norm": norm(config, lanes + 1, 12, centred=True),
        "RMS norm": norm(config, lanes + 1, 12, centred=False),
        "MLP": mlp(config, 8, lanes, 2 * lanes),
        "attention": attention(config, lanes, 3 * lanes, lanes),
        "convolution": convolution(config, lanes, lanes, 6),
        "digits": digits(config, 2 * lanes),
    }


def main() -> None:
    """Run everything, print errors and cycles."""
    every = kernels(LITTLE) | {"MX matmul": scaled_matmul(MARKED, 2, MARKED.partitions, 12)}
    for name, kernel in every.items():
        golden = run(kernel.program, "golden", kernel.inputs)
        error = max(float(np.abs(golden[key].astype(float) - value).max()) for key, value in kernel.expected.items())
        print(f"{name:12} error {error:.2g} (at most {kernel.tolerance:.2g}), {golden.cycles} cycles")
        if "rtl" in sys.argv[1:]:
            rtl = run(kernel.program, "rtl", kernel.inputs)
            same = all(np.array_equal(golden[key], rtl[key]) for key in kernel.expected)
            print(f"{'':12} hardware {rtl.cycles} cycles, {'the same results' if same else 'OTHER RESULTS'}")


if __name__ == "__main__":
    main()
