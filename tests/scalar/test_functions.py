"""The functions of the scalar engine against mpmath, numpy and float64."""

import dataclasses

import ml_dtypes
import mpmath
import numpy as np
import pytest

from golden.scalar.functions import Evaluator, evaluate, evaluator
from spec import tables
from spec.functions import FUNCTIONS, TABULATED
from spec.parameters import ParameterError
from verif.scalar import generate_tables
from verif.scalar.generate_tables import (
    bf16_arguments,
    bf16_errors,
    dense_arguments,
    generate,
    nudge,
    round_to_bf16,
    settle,
    tail_rows,
)
from verif.scalar.references import exact, reference, ulp_error

ULP_TARGET = 2.0
STRIDE = 65_521
"""A prime: every exponent and all kinds of mantissas are met. All 2**32 arguments are a long target."""


def legal(name: str, x: np.ndarray) -> np.ndarray:
    """Finite non-zero arguments of the stated domain."""
    function = FUNCTIONS[name]
    inside = np.isfinite(x) & (x != 0) & (np.abs(x) <= function.limit)
    return x[inside & (x > 0)] if function.negative is not None else x[inside]


def borders(name: str) -> np.ndarray:
    """The last fp32 before and the first of every segment of a function without argument reduction."""
    x = []
    for number, side in enumerate(tables.table_of(name).sides):
        for index, (_, bits) in enumerate(side.binades):
            starts = (side.first + index << 23) + (np.arange(1 << bits) << (23 - bits))
            pairs = np.stack([starts - 1, starts], axis=1).astype(np.uint32) | np.uint32(number << 31)
            x.append(pairs.view(np.float32))
    return np.concatenate(x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_bf16_argument_gives_the_correctly_rounded_bf16(name: str) -> None:
    x = legal(name, bf16_arguments())
    if name == "prelu":
        x = x[x > 0]
    with np.errstate(all="ignore"):
        got = evaluate(name, x).astype(ml_dtypes.bfloat16).astype(np.float64)
        truth = round_to_bf16(reference("copy" if name == "prelu" else name, x))
    assert np.array_equal(got, truth)


@pytest.mark.parametrize("name", TABULATED)
def test_every_fp16_argument_is_within_the_target(name: str) -> None:
    x = legal(name, np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32))
    assert ulp_error(evaluate(name, x), reference(name, x)).max() <= ULP_TARGET


@pytest.mark.parametrize("name", TABULATED)
def test_fp32_arguments_are_within_the_target_and_the_recorded_error(name: str) -> None:
    x = legal(name, np.arange(0, 1 << 32, STRIDE, dtype=np.uint32).view(np.float32))
    worst = ulp_error(evaluate(name, x), reference(name, x)).max()
    assert worst <= ULP_TARGET
    assert worst <= tables.table_of(name).errors["ulp"] + 0.15


@pytest.mark.parametrize("name", TABULATED)
def test_references_agree_with_mpmath(name: str) -> None:
    rng = np.random.default_rng(7)
    x = legal(name, np.r_[rng.normal(0, 4, 60), rng.normal(0, 0.01, 20), rng.uniform(-12, 12, 20)].astype(np.float32))
    with mpmath.workdps(50):
        for argument, value in zip(x, reference(name, x), strict=True):
            truth = exact(name, float(argument))
            assert abs(mpmath.mpf(float(value)) - truth) <= abs(truth) * 2.0**-42, argument


NUMPY = {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "arctan": np.arctan, "sin": np.sin}
NUMPY |= {"reciprocal": np.reciprocal, "square": np.square, "abs": np.abs, "sign": np.sign}


@pytest.mark.parametrize("name", NUMPY)
def test_special_values_are_those_of_numpy(name: str) -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)
    if name not in ("log", "sqrt"):
        x = np.r_[x, np.float32(1e-45), np.float32(-1e-45)]
    with np.errstate(all="ignore"):
        truth = NUMPY[name](x)
    got = evaluate(name, x)
    assert np.array_equal(got, truth, equal_nan=True)
    numbers = ~np.isnan(truth)
    assert np.array_equal(np.signbit(got[numbers]), np.signbit(truth[numbers]))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_gives_the_canonical_nan(name: str) -> None:
    x = np.array([0x7FC00000, 0xFFC00001, 0x7F800001], np.uint32).view(np.float32)
    assert (evaluate(name, x).view(np.uint32) == 0x7FC00000).all()


