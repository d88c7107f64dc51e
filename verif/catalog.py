"""Every bench: what ``make sim``, ``make test``, ``make regress`` and ``make mutation`` run. Add yours at the end."""

from spec.parameters import lookup
from verif import fifo
from verif.core import bench as core
from verif.harness.bench import Bench
from verif.hbm import scheduler as hbm_scheduler
from verif.hbm import stack as hbm_stack
from verif.link import layer as link_layer
from verif.link import router as link_router
from verif.link import switch as link_switch
from verif.numerics import accumulation, casts, fp32
from verif.scalar import engine as scalar_engine
from verif.system import system
from verif.tensor import digits
from verif.tensor import engine as tensor_engine
from verif.vector import engine as vector_engine

BENCHES: list[Bench] = [
    digits.BENCH,
    core.BENCH,
    system.BENCH,
    fifo.BENCH,
    hbm_scheduler.BENCH,
    hbm_stack.BENCH,
    link_layer.BENCH,
    link_router.BENCH,
    link_switch.BENCH,
    scalar_engine.BENCH,
    vector_engine.BENCH,
    fp32.ADD,
    casts.CAST,
    fp32.COMPARE,
    accumulation.DECODE,
    fp32.MULTIPLY,
    accumulation.MULTIPLY_ADD,
    casts.XORSHIFT,
    tensor_engine.BENCH,
]


def bench_named(name: str) -> Bench:
    """The bench called ``name``; an unknown name is refused with the list of known ones."""
    bench: Bench = lookup("bench", {bench.name: bench for bench in BENCHES}, name)
    return bench
