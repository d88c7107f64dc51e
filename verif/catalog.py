"""Every bench: what ``make sim``, ``make test``, ``make regress`` and ``make mutation`` run. Add yours at the end."""

from spec.parameters import lookup
from verif import fifo
from verif.harness.bench import Bench

BENCHES: list[Bench] = [
    fifo.BENCH,
]


def bench_named(name: str) -> Bench:
    """The bench called ``name``; an unknown name is refused with the list of known ones."""
    bench: Bench = lookup("bench", {bench.name: bench for bench in BENCHES}, name)
    return bench
