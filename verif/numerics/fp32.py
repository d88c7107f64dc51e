"""Benches of the fp32 operations: add, multiply, compare."""

import numpy as np

from golden.numerics import add, equal, less, multiply, to_float32, unordered
from hdl.numerics import Add, Compare, Multiply
from spec.formats import FP32
from spec.numerics import AddConfig, CompareConfig, MultiplyConfig
from verif.harness.bench import Bench, Trial
from verif.numerics.accumulation import NARROW
from verif.numerics.drive import Check, through
from verif.numerics.vectors import Codes, all_pairs, factors, pairs

QUICK, LONG = 1_000_000, 10_000_000


def _operands(trial: Trial, count: int, *, multiplied: bool) -> dict[str, tuple[Codes, Codes]]:
    """Pairs of fp32 codes by the name of their class."""
    classes = {"random and corner": factors(count, trial.rng) if multiplied else pairs(count, trial.rng)}
    for name in NARROW:
        a, b = (to_float32(name, codes).view(np.uint32) for codes in all_pairs(name))
        classes[f"all pairs of {name}"] = (a, b)
    return classes


def check_arithmetic(trial: Trial) -> None:
    """Sum or product of every pair, bit for bit."""
    multiplied = isinstance(trial.block, Multiply)
    golden_of = multiply if multiplied else add
    model = trial.model()
    check = Check(trial, "result", FP32.width, FP32.name)
    for name, (a, b) in _operands(trial, LONG if trial.long else QUICK, multiplied=multiplied).items():
        with trial.test(name):
            golden = golden_of(a.view(np.float32), b.view(np.float32)).view(np.uint32)
            check.equal(through(model, {"a": a, "b": b}, "result", latency=trial.config.stages), golden)
            check.notices(golden[trial.rng.permutation(len(golden))])


def check_compare(trial: Trial) -> None:
    """The three relations of every pair, and of every number with itself."""
    model = trial.model()
    golden_of = {"less": less, "equal": equal, "unordered": unordered}
    classes = _operands(trial, QUICK // 4, multiplied=False)
    a, _ = classes["random and corner"]
    classes["itself"] = (a, a)
    for name, (a, b) in classes.items():
        for output, relation in golden_of.items():
            with trial.test(f"{output}, {name}"):
                golden = relation(a.view(np.float32), b.view(np.float32))
                check = Check(trial, output, 1)
                check.equal(through(model, {"a": a, "b": b}, output, latency=0), golden)
                if name == "random and corner":
                    ordered = np.sort(golden)[::-1]
                    check.notices(np.concatenate([ordered[-40:], ordered[:40]]))


ADD = Bench(
    "numerics.add",
    block=Add,
    quick=(AddConfig(stages=2),),
    long=tuple(AddConfig(stages=stages) for stages in (1, 3, 4, 5, 6)),
    check=check_arithmetic,
)
MULTIPLY = Bench(
    "numerics.multiply",
    block=Multiply,
    quick=(MultiplyConfig(stages=2),),
    long=tuple(MultiplyConfig(stages=stages) for stages in (1, 3, 4, 5)),
    check=check_arithmetic,
)
COMPARE = Bench("numerics.compare", block=Compare, quick=(CompareConfig(),), check=check_compare)
