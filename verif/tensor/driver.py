"""Drives a compiled tensor engine with numpy arrays.

>>> driver = TensorDriver(TensorConfig(rows=8, columns=8))                     # doctest: +SKIP
>>> product = driver.matmul(weights, activations)                              # doctest: +SKIP
>>> product.bits.view(np.float32), product.cycles, product.utilisation         # doctest: +SKIP
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.tensor.array import FORMAT_NAMES, FP8_MINUS_ZERO, SCALE_SHIFT, paired, sparse_operands
from golden.tensor.convolution import Convolution, lower, store
from golden.tensor.gemm import Step, group_steps, groups, transpose_steps, utilisation
from golden.tensor.program import Instruction
from golden.tensor.sparsity import TAG_SHIFT, planes, ratio
from hdl.tensor import TensorEngine
from hdl.tensor.layouts import request_layout
from spec.formats import FLOATS
from spec.parameters import refuse
from spec.tensor import PAIRS, QUAD_ROWS, QUADS, SCALE, TAG_BITS, Operation, Status, TensorConfig, operand_code
from verif.harness.model import Model, Result
from verif.harness.packing import pack_array

Codes = NDArray[np.unsignedinteger]
Bits = NDArray[np.uint32]
Program = Sequence[tuple[Instruction, Codes]]

SHARED = ("processing_element_*", "edge_decoder_*", "delay_*", "add_*")
"""Modules of an array of which a large model has one code for all."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Product:
    """Result of a matrix product: fp32 bits ``[M, N]`` and what they took.

    ``cycles`` adds up, over the groups of results, those from the first instruction to the last status, loading, fill
    and drain included. ``read_cycles`` is what reading PSUM took in addition, group by group.
    """

    bits: Bits
    cycles: int
    read_cycles: int
    utilisation: float
    """Useful products over ``rows * columns * cycles``."""


