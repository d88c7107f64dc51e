"""All 2**32 arguments of every function: hours, so a long target. ``STRIDE`` takes one in so many."""

import os

import numpy as np
import pytest

from golden.scalar.functions import evaluate
from spec.functions import FUNCTIONS, TABULATED
from spec.results import Record, write
from verif.scalar.references import reference, ulp_error

ULP_TARGET = 2.0
BLOCK = 1 << 22


@pytest.mark.long
@pytest.mark.parametrize("name", TABULATED)
def test_every_fp32_argument_is_within_the_target(name: str) -> None:
    stride = int(os.environ.get("STRIDE", "1"))
    function = FUNCTIONS[name]
    worst, where, total, count = 0.0, 0.0, 0.0, 0
    for start in range(0, 1 << 32, BLOCK * stride):
        stop = min(start + BLOCK * stride, 1 << 32)
        x = np.arange(start, stop, stride, dtype=np.int64).astype(np.uint32).view(np.float32)
        inside = np.isfinite(x) & (x != 0) & (np.abs(x) <= function.limit)
        x = x[inside & (x > 0)] if function.negative is not None else x[inside]
        if not len(x):
            continue
        error = ulp_error(evaluate(name, x), reference(name, x))
        total, count = total + float(error.sum()), count + len(x)
        if error.max() > worst:
            worst, where = float(error.max()), float(x[error.argmax()])
    source = f"{count:,} arguments, worst at {where!r}, mean {total / count:.4f}"
    record = Record("scalar.engine", f"{name}, error in fp32", worst, "ulp", ULP_TARGET, source, "lower")
    write("functions", name, [record])
    assert worst <= ULP_TARGET, source
