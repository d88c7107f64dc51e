"""All 2**32 arguments of every function: an hour in all, so a long target. ``STRIDE`` takes one in so many."""

import os

import numpy as np
import pytest

from golden.scalar.functions import evaluate
from spec.functions import FUNCTIONS, TABULATED
from spec.results import Record, write
from verif.scalar.references import reference, ulp_error

ULP_TARGET = 2.0
BLOCK = 1 << 17
"""Arguments at a time: what is computed of them stays in the cache."""


@pytest.mark.long
@pytest.mark.parametrize("name", TABULATED)
def test_every_fp32_argument_is_within_the_target(name: str) -> None:
    stride = int(os.environ.get("STRIDE", "1"))
    function = FUNCTIONS[name]
    worst, where, wrong, count = 0.5, 0.0, 0, 0
    for start in range(0, 1 << 32, BLOCK * stride):
        stop = min(start + BLOCK * stride, 1 << 32)
        x = np.arange(start, stop, stride, dtype=np.int64).astype(np.uint32).view(np.float32)
        inside = np.isfinite(x) & (x != 0) & (np.abs(x) <= function.limit)
        x = x[inside & (x > 0)] if function.negative is not None else x[inside]
        found, truth = evaluate(name, x), reference(name, x)
        # What equals the rounded truth is within half a unit: only the rest is measured.
        with np.errstate(over="ignore", under="ignore"):
            rest = np.flatnonzero(found.view(np.int32) != truth.astype(np.float32).view(np.int32))
        wrong, count = wrong + len(rest), count + len(x)
        error = ulp_error(found[rest], truth[rest])
        if error.max(initial=0) > worst:
            worst, where = float(error.max()), float(x[rest[error.argmax()]])
    source = f"{count:,} arguments, worst at {where!r}, {100 - 100 * wrong / count:.2f} % correctly rounded"
    record = Record("scalar.engine", f"{name}, error in fp32", round(worst, 4), "ulp", ULP_TARGET, source, "lower")
    write("functions", name, [record])
    assert worst <= ULP_TARGET, source
