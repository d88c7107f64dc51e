"""Tensors of a program: tiles of SBUF and PSUM, arrays in HBM, and views of both by slicing."""

import dataclasses
from typing import Any, Self

import ml_dtypes
import numpy as np

from golden.core.order import Box
from golden.core.pattern import element_bytes
from spec.formats import FLOATS
from spec.parameters import refuse
from spec.tensor import QUADS

DTYPES: dict[str, Any] = {
    "fp32": np.float32,
    "tf32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp8_e4m3": ml_dtypes.float8_e4m3,
    "fp8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
    "fp8_e3m4": ml_dtypes.float8_e3m4,
    "fp4_e2m1": ml_dtypes.float4_e2m1fn,
    **{f"{kind}{bits}": np.dtype(f"{kind}{bits}").type for kind in ("int", "uint") for bits in (8, 16, 32)},
}
"""The numpy type of each element format."""


@dataclasses.dataclass(frozen=True)
class View:
    """An array in a memory: ``offset`` in bytes, ``steps`` in bytes for each dimension of ``shape``.

    Of a tile the first dimension is the partitions; its step is the distance in partitions, and must stay 1.
    """

    memory: str
    format: str
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    offset: int
    start: int = 0
    name: str = ""

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return element_bytes(self.format)

    @property
    def tile(self) -> bool:
        """Whether the first dimension is partitions."""
        return self.memory != "hbm"

    @property
    def partitions(self) -> int:
        """Partitions of a tile."""
        return self.shape[0]

    @property
    def free(self) -> tuple[int, ...]:
        """Free dimensions of a tile, outermost first."""
        return self.shape[1:]

    @property
    def elements(self) -> int:
        """Elements of one partition."""
        return int(np.prod(self.free, dtype=int))

    @property
    def box(self) -> Box:
        """What the view covers."""
        dims = slice(1, None) if self.tile else slice(None)
        ends = [(num - 1) * step for num, step in zip(self.shape[dims], self.steps[dims], strict=True)]
        low = self.offset + sum(min(0, end) for end in ends)
        high = self.offset + sum(max(0, end) for end in ends) + self.size
        held = range(self.start, self.start + self.shape[0]) if self.tile else range(1)
        return Box(self.memory, held, low, high)

    def __getitem__(self, key: Any) -> Self:
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > len(self.shape):
            raise refuse(self.name or "tensor", "index", key, f"at most {len(self.shape)} dimensions")
        shape, steps, offset, start = [], [], self.offset, self.start
        for axis, size in enumerate(self.shape):
            one = keys[axis] if axis < len(keys) else slice(None)
            if isinstance(one, slice):
                first, stop, step = one.indices(size)
                count = len(range(first, stop, step))
            else:
                first, count, step = range(size)[one], 1, 1
            if count == 0 or (self.tile and axis == 0 and step != 1):
                raise refuse(self.name or "tensor", "index", key, "not empty; partitions without a step")
            if self.tile and axis == 0:
                start += first
            else:
                offset += first * self.steps[axis]
            if isinstance(one, slice) or (self.tile and axis == 0):
                shape.append(count)
                steps.append(self.steps[axis] * step)
        return dataclasses.replace(self, shape=tuple(shape), steps=tuple(steps), offset=offset, start=start)

    def permute(self, *axes: int) -> Self:
        """Dimensions in another order; a tile's partitions stay first."""
        if sorted(axes) != list(range(len(self.shape))) or (self.tile and axes[0] != 0):
            raise refuse(self.name or "tensor", "axes", axes, "each dimension once, partitions of a tile first")
        shape, steps = tuple(self.shape[a] for a in axes), tuple(self.steps[a] for a in axes)
        return dataclasses.replace(self, shape=shape, steps=steps)

    @property
    def T(self) -> Self:  # noqa: N802 - numpy's name
        """Dimensions in reverse."""
        return self.permute(*reversed(range(len(self.shape))))

    def split(self, axis: int, inner: int) -> Self:
        """Dimension ``axis`` as two, the second of ``inner`` elements."""
        if self.shape[axis] % inner or (self.tile and axis == 0):
            raise refuse(self.name or "tensor", "inner", inner, f"a divisor of {self.shape[axis]}, not of partitions")
        shape = (*self.shape[:axis], self.shape[axis] // inner, inner, *self.shape[axis + 1 :])
        steps = (*self.steps[:axis], self.steps[axis] * inner, self.steps[axis], *self.steps[axis + 1 :])
        return dataclasses.replace(self, shape=shape, steps=steps)

    def repeat(self, axis: int, count: int) -> Self:
        """A dimension of ``count`` before ``axis`` that stays in place: a broadcast."""
        shape, steps = (*self.shape[:axis], count, *self.shape[axis:]), (*self.steps[:axis], 0, *self.steps[axis:])
        return dataclasses.replace(self, shape=shape, steps=steps)

    def cast(self, format_: str) -> Self:
        """The same bytes as elements of another format of the same size."""
        if element_bytes(format_) != self.size:
            raise refuse(self.name or "tensor", "format", format_, f"a format of {self.size} bytes")
        return dataclasses.replace(self, format=format_)


@dataclasses.dataclass(frozen=True)
class Scaled:
    """Microscaled operands as ``quantize_mx`` writes them: for each column of the tile a row of scales, one of words.

    ``format`` is that of the elements, of which a lane's word has four.
    """

    tile: View
    format: str

    @property
    def elements(self) -> View:
        """The packed elements, ``(partitions, columns)``."""
        word = "uint32" if FLOATS[self.format].storage == 8 else "uint16"
        return dataclasses.replace(self.tile[:, :, 1], format=word)

    @property
    def scales(self) -> View:
        """Their scales, of which those of the first lane of each eight count."""
        return dataclasses.replace(self.tile[:, :, 0], format="uint8")

    @property
    def operand(self) -> str:
        """Operand format of the tensor engine."""
        return next(name for name, element in QUADS.items() if element == self.format)

    def __getitem__(self, key: Any) -> Self:
        """Some partitions, some columns."""
        return dataclasses.replace(self, tile=self.tile[key])


@dataclasses.dataclass(frozen=True)
class Sparse:
    """A stationary of structured sparsity: ``(partitions, columns)`` of numbers, and of tags, a byte each.

    Tag ``4 * plane + index`` multiplies a number with that plane of the moving operand in row ``index`` of its four.
    """

    elements: View
    tags: View


def contiguous(memory: str, format_: str, shape: tuple[int, ...], offset: int, start: int = 0, name: str = "") -> View:
    """A new view without gaps; of a tile each partition holds its free dimensions so."""
    size = element_bytes(format_)
    steps, step = [], size
    for num in reversed(shape):
        steps.append(step)
        step *= num
    steps.reverse()
    if memory != "hbm":
        steps[0] = 1
    return View(memory, format_, shape, tuple(steps), offset, start, name)