class TensorDriver:
    """One compiled engine. ``model`` may be one that exists already; keywords are those of :class:`Model`."""

    def __init__(
        self, config: TensorConfig, model: Model | None = None, *, large: bool = False, **options: Any
    ) -> None:
        self.config = config
        if model is None:
            model = Model(TensorEngine(config), **self.build(config, large=large), **options)
        self.model = model

    @staticmethod
    def build(config: TensorConfig, *, large: bool = False) -> dict[str, Any]:
        """How Verilator compiles an engine in a quarter of the time: each row once; elements and adders apart.

        A ``large`` one is faster when all elements of a row run the same code.
        """
        rows = [f"row_{config.digest()}"]
        if large:
            return {"hierarchy": rows, "shared": SHARED, "optimise": "-O2"}
        return {"hierarchy": rows, "no_inline": ["processing_element_*", "add_*"]}

    def matmul(
        self,
        stationary: Codes,
        moving: Codes,
        stationary_format: str = "bf16",
        moving_format: str = "bf16",
        pattern: str = "",
    ) -> Product:
        """``stationary.T @ moving`` for codes ``[K, M]`` and ``[K, N]`` of any size, tile by tile.

        With a ``pattern`` of sparsity (``4:16``) the stationary has so few numbers that are not zero, and fewer passes.

        FP8 runs at twice the rate with the formats ``fp8_e4m3_x2`` and the like: its codes are paired here. Operands of
        microscaling formats are edge words, see :func:`golden.tensor.array.quads`; K then counts rows of four numbers.
        """
        config = self.config
        (k, m), n = stationary.shape, moving.shape[1]
        if moving.shape[0] != k or not stationary.size or not moving.size:
            raise refuse("TensorDriver", "moving.shape", moving.shape, f"({k}, at least 1), and no empty operand")
        pairs = moving_format in PAIRS
        zeros = (0, FP8_MINUS_ZERO) if pairs else _zeros(moving_format)
        bits = np.zeros((m, n), np.uint32)
        cycles = read_cycles = 0
        for m_tile, n_group, bank in groups(config, m, n):
            steps = list(group_steps(config, k, m_tile, n_group, bank, stationary_format, moving_format, pattern))
            if pattern:
                program = [
                    (step.instruction, self._sparse(step, stationary, moving, zeros[1], pattern)) for step in steps
                ]
            else:
                program = [
                    (step.instruction, tile_operands(config, step, stationary, moving, zeros, pairs)) for step in steps
                ]
            run = self.run(program)
            failed = run.fields("status")["status"].max()
            if failed != Status.OK:
                raise RuntimeError(f"the engine refused an instruction: {Status(int(failed)).name}")
            cycles += run.stamps["status"][-1] - run.stamps["requests"][0] + 1
            values, _, read = self.read(bank * config.bank_depth + np.arange(len(n_group)))
            bits[m_tile.start : m_tile.stop, n_group.start : n_group.stop] = values[: len(m_tile)]
            read_cycles += read.stamps["results"][-1] - read.stamps["reads"][0] + 1
        return Product(
            bits=bits,
            cycles=int(cycles),
            read_cycles=int(read_cycles),
            utilisation=utilisation(config, k, m, n, int(cycles)),
        )

    def batch(self, stationaries: Sequence[Codes], movings: Sequence[Codes], name: str = "bf16") -> tuple[Bits, int]:
        """Two or four products of one shape side by side, fp32 bits ``[product, M, N]``, and the cycles they took.

        Each has a tile of the rows, ``K <= rows / products``, and a bank of its own, ``N <= bank_depth``.
        """
        config = self.config
        step, (m, n) = config.rows // len(movings), (stationaries[0].shape[1], movings[0].shape[1])
        zeros = _zeros(name)
        operands = []
        for parts, zero in ((stationaries, zeros[0]), (movings, zeros[1])):
            padded = [np.pad(part, ((0, step - len(part)), (0, 0)), constant_values=zero) for part in parts]
            operands.append(np.concatenate(padded))
        code, split = operand_code(name), len(movings).bit_length() - 1
        load = Instruction(operation=Operation.LOAD_STATIONARY, format=code, columns=m)
        matmul = Instruction(operation=Operation.MATMUL, format=code, columns=n, split=split)
        run = self.run([(load, operands[0]), (matmul, operands[1])])
        if run.fields("status")["status"].any():
            raise RuntimeError("the engine refused a batch")
        results = [self.read(bank * config.bank_depth + np.arange(n))[0][:m] for bank in range(len(movings))]
        return np.stack(results), int(run.stamps["status"][-1] - run.stamps["requests"][0] + 1)

    def transpose(self, codes: Codes) -> tuple[Codes, int]:
        """``codes.T`` for elements of 8, 16 or 32 bits ``[P, F]`` of any size, bit by bit, and the cycles it took."""
        config = self.config
        result = np.zeros(codes.shape[::-1], codes.dtype)
        steps = list(transpose_steps(config, codes.shape[0], codes.shape[1], codes.dtype.itemsize * 8))
        tiles = [list(group) for _, group in itertools.groupby(steps, lambda step: (step.k.start, step.m.start))]
        cycles = 0
        for start in range(0, len(tiles), config.psum_banks):
            batch = tiles[start : start + config.psum_banks]
            run = self.run([(step.instruction, self._part(step, codes)) for tile in batch for step in tile])
            cycles += int(run.stamps["status"][-1] - run.stamps["requests"][0] + 1)
            for tile in batch:
                end = tile[-1]
                bits, _, _ = self.read(end.instruction.bank * config.bank_depth + np.arange(len(end.n)))
                result[end.m.start : end.m.stop, end.k.start : end.k.stop] = bits[: len(end.m)]
        return result, cycles

    def _part(self, step: Step, codes: Codes) -> Codes:
        """The data of a load, the identity of a matmul, both with zeros in the rows left over."""
        loading = step.instruction.operation == Operation.LOAD_STATIONARY
        part = codes[step.k.start : step.k.stop, step.m.start : step.m.stop] if loading else np.eye(len(step.n))
        tile = np.zeros((self.config.rows, part.shape[1]), codes.dtype)
        tile[: len(part)] = part
        return tile

    def convolve(self, layer: Convolution, weights: Codes, image: Codes, name: str = "bf16") -> tuple[Bits, int]:
        """fp32 bits ``[outputs, out_height, out_width]`` of a layer, and the cycles it took, block by block."""
        result = np.zeros((layer.outputs, layer.out_height, layer.out_width), np.uint32)
        cycles = 0
        for block in lower(self.config, layer, weights, image, name):
            run = self.run(block.program)
            cycles += int(run.stamps["status"][-1] - run.stamps["requests"][0] + 1)
            count = len(block.rows) * len(block.columns)
            store(result, block, self.read(block.bank * self.config.bank_depth + np.arange(count))[0])
        return result, cycles

    def run(self, program: Program, **settings: Any) -> Result:
        """Run a program until it gave a status for each instruction; ``settings`` are those of :meth:`Model.run`."""
        settings.setdefault("expect", {"status": len(program)})
        return self.model.run(self.inputs(program), **settings)

    def inputs(self, program: Program) -> dict[str, Bits]:
        """The items of the streams that the program takes."""
        return stream_items(self.config, program)

    def read(self, addresses: NDArray[np.integer], **settings: Any) -> tuple[Bits, NDArray[np.bool_], Result]:
        """fp32 bits ``[columns, addresses]`` of PSUM locations, and ``[tiles, addresses]``, which were written."""
        bank, offset = np.divmod(addresses, self.config.bank_depth)
        settings.setdefault("expect", {"results": len(addresses)})
        run = self.model.run({"reads": {"bank": bank, "offset": offset}}, **settings)
        words = run.outputs["results"]
        written = words[:, self.config.columns] >> np.arange(self.config.tiles, dtype=np.uint32)[:, None] & 1
        return words[:, : self.config.columns].T.copy(), written.astype(np.bool_), run

    def _sparse(self, step: Step, stationary: Codes, moving: Codes, zero: int, pattern: str) -> Codes:
        """The operands of a step with a sparse stationary, filled up to all rows, and to all planes."""
        rows = self.config.rows
        if step.instruction.operation == Operation.LOAD_STATIONARY:
            part = stationary[step.k.start : step.k.stop, step.m.start : step.m.stop]
            words = sparse_operands(pattern, FORMAT_NAMES[step.instruction.format], part)
            return np.pad(words, ((0, rows - len(words)), (0, 0)))
        part = moving[step.k.start : step.k.stop, step.n.start : step.n.stop]
        whole = np.pad(part, ((0, rows * ratio(pattern) - len(part)), (0, 0)), constant_values=zero)
        return planes(pattern, whole)


