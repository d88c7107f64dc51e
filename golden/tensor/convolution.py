"""Two-dimensional convolution as matmuls over access patterns: no copy of the image is rearranged (no im2col).

The image lies in memory channel by channel, one channel a partition, with a border of zeros as wide as the padding. One
tap of the kernel at one tile of output pixels is a strided rectangle of it, which the moving operands walk through.
"""

import dataclasses
from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from golden.tensor.array import Codes, Engine
from golden.tensor.gemm import tiles
from golden.tensor.program import Instruction, timing
from spec.formats import FLOATS
from spec.parameters import Parameters, parameter, refuse
from spec.tensor import Operation, TensorConfig, operand_code


@dataclasses.dataclass(frozen=True, kw_only=True)
class Convolution(Parameters):
    """The shape of one layer: ``[channels, height, width]`` to ``[outputs, out_height, out_width]``."""

    channels: int = parameter(low=1, high=1 << 16, doc="input channels")
    outputs: int = parameter(low=1, high=1 << 16, doc="output channels")
    height: int = parameter(unit="pixels", low=1, high=1 << 16, doc="height of the image")
    width: int = parameter(unit="pixels", low=1, high=1 << 16, doc="width of the image")
    kernel: int = parameter(3, unit="pixels", low=1, high=1 << 8, doc="side of the kernel")
    stride: int = parameter(1, unit="pixels", low=1, high=1 << 8, doc="step from one output to the next")
    padding: int = parameter(0, unit="pixels", low=0, high=1 << 8, doc="zeros on each side of the image")
    dilation: int = parameter(1, unit="pixels", low=1, high=1 << 8, doc="step from one tap of the kernel to the next")
    groups: int = parameter(1, low=1, high=1 << 16, doc="parts of the channels that are convolved apart")

    def check(self) -> None:
        """Refuse groups that do not divide the channels, and a kernel larger than the padded image."""
        if self.channels % self.groups or self.outputs % self.groups:
            legal = f"a divisor of {self.channels} channels and of {self.outputs} outputs"
            raise refuse("Convolution", "groups", self.groups, legal)
        if min(self.out_height, self.out_width) < 1:
            raise refuse("Convolution", "kernel", self.kernel, "no larger than the padded image, dilation included")

    def _out(self, size: int) -> int:
        return (size + 2 * self.padding - self.dilation * (self.kernel - 1) - 1) // self.stride + 1

    @property
    def out_height(self) -> int:
        """Height of the result."""
        return self._out(self.height)

    @property
    def out_width(self) -> int:
        """Width of the result."""
        return self._out(self.width)


@dataclasses.dataclass(frozen=True)
class Pattern:
    """An access pattern: ``partitions`` from ``start`` on, in each the same elements ``offset + i * step``."""

    start: int
    partitions: int
    offset: int
    steps: tuple[tuple[int, int], ...]
    """``(step, count)`` from the slowest to the fastest."""

    def of(self, memory: Codes) -> Codes:
        """The elements ``[partitions, count]`` of a memory ``[partition, element]``, as a view where numpy can."""
        rows = memory[self.start : self.start + self.partitions, self.offset :]
        size = memory.itemsize
        shape = (self.partitions, *(count for _, count in self.steps))
        view = as_strided(rows, shape, (memory.strides[0], *(step * size for step, _ in self.steps)), writeable=False)
        return view.reshape(self.partitions, -1)


@dataclasses.dataclass(frozen=True)
class Block:
    """Part of a convolution that fills one bank: its program, and where its results belong."""

    program: list[tuple[Instruction, Codes]]
    bank: int
    outputs: range
    rows: range
    columns: range


