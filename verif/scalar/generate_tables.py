"""Write ``spec/function_tables``: fit every function of ``spec/functions.py`` and record the error achieved.

``make tables``, or ``python -m verif.scalar.generate_tables [function ...]``.
"""

import dataclasses
import itertools
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import numpy.typing as npt

from golden.scalar.functions import Evaluator
from spec import tables
from spec.functions import FUNCTIONS, TABULATED, TAIL_CONSTANT_FRACTION, TAIL_FRACTION_BITS, TAIL_INDEX_BITS
from verif.scalar.fit import BASE, DEGREE, NODES, GenerationError, Side, bits_of, shorten
from verif.scalar.references import formula, reference, root_of, ulp_error

Array = npt.NDArray[np.float64]
DIGITS = 40
ULP_TARGET = 2.0
SETTLE_PARTS, SETTLE_MOST = 32, 6
"""A constant moves by at most so many of so many parts of the place of the large term."""
SETTLE_SLOPE = 1
"""A slope moves by at most so many of its last places."""
LAST_EXPONENT = 127 + 8
"""Exponent field from which every result with a tail is 0 or infinite."""


def nudge(table: tables.FunctionTable, tail: tables.TailTable) -> tables.FunctionTable:
    """Move constants by a fraction of a unit until every bf16 argument gives the correctly rounded bf16 result.

    Only arguments whose true value lies within a unit of the middle between two bf16 numbers can need it.
    """
    for _ in range(60):
        evaluator = Evaluator(table, tail)
        x, wrong, upward = bf16_errors(table.function, evaluator)
        if not wrong.any():
            return table
        segments = list(table.segments)
        for index, up in {
            (int(i), bool(u)) for i, u in zip(evaluator.segment_of(x[wrong]), upward[wrong], strict=True)
        }:
            old = segments[index]
            name = "hi" if old.base == BASE["log"] else "lo"
            constant = float(np.uint32(getattr(old, name)).view(np.float32))
            large = np.abs(np.uint32(old.hi).view(np.float32))
            size = float(np.spacing(large)) if old.base == BASE["hi"] else abs(constant) * 2**-6
            step = size / 16
            segments[index] = dataclasses.replace(
                old, **{name: bits_of(shorten(constant + (step if up else -step), name))}
            )
        table = dataclasses.replace(table, segments=tuple(segments))
    bad = [f"{float(a)!r}" for a in x[wrong]]
    raise GenerationError(f"{table.function}: bf16 results at {', '.join(bad[:8])} stay wrong")


def settle(table: tables.FunctionTable, tail: tables.TailTable) -> tables.FunctionTable:
    """Move constant and slope of a segment with a tail that is wrong by more than the target at any of its arguments.

    The fit looks at samples; three roundings of a product meet at their worst at few arguments.
    """
    for number, x in dense_arguments(table):
        truth = reference(table.function, x)
        old = table.segments[number]
        high, low, slope = (float(np.uint32(word).view(np.float32)) for word in (old.hi, old.lo, old.c1))
        step, place = (float(np.spacing(np.float32(abs(value)))) for value in (high, slope))
        step /= SETTLE_PARTS
        tried = {}
        moves = itertools.product(range(-SETTLE_MOST, SETTLE_MOST + 1), range(-SETTLE_SLOPE, SETTLE_SLOPE + 1))
        for move, turn in sorted(moves, key=lambda pair: (abs(pair[1]), abs(pair[0]))):
            segment = dataclasses.replace(
                old,
                lo=bits_of(shorten(low + move * step, "lo")) if move else old.lo,
                c1=bits_of(shorten(slope + turn * place, "c1")),
            )
            segments = (*table.segments[:number], segment, *table.segments[number + 1 :])
            candidate = dataclasses.replace(table, segments=segments)
            evaluator = Evaluator(candidate, tail)
            worst = float(ulp_error(evaluator(x), truth).max())
            tried[move, turn] = worst, candidate, evaluator
            if move == turn == 0 and worst <= ULP_TARGET:
                break
        for _, candidate, evaluator in sorted(tried.values(), key=lambda entry: entry[0]):
            if len(tried) == 1 or not bf16_errors(table.function, evaluator)[1].any():
                table = candidate
                break
    return table