def tile_operands(
    config: TensorConfig, step: Step, stationary: Codes, moving: Codes, zeros: tuple[int, int], pairs: bool = False
) -> Codes:
    """The operands of a step, filled up to all rows with zeros whose product is -0: it changes no sum."""
    loading = step.instruction.operation == Operation.LOAD_STATIONARY
    source, columns, zero = (stationary, step.m, zeros[0]) if loading else (moving, step.n, zeros[1])
    part = source[step.k.start : step.k.stop, columns.start : columns.stop]
    if pairs:
        part, zero = paired(part, zero), zero << 8 | zero
    tile = np.full((config.rows, len(columns)), zero, part.dtype)
    tile[: len(part)] = part
    return tile


def _zeros(name: str) -> tuple[int, int]:
    """Stationary and moving operand whose product is -0 and changes no sum."""
    if name not in QUADS:
        return 0, 1 << (FLOATS[name].storage - 1)
    width, scale = FLOATS[QUADS[name]].storage, SCALE.bias << SCALE_SHIFT
    return scale, scale | sum(1 << (index * width + width - 1) for index in range(4))


def stream_items(config: TensorConfig, program: Program) -> dict[str, Bits]:
    """The items of each stream that a program takes, as words ``[item, word]``."""
    rows = [dataclasses.asdict(instruction) for instruction, _ in program]
    fields = {name: np.array([int(row[name]) for row in rows]) for name in rows[0]}
    found = {"requests": pack_array(request_layout(config), fields)}
    for name, operation, lanes in (
        ("stationary", Operation.LOAD_STATIONARY, config.load_columns),
        ("moving", Operation.MATMUL, 1),
    ):
        moving = operation == Operation.MATMUL
        items = [
            operand_items(config, codes, lanes, moving=moving) for one, codes in program if one.operation == operation
        ]
        if items:
            found[name] = np.concatenate(items)
    return found


def operand_items(config: TensorConfig, codes: Codes, lanes: int, *, moving: bool) -> Bits:
    """Codes ``[rows, columns]`` as words of stream items of ``lanes`` columns each; what is missing is zero.

    Those of moving columns may have all planes, ``[planes * rows, columns]``.
    """
    count = -(-codes.shape[1] // lanes)
    rows = config.planes * config.rows if moving else config.rows
    words = np.zeros((count * lanes, rows), np.uint64)
    words[: codes.shape[1], : len(codes)] = codes.T
    dtype = {8: np.uint8, 16: np.uint16, 32: np.uint32}[config.operand_bits]
    parts: list[Codes] = [words.astype(dtype).view(np.uint8).reshape(count * lanes, rows * config.operand_bits // 8)]
    parts.append((words[:, ::QUAD_ROWS][:, : config.scales] >> np.uint64(SCALE_SHIFT)).astype(np.uint8))
    if config.sparsity and not moving:
        tags = (words >> np.uint64(TAG_SHIFT)).astype(np.uint8)
        parts.append((tags[:, ::2] | tags[:, 1::2] << TAG_BITS).astype(np.uint8))
    octets = np.concatenate(parts, axis=1)
    octets = octets.reshape(count, lanes * octets.shape[1])
    padded = np.zeros((count, -(-octets.shape[1] // 4) * 4), np.uint8)
    padded[:, : octets.shape[1]] = octets
    return padded.view(np.uint32)