def lower(
    config: TensorConfig, layer: Convolution, weights: Codes, image: Codes, name: str = "bf16"
) -> Iterator[Block]:
    """The programs of a layer; codes ``[outputs, channels / groups, kernel, kernel]``, ``[channels, height, width]``.

    The sum runs over the taps of the kernel, row by row, for each over the channels in passes of ``rows``, accumulated
    in PSUM in this order. Groups that fit beside each other share a pass, with zero weights between them.
    """
    edge = ((0, 0), (layer.padding, layer.padding), (layer.padding, layer.padding))
    padded = np.pad(image, edge)
    pitch = padded.shape[2]
    memory = padded.reshape(layer.channels, -1)
    across = min(layer.out_width, config.bank_depth)
    down = max(1, config.bank_depth // across)
    count = 0
    for channels, outputs in _parts(config, layer):
        for rows in tiles(layer.out_height, down):
            for columns in tiles(layer.out_width, across):
                bank = count % config.psum_banks
                program: list[tuple[Instruction, Codes]] = []
                for tap in range(layer.kernel * layer.kernel):
                    y, x = (layer.dilation * step for step in divmod(tap, layer.kernel))
                    offset = (rows.start * layer.stride + y) * pitch + columns.start * layer.stride + x
                    steps = ((layer.stride * pitch, len(rows)), (layer.stride, len(columns)))
                    for part in tiles(len(channels), config.rows):
                        pattern = Pattern(channels.start + part.start, len(part), offset, steps)
                        stationary = _stationary(layer, weights, tap, pattern, outputs)
                        program += _pass(config, stationary, pattern.of(memory), bank, bool(program), name)
                yield Block(program, bank, outputs, rows, columns)
                count += 1


def _parts(config: TensorConfig, layer: Convolution) -> Iterator[tuple[range, range]]:
    """Channels and the outputs they make, as many groups together as the array holds side by side."""
    inputs, outputs = layer.channels // layer.groups, layer.outputs // layer.groups
    together = max(1, min(config.rows // inputs, config.columns // outputs))
    for groups in tiles(layer.groups, together):
        channels = range(groups.start * inputs, groups.stop * inputs)
        made = range(groups.start * outputs, groups.stop * outputs)
        for part in tiles(len(made), config.columns):
            yield channels, range(made.start + part.start, made.start + part.stop)


def _stationary(layer: Convolution, weights: Codes, tap: int, pattern: Pattern, outputs: range) -> Codes:
    """Weights of one tap, ``[partitions, outputs]``, zero where channel and output are of different groups."""
    inputs, made = layer.channels // layer.groups, layer.outputs // layer.groups
    channels = np.arange(pattern.start, pattern.start + pattern.partitions)[:, None]
    chosen = np.arange(outputs.start, outputs.stop)[None]
    values = weights.reshape(layer.outputs, inputs, -1)[chosen, channels % inputs, tap]
    return np.where(channels // inputs == chosen // made, values, 0).astype(weights.dtype)


def _pass(
    config: TensorConfig, stationary: Codes, moving: Codes, bank: int, accumulate: bool, name: str
) -> list[tuple[Instruction, Codes]]:
    """A load and a matmul; rows left over get operands whose product is -0."""
    code = operand_code(name)
    load = Instruction(operation=Operation.LOAD_STATIONARY, format=code, columns=stationary.shape[1])
    matmul = Instruction(
        operation=Operation.MATMUL, format=code, columns=moving.shape[1], bank=bank, accumulate=accumulate
    )
    left = ((0, config.rows - len(stationary)), (0, 0))
    minus_zero = 1 << (FLOATS[name].storage - 1)
    return [(load, np.pad(stationary, left)), (matmul, np.pad(moving, left, constant_values=minus_zero))]


def convolve(
    config: TensorConfig, layer: Convolution, weights: Codes, image: Codes, name: str = "bf16"
) -> NDArray[np.uint32]:
    """fp32 bits ``[outputs, out_height, out_width]`` of a layer, as its programs compute them."""
    engine = Engine(config)
    result = np.zeros((layer.outputs, layer.out_height, layer.out_width), np.uint32)
    for block in lower(config, layer, weights, image, name):
        for instruction, codes in block.program:
            engine.execute(instruction, codes)
        start = block.bank * config.bank_depth
        store(result, block, engine.psum[:, start:])
    return result


def store(result: NDArray[np.uint32], block: Block, psum: NDArray[np.uint32]) -> None:
    """Put the results of a block, in PSUM by column of the array, in their place."""
    shape = (len(block.outputs), len(block.rows), len(block.columns))
    values = psum[: shape[0], : shape[1] * shape[2]].reshape(shape)
    rows, columns = slice(block.rows.start, block.rows.stop), slice(block.columns.start, block.columns.stop)
    result[block.outputs.start : block.outputs.stop, rows, columns] = values


def convolution_cycles(config: TensorConfig, layer: Convolution) -> int:
    """Cycles of all programs of a layer, back to back."""
    weights = np.zeros((layer.outputs, layer.channels // layer.groups, layer.kernel, layer.kernel), np.uint16)
    image = np.zeros((layer.channels, layer.height, layer.width), np.uint16)
    blocks = lower(config, layer, weights, image, config.formats[0])
    return timing(config, (instruction for block in blocks for instruction, _ in block.program))[-1].done + 1
