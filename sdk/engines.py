"""The engines' instructions as methods: views in, fields of the instruction set out."""

from typing import TYPE_CHECKING, Any

import numpy as np

from golden.core.pattern import operand_bytes
from sdk.tensors import Scaled, Sparse, View
from spec.isa import BESIDE_BYTES, CONSTANT_OFFSET_BITS, DIMENSIONS
from spec.parameters import refuse
from spec.tensor import operand_code
from spec.vector import MX_ROWS, OPERATIONS, SEARCH_SLOTS

if TYPE_CHECKING:
    from sdk.program import Program

Constant = float | View
Operand = View | Scaled | Sparse
LEFTOVER = {"fp32": ("fp32_low", "fp32_high")}


def pattern(name: str, view: View, size: int | None = None) -> dict[str, Any]:
    """Fields of a pattern for a tile."""
    if not view.tile or len(view.free) > DIMENSIONS:
        raise refuse(name, "view", view.shape, f"a tile of SBUF or PSUM with up to {DIMENSIONS} free dimensions")
    size = view.size if size is None else size
    fields: dict[str, Any] = {
        f"{name}.memory": view.memory,
        f"{name}.start": view.start,
        f"{name}.partitions": view.partitions,
        f"{name}.offset": view.offset,
    }
    free = list(zip(reversed(view.free), reversed(view.steps[1:]), strict=True))
    for dimension in range(DIMENSIONS):
        num, step = free[dimension] if dimension < len(free) else (1, 0)
        fields |= {f"{name}.num{dimension}": num, f"{name}.step{dimension}": step // size}
    return fields


def word_of(value: float) -> int:
    """The pattern of an fp32 number."""
    return int(np.float32(value).view(np.uint32))


def constant(name: str, value: Constant, raw: bool = False) -> tuple[dict[str, Any], list[View]]:
    """Fields of a constant: a number, or a tile of one word per partition."""
    if not isinstance(value, View):
        return {name: int(value) & 0xFFFFFFFF if raw else word_of(value)}, []
    if value.memory != "sbuf" or value.elements != 1 or value.size != 4:
        raise refuse(name, "tile", value.shape, "SBUF, one element of 4 bytes a partition")
    return {f"{name}_per_lane": 1, name: value.start << CONSTANT_OFFSET_BITS | value.offset}, [value]


class TensorQueue:
    """Matrix products."""

    def __init__(self, program: "Program") -> None:
        self.program = program

    def load_stationary(self, operand: Operand, format_: str | None = None) -> None:
        """K partitions, M columns."""
        view, beside, fields = self._operand(operand, format_)
        fields |= {"columns": view.elements, "sparse": int(isinstance(operand, Sparse))}
        self.program.add("tensor", "load_stationary", fields, [view, *beside], [])

    def move(
        self,
        result: View,
        operand: View | Scaled,
        *,
        accumulate: bool = False,
        format_: str | None = None,
        planes: bool = False,
    ) -> None:
        """Multiply the stationary loaded last with K partitions, N columns, into PSUM.

        With ``planes``, what a sparse stationary chooses from, the first free dimension is theirs.
        """
        view, beside, fields = self._operand(operand, format_, planes)
        columns = view.elements // (view.shape[1] if planes else 1)
        if result.memory != "psum" or result.elements != columns:
            raise refuse("matmul", "result", result.shape, f"PSUM, {columns} columns")
        fields |= {
            "columns": columns,
            "location": result.offset // 4,
            "accumulate": int(accumulate),
            "sparse": int(planes),
        }
        self.program.add("tensor", "matmul", fields, [view, *beside, *([result] if accumulate else [])], [result])

    def matmul(self, result: View, stationary: Operand, moving: View | Scaled, *, accumulate: bool = False) -> None:
        """``result (+)= stationary.T @ moving``; fp32 operands take four passes.

        With a sparse stationary the first free dimension of ``moving`` are the planes that it chooses from. Microscaled
        operands multiply four times as many rows.
        """
        sparse = isinstance(stationary, Sparse)
        numbers = stationary.elements if isinstance(stationary, Sparse) else stationary
        for one in LEFTOVER.get(numbers.format, (None,)):
            self.load_stationary(stationary, one)
            for other in LEFTOVER.get(moving.format, (None,)):
                self.move(result, moving, accumulate=accumulate, format_=other, planes=sparse)
                accumulate = True

    @staticmethod
    def _operand(
        operand: Operand, format_: str | None, planes: bool = False
    ) -> tuple[View, list[View], dict[str, Any]]:
        """The operand's elements, what is beside them, and the fields of both."""
        view = operand if isinstance(operand, View) else operand.elements
        beside: list[View] = []
        name = format_ or view.format
        if isinstance(operand, Scaled):
            name, beside = operand.operand, [operand.scales]
        elif isinstance(operand, Sparse):
            beside = [operand.tags]
        code = operand_code(name)
        size = operand_bytes(code)
        fields: dict[str, Any] = {"format": code, **pattern("source", view[:, 0] if planes else view, size)}
        if planes:
            if fields["source.num3"] != 1:
                raise refuse("matmul", "moving", view.shape, f"planes and up to {DIMENSIONS - 1} dimensions of columns")
            fields |= {"source.num3": view.shape[1], "source.step3": view.steps[1] // size}
        for one in beside:
            fields |= pattern("beside", one, BESIDE_BYTES)
        return view, beside, fields


class VectorQueue:
    """Element-wise operations, reductions, scans, searches."""

    def __init__(self, program: "Program") -> None:
        self.program = program

    def _add(
        self,
        opcode: str,
        output: View | None,
        left: View | None = None,
        right: View | None = None,
        constants: dict[str, Constant] | None = None,
        **fields: Any,
    ) -> None:
        reads = [view for view in (left, right) if view is not None]
        raw = any(OPERATIONS[fields[key]].raw for key in ("op0", "op1") if key in fields)
        for name, view in (("left", left), ("right", right), ("output", output)):
            if view is not None:
                fields = {f"{name}_format": view.format, **pattern(name, view)} | fields
        for name, value in (constants or {}).items():
            found, tiles = constant(name, value, raw)
            fields |= found
            reads += tiles
        writes = [] if output is None else [output]
        if opcode in ("tensor_copy_predicated", "nc_stream_shuffle"):
            reads += writes
        self.program.add("vector", f"vector.{opcode}", fields, reads, writes)

    def tensor_tensor(self, output: View, left: View, right: View, op: str, **options: Any) -> None:
        """``output = left op right``."""
        self._add("tensor_tensor", output, left, right, op0=op, length=output.elements, **options)

    def tensor_scalar(
        self, output: View, left: View, op0: str, c0: Constant, op1: str = "bypass", c1: Constant = 0.0, **options: Any
    ) -> None:
        """``output = (left op0 c0) op1 c1``."""
        constants = {"c0": c0, "c1": c1}
        self._add(
            "tensor_scalar", output, left, constants=constants, op0=op0, op1=op1, length=output.elements, **options
        )

    def scalar_tensor_tensor(
        self, output: View, left: View, op0: str, c0: Constant, op1: str, right: View, **options: Any
    ) -> None:
        """``output = (left op0 c0) op1 right``."""
        name = "scalar_tensor_tensor"
        self._add(name, output, left, right, {"c0": c0}, op0=op0, op1=op1, length=output.elements, **options)

    def tensor_tensor_scan(
        self, output: View, left: View, right: View, op0: str, op1: str, initial: Constant = 0.0, **options: Any
    ) -> None:
        """``r = (left op0 r) op1 right``, element after element."""
        name = "tensor_tensor_scan"
        self._add(name, output, left, right, {"c0": initial}, op0=op0, op1=op1, length=output.elements, **options)

    def tensor_reduce(self, output: View, left: View, op: str, *, negate: bool = False) -> None:
        """``output[i] = op over group i of left``; as many groups as the output has elements."""
        group = left.elements // output.elements
        fields: dict[str, Any] = {"op1": op, "length": left.elements, "group": group, "negate": int(negate)}
        self._add("tensor_reduce", output, left, **fields)

    def tensor_copy(self, output: View, left: View, **options: Any) -> None:
        """``output = left``, cast where the formats differ."""
        self._add("tensor_copy", output, left, length=output.elements, **options)

    def tensor_copy_predicated(self, output: View, left: View, predicate: View, **options: Any) -> None:
        """``output = left`` where the predicate is not 0."""
        self._add("tensor_copy_predicated", output, left, predicate, length=output.elements, **options)

    def select(self, output: View, predicate: View, on_true: View, on_false: Constant, **options: Any) -> None:
        """``output = on_true`` where the predicate is not 0, else ``on_false``."""
        self._add("select_reduce", output, on_true, predicate, {"c0": on_false}, length=output.elements, **options)

    def range_select(
        self, output: View, left: View, op0: str, c0: Constant, op1: str, c1: Constant, start: int = 0, **options: Any
    ) -> None:
        """``left`` where the index compares so with both bounds, else the lowest number."""
        fields: dict[str, Any] = {"op0": op0, "op1": op1, "start": start, "length": output.elements}
        self._add("range_select", output, left, constants={"c0": c0, "c1": c1}, **fields, **options)

    def memset(self, output: View, value: float) -> None:
        """``output = value``."""
        self._add("memset", output, constants={"c0": value}, length=output.elements)

    def reciprocal(self, output: View, left: View) -> None:
        """``1 / left``."""
        self._add("reciprocal", output, left, length=output.elements)

    def rng(self, output: View) -> None:
        """Random words."""
        self._add("rng", output, length=output.elements)

    def set_seed(self, seeds: View) -> None:
        """States of the random generators, one a partition."""
        self._add("set_seed", None, constants={"c0": seeds}, length=1)

    def read_accumulator(self, output: View) -> None:
        """The accumulators of ``select`` and ``range_select``."""
        self._add("read_accumulator", output, length=1)

    def max8(self, output: View, left: View) -> None:
        """The eight largest elements of each partition, descending."""
        self._search("max8", output, left, SEARCH_SLOTS)

    def match_replace8(self, output: View, values_and_data: View, replacement: float) -> None:
        """The data, with the first element equal to each of the eight values before it replaced."""
        fields: dict[str, Any] = {"length": output.elements}
        self._add("nc_match_replace8", output, values_and_data, constants={"c0": replacement}, **fields)

    def stream_shuffle(self, output: View, left: View, sources: View) -> None:
        """Partition ``i`` of each quadrant takes partition ``sources[i]``, words; where that is 255 nothing changes."""
        self._add("nc_stream_shuffle", output, left, constants={"c0": sources}, length=output.elements)

    def transpose(self, output: View, left: View) -> None:
        """Each square block of elements and partitions, transposed."""
        self._add("nc_transpose", output, left, length=output.elements)

    def bn_stats(self, output: View, left: View) -> None:
        """Six numbers a partition: count, mean, count * variance of the even elements, then of the odd ones."""
        self._add("bn_stats", output, left, length=left.elements)

    def bn_aggr(self, output: View, left: View) -> None:
        """Mean and variance of all elements behind triples of ``bn_stats``."""
        self._add("bn_aggr", output, left, length=left.elements)

    def quantize_mx(self, output: Scaled, left: View) -> None:
        """Four elements a lane and column, ``(partitions, columns, 4)``, become microscaled operands."""
        if left.elements != MX_ROWS * output.elements.elements:
            raise refuse("quantize_mx", "left", left.shape, "four elements for each column of the output")
        self._add("quantize_mx", output.tile, left, output_format=output.format, length=left.elements)

    def find_index8(self, output: View, values_and_data: View) -> None:
        """Indices of the first eight elements among the others, which follow them."""
        self._search("nc_find_index8", output, values_and_data, SEARCH_SLOTS)

    def _search(self, opcode: str, output: View, left: View, count: int) -> None:
        if output.elements != count:
            raise refuse(opcode, "output", output.shape, f"{count} elements a partition")
        length = left.elements - (0 if opcode == "max8" else SEARCH_SLOTS)
        self._add(opcode, output, left, length=length)


class ScalarQueue:
    """Functions of one element."""

    def __init__(self, program: "Program") -> None:
        self.program = program

    def activation(
        self,
        output: View,
        source: View,
        function: str,
        *,
        scale: Constant = 1.0,
        bias: Constant = -0.0,
        alpha: float = 0.0,
        reduce: str = "idle",
        saturate: bool = False,
    ) -> None:
        """``output = function(source * scale + bias)``; ``reduce`` adds results to the accumulators."""
        functions = self.program.config.scalar.functions
        if function not in functions:
            raise refuse("activation", "function", function, "one of " + ", ".join(functions))
        fields = {"function": functions.index(function), "alpha": word_of(alpha), "reduce": reduce}
        self._add("activation", output, source, {"scale": scale, "bias": bias}, saturate=int(saturate), **fields)

    def tensor_copy(self, output: View, source: View) -> None:
        """``output = source``, cast where the formats differ."""
        self._add("tensor_copy", output, source, {})

    def tensor_scalar(self, output: View, source: View, *, scale: Constant = 1.0, bias: Constant = -0.0) -> None:
        """``output = source * scale + bias``."""
        self._add("tensor_scalar", output, source, {"scale": scale, "bias": bias})

    def read_accumulator(self, output: View) -> None:
        """What ``reduce`` added up, one number a partition."""
        self._add("read_accumulator", output, None, {})

    def _add(
        self, opcode: str, output: View, source: View | None, constants: dict[str, Constant], **fields: Any
    ) -> None:
        reads = [] if source is None else [source]
        fields |= {"output_format": output.format, "length": output.elements, **pattern("output", output)}
        if source is not None:
            fields |= {"input_format": source.format, **pattern("input", source)}
        for name, value in constants.items():
            found, tiles = constant(name, value)
            fields |= found
            reads += tiles
        self.program.add("scalar", f"scalar.{opcode}", fields, reads, [output])
