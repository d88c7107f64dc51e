"""Benches of the tensor engine's arithmetic: decode, product and accumulation."""

from typing import Any

import numpy as np

from golden.numerics import decode, multiply_add
from hdl.numerics import Decode, MultiplyAdd, Operand
from spec.formats import FLOATS, FP32
from spec.numerics import OPERANDS, DecodeConfig, MultiplyAddConfig
from verif.harness.bench import Bench, Trial
from verif.harness.packing import pack_array, width_of
from verif.numerics.drive import Check, through
from verif.numerics.operands import operand_fields, operand_words
from verif.numerics.vectors import all_codes, all_pairs, near, products

QUICK, LONG = 400_000, 4_000_000
"""Random vectors for each of three operand formats; the quick ones make more than 10**6."""

NARROW = [name for name, entry in FLOATS.items() if entry.width <= 8]


def check_multiply_add(trial: Trial) -> None:
    """Random and corner operands of every wide format, all pairs of codes of every narrow one."""
    config: MultiplyAddConfig = trial.config
    model = trial.model()
    result = Check(trial, "result", FP32.width, FP32.name)

    def run(a: Any, b: Any, addend: Any) -> Any:
        inputs = {"a": operand_words(a), "b": operand_words(b), "addend": (addend, config.multiply_stages)}
        actual = through(model, inputs, "result", latency=config.multiply_stages + config.add_stages)
        with np.errstate(invalid="ignore"):
            factors = a.astype(np.float32), b.astype(np.float32)
        golden = multiply_add(addend.view(np.float32), *factors).view(np.uint32)
        result.equal(actual, golden)
        return golden

    for name in ("bf16", "tf32", "fp16"):
        with trial.test(f"random and corner {name}"):
            one, other, addend = products(name, LONG if trial.long else QUICK, trial.rng)
            golden = run(decode(name, one), decode(name, other), addend)
            result.notices(golden)
    for name in NARROW:
        a, b = (decode(name, codes) for codes in all_pairs(name))
        with trial.test(f"all pairs of {name}, multiplied"):
            run(a, b, np.zeros(len(a), np.uint32))
        with (
            trial.test(f"all pairs of {name}, multiplied and added to what cancels or ties"),
            np.errstate(all="ignore"),
        ):
            run(a, b, near(a * b, len(a), trial.rng))
        with trial.test(f"all pairs of {name}, added"):
            run(a, np.ones(len(a)), b.astype(np.float32).view(np.uint32))


def check_decode(trial: Trial) -> None:
    """Every code of every format; of infinities and NaNs only what is specified."""
    config: DecodeConfig = trial.config
    model = trial.model()
    check = Check(trial, "operand", width_of(Operand))
    for index, name in enumerate(config.formats):
        with trial.test(f"all codes of {name}"):
            codes = all_codes(name)
            values = decode(name, codes)
            hold = {"select": index} if len(config.formats) > 1 else {}
            actual = through(model, {"code": codes.astype(np.uint32)}, "operand", latency=0, hold=hold)
            golden = operand_words(values)
            special = ~np.isfinite(values)
            meaning = pack_array(Operand, meaningful(special, np.isnan(values)))[:, 0]
            check.equal(actual & meaning, golden & meaning)
            check.notices(golden[trial.rng.permutation(len(golden))])


def meaningful(special: Any, nan: Any) -> dict[str, Any]:
    """Fields of all ones where an operand's field has a meaning."""
    ones = {field: -np.ones(len(special), np.int64) for field in operand_fields(np.zeros(1))}
    for field in ("significand", "exponent"):
        ones[field] = np.where(special, 0, -1)
    ones["sign"] = np.where(nan, 0, -1)
    return ones


def _stages(*pairs: tuple[int, int]) -> tuple[MultiplyAddConfig, ...]:
    return tuple(MultiplyAddConfig(multiply_stages=m, add_stages=a) for m, a in pairs)


MULTIPLY_ADD = Bench(
    "numerics.multiply_add",
    block=MultiplyAdd,
    quick=_stages((1, 2)),
    long=_stages((1, 1), (2, 3), (3, 4), (4, 5), (1, 6)),
    check=check_multiply_add,
)
DECODE = Bench(
    "numerics.decode",
    block=Decode,
    quick=(DecodeConfig(formats=OPERANDS),),
    long=tuple(DecodeConfig(formats=(name,)) for name in OPERANDS),
    check=check_decode,
)