def dense_arguments(table: tables.FunctionTable) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
    """Every argument that sampling does not settle: of each segment with a tail its number and its arguments.

    Of functions whose reduction takes the exponent out, every significand with both parities of the exponent: the
    result of any other argument is one of theirs times a power of two.
    """
    function = FUNCTIONS[table.function]
    if function.reduction in ("reciprocal", "sqrt", "rsqrt"):
        for exponent in (127, 128):
            yield 0, (np.arange(1 << 23, dtype=np.uint32) | np.uint32(exponent << 23)).view(np.float32)
        return
    for number, side in enumerate(table.sides):
        signs = (0, 1) if len(table.sides) == 1 and function.symmetry == "none" else (number,)
        for index, (start, bits) in enumerate(side.binades):
            for piece in range(1 << bits):
                if table.segments[start + piece].tail and side.first + index < LAST_EXPONENT:
                    low = (side.first + index) << 23 | piece << (23 - bits)
                    for sign in signs:
                        pattern = np.arange(low, low + (1 << 23 - bits), dtype=np.uint32) | np.uint32(sign << 31)
                        yield start + piece, pattern.view(np.float32)


def bf16_arguments() -> npt.NDArray[np.float32]:
    """All 65,536 as fp32."""
    return (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32)


def bf16_errors(name: str, evaluator: Callable[[Any], Any]) -> tuple[Any, Any, Any]:
    """Arguments, where the bf16 result is wrong, and where it should be larger in magnitude of the polynomial."""
    x = bf16_arguments()
    function = FUNCTIONS[name]
    legal = np.isfinite(x) & (x != 0) & (np.abs(x) <= function.limit)
    if function.negative is not None:
        legal &= x > 0
    x = x[legal]
    with np.errstate(all="ignore"):
        truth = round_to_bf16(reference(name, x))
        got = evaluator(x).astype(ml_dtypes.bfloat16).astype(np.float64)
    wrong = ~((got == truth) | (np.isnan(got) & np.isnan(truth)))
    upward = truth > got
    if function.symmetry == "odd":
        upward = np.where(x < 0, ~upward, upward)
    return x, wrong, upward


def round_to_bf16(value: Array) -> Array:
    """float64 to the nearest bf16 in one rounding, ties to even."""
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(value)
        quantum = np.maximum(exponent - 8, -133)
        rounded = np.ldexp(np.rint(np.ldexp(value, -quantum)), quantum)
        rounded = np.where(np.abs(rounded) >= 2.0**128, np.copysign(np.inf, value), rounded)
        return np.where(np.isfinite(value), rounded, value)


def tail_rows() -> tables.TailTable:
    """The table of ``2**f``."""
    rows = []
    count = 1 << TAIL_INDEX_BITS
    for index in range(count):
        middle, half = (index + 0.5) / count, 0.5 / count
        t = np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
        right = np.array(
            [float(mpmath.mpf(2) ** (middle + half * float(node)) - mpmath.mpf(2) ** middle) for node in t]
        )
        c2 = shorten(np.linalg.lstsq(np.vander(t, 3), right, rcond=None)[0][0] / half**2, "c2")
        right = right - c2 * (half * t) ** 2
        c1, rest = np.linalg.lstsq(np.vander(t, 2), right, rcond=None)[0]
        constant = mpmath.mpf(2) ** middle + float(rest)
        high = shorten(float(constant), "hi")
        rows.append((high, shorten(float(constant - high), "lo"), shorten(c1 / half, "c1"), c2))
    return tables.TailTable(tuple((bits_of(a), bits_of(b), bits_of(c), bits_of(d)) for a, b, c, d in rows))


