"""Every legal number of stages, in Amaranth's simulator with a few hundred corner vectors."""

from typing import Any

import numpy as np
import pytest

from golden.numerics import add, cast, decode, multiply, multiply_add
from hdl.numerics import Add, Cast, Decode, Multiply, MultiplyAdd
from spec.numerics import AddConfig, CastConfig, DecodeConfig, MultiplyAddConfig, MultiplyConfig
from spec.parameters import ParameterError
from verif.harness.pysim import simulate
from verif.numerics.operands import operand_words
from verif.numerics.vectors import factors, pairs, patterns, products

COUNT = 60


def outputs(block: Any, latency: int, drive: Any) -> Any:
    """The results that belong to the driven numbers."""
    cycles = COUNT + latency
    run = simulate(block, drive=drive, sample=["result"], limit=cycles, tail=cycles)
    return run.sampled("result")[latency:]


def rng() -> np.random.Generator:
    return np.random.default_rng(21)


def add_case(stages: int) -> Any:
    a, b = pairs(COUNT, rng())
    golden = add(a.view(np.float32), b.view(np.float32)).view(np.uint32)
    return Add(AddConfig(stages=stages)), {"a": a, "b": b}, golden


def multiply_case(stages: int) -> Any:
    a, b = factors(COUNT, rng())
    golden = multiply(a.view(np.float32), b.view(np.float32)).view(np.uint32)
    return Multiply(MultiplyConfig(stages=stages)), {"a": a, "b": b}, golden


def cast_case(stages: int) -> Any:
    codes = patterns("fp32", COUNT, rng())
    golden = cast(codes, "fp32", "fp8_e4m3fn")
    return Cast(CastConfig(targets=("fp8_e4m3fn",), stages=stages)), {"code": codes}, golden


CASES = [
    *((add_case, stages) for stages in range(1, 7)),
    *((multiply_case, stages) for stages in range(1, 6)),
    *((cast_case, stages) for stages in range(1, 4)),
]


@pytest.mark.parametrize(("case", "stages"), CASES)
def test_every_number_of_stages_gives_the_same_bits(case: Any, stages: int) -> None:
    block, drive, golden = case(stages)
    assert np.array_equal(outputs(block, stages, drive), golden)
    assert not np.array_equal(outputs(block, stages - 1, drive)[:COUNT], golden), "a wrong latency is noticed"


@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize(("multiply_stages", "add_stages"), [(1, 6), (2, 3), (3, 2), (4, 1)])
def test_products_and_sums_of_any_latency_combine(multiply_stages: int, add_stages: int, registered: bool) -> None:
    one, other, addend = products("tf32", COUNT, rng())
    a, b = decode("tf32", one), decode("tf32", other)
    late = np.concatenate([np.zeros(multiply_stages, np.uint32), addend])
    drive = {"a": operand_words(a), "b": operand_words(b), "addend": late}
    stages = {"multiply_stages": multiply_stages, "add_stages": add_stages}
    block = MultiplyAdd(MultiplyAddConfig(**stages, registered=registered))
    with np.errstate(invalid="ignore"):
        golden = multiply_add(addend.view(np.float32), a.astype(np.float32), b.astype(np.float32))
    actual = outputs(block, multiply_stages + add_stages - (not registered), drive)
    assert np.array_equal(actual, golden.view(np.uint32))


@pytest.mark.parametrize("formats", [(), ("fp32",), ("bf16", "bf16")])
def test_illegal_formats_are_refused(formats: Any) -> None:
    with pytest.raises(ParameterError, match=r"DecodeConfig\.formats"):
        Decode(DecodeConfig(formats=formats))


@pytest.mark.parametrize("stages", [0, 7])
def test_illegal_stages_are_refused(stages: int) -> None:
    with pytest.raises(ParameterError, match=r"AddConfig\.stages"):
        Add(AddConfig(stages=stages))
