"""Every bench of the catalogue on its quick configurations; the long ones in ``make regress``."""

import pytest

from spec.parameters import Parameters
from verif.catalog import BENCHES
from verif.harness.bench import Bench
from verif.harness.runner import chosen_seed

SEED = chosen_seed()


def cases(long: bool) -> list[object]:
    return [
        pytest.param(bench, config, id=f"{bench.name}:{config.digest()}")
        for bench in BENCHES
        for config in (bench.long if long else bench.quick)
    ]


@pytest.mark.parametrize(("bench", "config"), cases(long=False))
def test_quick(bench: Bench, config: Parameters) -> None:
    check(bench, config, long=False)


@pytest.mark.long
@pytest.mark.parametrize(("bench", "config"), cases(long=True))
def test_long(bench: Bench, config: Parameters) -> None:
    check(bench, config, long=True)


def check(bench: Bench, config: Parameters, *, long: bool) -> None:
    row = bench.run(config, seed=SEED, long=long)
    assert row.verdict == "pass", "\n".join([*row.failures, f"repeat with waves: {row.repeat}"])
