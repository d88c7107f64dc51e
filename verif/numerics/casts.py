"""Benches of the casts and of their random bits."""

import itertools

import numpy as np

from golden.numerics import Xorshift32, cast
from golden.numerics.codes import element_named, storage_bits
from hdl.numerics import Cast
from hdl.numerics import Xorshift32 as Xorshift32Block
from spec.numerics import CASTABLE, STOCHASTIC_BITS, CastConfig, XorshiftConfig
from verif.harness.bench import Bench, Trial
from verif.numerics.drive import Check, through
from verif.numerics.vectors import codes_of

QUICK, LONG = 6_000, 1_000_000
"""Random codes for each pair of formats and each of the four modes; narrow sources are exhausted."""


def check_cast(trial: Trial) -> None:
    """Every pair of formats, nearest and stochastic, saturating and not; all codes of sources up to 16 bits."""
    config: CastConfig = trial.config
    model = trial.model()
    count = LONG if trial.long else QUICK
    for source, name in enumerate(config.sources):
        generator = Xorshift32(trial.rng.integers(1, 1 << 32, 4096, dtype=np.uint32))
        for target, into in enumerate(config.targets):
            check = Check(trial, "result", storage_bits(element_named(into)), into)
            with trial.test(f"{name} to {into}"):
                for stochastic, saturate in itertools.product((False, True), repeat=2):
                    exhaust = trial.long or not (stochastic or saturate)
                    codes = codes_of(name, count, trial.rng, exhaust=exhaust)
                    random = generator.stream(-(-len(codes) // 4096)).reshape(-1)[: len(codes)]
                    hold = {"stochastic": int(stochastic), "saturate": int(saturate)}
                    hold |= {"source": source} if len(config.sources) > 1 else {}
                    hold |= {"target": target} if len(config.targets) > 1 else {}
                    golden = cast(codes, name, into, bits=random if stochastic else None, saturate=saturate)
                    inputs = {"code": codes.astype(np.uint32), "random": random >> np.uint32(32 - STOCHASTIC_BITS)}
                    check.equal(through(model, inputs, "result", latency=config.stages, hold=hold), golden)
                check.notices(golden[np.argsort(trial.rng.random(len(golden)))])


def check_xorshift(trial: Trial) -> None:
    """Random steps and loads, zero among them, against the golden stream."""
    config: XorshiftConfig = trial.config
    count = 10_000
    advance = trial.rng.integers(0, 2, count)
    load = (trial.rng.random(count) < 0.01).astype(np.int64)
    seed = trial.rng.integers(0, 1 << 32, count) * (trial.rng.random(count) < 0.8)
    golden, state = [], Xorshift32(np.array([config.seed]))
    for step, loaded, value in zip(advance, load, seed, strict=True):
        golden.append(int(state.state[0]))
        if loaded:
            state = Xorshift32(np.array([value or config.seed]))
        elif step:
            state.next()
    with trial.test("advance, hold, load"):
        check = Check(trial, "word", 32)
        check.equal(through(trial.model(), {"advance": advance, "load": load, "seed": seed}, "word", latency=0), golden)
        check.notices(golden)


CAST = Bench(
    "numerics.cast",
    block=Cast,
    quick=(CastConfig(sources=CASTABLE, targets=CASTABLE),),
    long=(
        *(CastConfig(sources=CASTABLE, targets=CASTABLE, stages=stages) for stages in (2, 3)),
        CastConfig(sources=("fp32",), targets=("bf16",)),
        CastConfig(sources=("int32",), targets=("fp4_e2m1",)),
        CastConfig(sources=("fp8_e3m4",), targets=("uint8",)),
    ),
    check=check_cast,
)
XORSHIFT = Bench(
    "numerics.xorshift32",
    block=Xorshift32Block,
    quick=(XorshiftConfig(), XorshiftConfig(seed=1)),
    check=check_xorshift,
)