@pytest.mark.parametrize("name", [name for name in TABULATED if FUNCTIONS[name].reduction == "none"])
def test_steps_across_segment_borders_follow_the_function(name: str) -> None:
    """Never more than one unit against the function's direction."""
    x = borders(name)
    x = x[(np.abs(x) <= FUNCTIONS[name].limit).all(axis=1) & np.isfinite(x).all(axis=1) & (x != 0).all(axis=1)]
    y = evaluate(name, x)
    truth = reference(name, x)
    step = y[:, 1].astype(np.float64) - y[:, 0]
    direction = np.sign(truth[:, 1] - truth[:, 0])
    against = np.where(direction == 0, np.abs(step), -step * direction)
    assert (against <= np.spacing(np.abs(y).max(axis=1)).astype(np.float64)).all()


def test_prelu_multiplies_negative_arguments() -> None:
    x = np.array([-2.0, 3.0, -0.0, -np.inf], np.float32)
    assert evaluate("prelu", x, 0.25).tolist() == [-0.5, 3.0, -0.0, -np.inf]


def test_arguments_beyond_a_stated_domain_give_nan() -> None:
    assert np.isnan(evaluate("sin", np.float32(3.2)))
    assert not np.isnan(evaluate("sin", np.float32(np.pi)))


def test_an_unknown_function_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match=r"function 'cosh': legal is one of abs, arctan"):
        evaluate("cosh", 1.0)


@pytest.mark.parametrize("name", ["sqrt", "erf_dx"])
def test_tables_are_what_the_script_generates(name: str) -> None:
    with mpmath.workdps(40):
        table = generate(name, tail_rows())
    assert table == dataclasses.replace(tables.table_of(name), errors={})


def test_a_segment_that_is_wrong_at_few_arguments_is_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The constant of a segment with a tail, moved off its place so that some argument is wrong by more than 2 ulp."""
    table = tables.table_of("silu_dx")
    number, x = next(entry for entry in dense_arguments(table) if len(entry[1]) == 1 << 19)
    segment = table.segments[number]
    constant = (
        np.uint32(segment.lo).view(np.float32) + np.spacing(np.uint32(segment.hi & ~(1 << 31)).view(np.float32)) / 4
    )
    moved = dataclasses.replace(segment, lo=int(np.float32(constant).view(np.uint32)))
    worse = dataclasses.replace(table, segments=(*table.segments[:number], moved, *table.segments[number + 1 :]))
    truth = reference("silu_dx", x)
    assert ulp_error(Evaluator(worse)(x), truth).max() > ULP_TARGET
    monkeypatch.setattr(generate_tables, "dense_arguments", lambda _: [(number, x)])
    better = settle(worse, tables.tail_table())
    assert ulp_error(Evaluator(better)(x), truth).max() <= ULP_TARGET
    assert [a == b for a, b in zip(better.segments, table.segments, strict=True)].count(False) <= 1


def test_constants_move_until_every_bf16_result_is_right() -> None:
    table = tables.table_of("silu")
    off = (
        dataclasses.replace(segment, hi=segment.hi + 3) if not segment.base else segment for segment in table.segments
    )
    moved = dataclasses.replace(table, segments=tuple(off))
    assert bf16_errors("silu", Evaluator(moved))[1].any()
    assert not bf16_errors("silu", Evaluator(nudge(moved, tables.tail_table())))[1].any()


@pytest.mark.parametrize("bit", [3, 20])
def test_a_flipped_bit_of_a_coefficient_is_seen(bit: int) -> None:
    table = tables.table_of("tanh")
    number = len(table.segments) // 2
    broken = dataclasses.replace(table.segments[number], hi=table.segments[number].hi ^ 1 << bit)
    segments = (*table.segments[:number], broken, *table.segments[number + 1 :])
    x = legal("tanh", bf16_arguments())
    wrong = Evaluator(dataclasses.replace(table, segments=segments))
    assert ulp_error(wrong(x), reference("tanh", x)).max() > ULP_TARGET
    assert ulp_error(evaluator("tanh")(x), reference("tanh", x)).max() <= ULP_TARGET


@pytest.mark.parametrize("name", TABULATED)
def test_every_coefficient_fits_the_bits_that_are_stored(name: str) -> None:
    """Golden reads the table as it stands, the hardware the stored bits: one that does not fit would part them."""
    for segment in tables.table_of(name).segments:
        for field, bits in tables.MANTISSA_BITS.items():
            assert getattr(segment, field) & ((1 << 23 - bits) - 1) == 0