def generate(name: str, tail: tables.TailTable, degree: int = DEGREE) -> tables.FunctionTable:
    """The table of one function, not yet measured. Less than the full ``degree`` is for comparison."""
    function = FUNCTIONS[name]
    mpmath.mp.dps = DIGITS
    two = function.reduction == "log" or (function.reduction == "none" and function.symmetry == "none")
    sides: list[tables.Side] = []
    segments: list[tables.Segment] = []
    root = root_of(name)
    for number in range(1 + two):
        side, more = Side(function, number, degree).build(len(segments))
        sides.append(side)
        segments += more
    rate = mpmath.mpf(function.tail_rate) / mpmath.log(2)
    scale = mpmath.log(formula(function.tail_scale)(0)) / mpmath.log(2)
    used = any(segment.tail for segment in segments)
    table = tables.FunctionTable(
        function=name,
        sides=tuple(sides),
        segments=tuple(segments),
        root=0 if root is None else bits_of(float(abs(root))),
        tail_multiplier=int(mpmath.nint(rate * 2**TAIL_CONSTANT_FRACTION)) if used else 0,
        tail_offset=int(mpmath.nint(scale * 2**TAIL_FRACTION_BITS)) if used else 0,
        errors={},
    )
    return settle(nudge(table, tail), tail) if degree == DEGREE and used else nudge(table, tail)


def dump(table: tables.FunctionTable) -> None:
    """Write one file."""
    content = {
        "function": table.function,
        "errors": table.errors,
        "root": table.root,
        "tail_multiplier": table.tail_multiplier,
        "tail_offset": table.tail_offset,
        "sides": [{"first": side.first, "binades": side.binades} for side in table.sides],
        "segments": [tables.format_segment(segment) for segment in table.segments],
    }
    write(table.function, content)


def write(name: str, content: dict[str, Any]) -> None:
    """JSON with one line an entry."""
    lines = []
    for key, value in content.items():
        if isinstance(value, list) and value and isinstance(value[0], str):
            body = "[\n" + ",\n".join(f"  {json.dumps(item)}" for item in value) + "\n ]"
        else:
            body = json.dumps(value)
        lines.append(f' "{key}": {body}')
    tables.FOLDER.mkdir(exist_ok=True)
    (tables.FOLDER / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def measure(table: tables.FunctionTable, tail: tables.TailTable, stride: int = 251) -> dict[str, Any]:
    """Largest error over a strided sample of all fp32 arguments and :func:`dense_arguments`, and what bf16 gives."""
    evaluator = Evaluator(table, tail)
    x = np.arange(0, 1 << 32, stride, dtype=np.uint32).view(np.float32)
    function = FUNCTIONS[table.function]
    legal = np.isfinite(x) & (x != 0) & (np.abs(x) <= function.limit)
    if function.negative is not None:
        legal &= x > 0
    x = x[legal]
    worst, where, total = 0.0, 0.0, 0.0
    for block in np.array_split(x, 64):
        error = ulp_error(evaluator(block), reference(table.function, block))
        total += float(error.sum())
        if error.max() > worst:
            worst, where = float(error.max()), float(block[error.argmax()])
    dense = 0
    for _, block in dense_arguments(table):
        error = ulp_error(evaluator(block), reference(table.function, block))
        dense += len(block)
        if error.max() > worst:
            worst, where = float(error.max()), float(block[error.argmax()])
    _, wrong, _ = bf16_errors(table.function, evaluator)
    return {
        "ulp": round(worst, 4),
        "at": where,
        "mean_ulp": round(total / len(x), 4),
        "arguments": len(x),
        "dense": dense,
        "bf16_wrong": int(wrong.sum()),
    }


def measure_again(names: Sequence[str]) -> None:
    """Renew the errors of the tables there are."""
    for name in names or TABULATED:
        table = tables.table_of(name)
        table = dataclasses.replace(table, errors=measure(table, tables.tail_table()))
        dump(table)
        print(f"{name:16} {table.errors}", flush=True)


def main(names: Sequence[str]) -> None:
    """Generate, measure and write; with ``--measure`` first, only measure."""
    if names and names[0] == "--measure":
        measure_again(names[1:])
        return
    mpmath.mp.dps = DIGITS
    tail = tail_rows()
    write("tail", {"rows": [" ".join(f"{word:08x}" for word in row) for row in tail.rows]})
    exponents = range(tables.LOG_EXPONENT_MIN, 129)
    write("log_exponents", {"rows": [f"{bits_of(float(e * mpmath.log(2))):08x}" for e in exponents]})
    tables.tail_table.cache_clear()
    for name in names or TABULATED:
        try:
            table = generate(name, tail)
        except GenerationError as error:
            print(error, flush=True)
            continue
        table = dataclasses.replace(table, errors=measure(table, tail))
        dump(table)
        print(f"{name:16} {len(table.segments):5} segments {table.bits:7} bits  {table.errors}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
