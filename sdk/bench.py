"""The registry behind `make bench`: a name, and the function that returns its records.

Adding a bench is adding a line. A function takes no arguments and returns ``list[spec.results.Record]``; what it
measures against a reference, it measures in the same run.
"""

import importlib
from collections.abc import Callable

from spec.parameters import Parameters, lookup
from spec.results import Record

BENCHES: dict[str, str] = {
    "checkout": "verif.bench.checkout:bench_checkout",
    "core": "sdk.core_bench:bench_core",
    "core_fullsize": "sdk.core_bench:bench_core_fullsize",
    "hbm": "verif.bench.hbm:bench_hbm",
    "hbm_area": "verif.bench.hbm_area:bench_hbm_area",
    "scale": "scale.bench:bench_scale",
    "sweep": "scale.bench:bench_sweep",
    "element": "verif.bench.element:bench_element",
    "emit": "verif.bench.emit:bench_emit",
    "fullsize": "verif.bench.fullsize:bench_fullsize",
    "link": "verif.bench.link:bench_link",
    "link_area": "verif.bench.link_area:bench_link_area",
    "system": "sdk.system_bench:bench_system",
    "simulators": "verif.bench.simulators:bench_simulators",
    "tensor": "verif.bench.tensor:bench_tensor",
    "vector": "verif.bench.vector:bench_vector",
}
"""Name of the bench -> ``module:function``, imported when it runs."""
LONG = ("core_fullsize",)
"""Benches of hours, which run by name alone."""


def bench_named(name: str) -> Callable[[], list[Record]]:
    """The function of a bench; an unknown name is refused with the list of known ones."""
    module, function = lookup("bench", BENCHES, name).split(":")
    found: Callable[[], list[Record]] = getattr(importlib.import_module(module), function)
    return found


def digests(name: str) -> dict[str, str]:
    """Digests of the parameter objects a bench's module states, by their names: what was measured."""
    module = importlib.import_module(lookup("bench", BENCHES, name).split(":")[0])
    return {key: value.digest() for key, value in vars(module).items() if isinstance(value, Parameters)}
