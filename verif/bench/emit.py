"""What Verilog of the full-size array costs: the figure that ``emit once, instantiate many`` exists for."""

import time

from hdl.emit import emit
from hdl.tensor.array import Array
from spec.results import Record
from spec.tensor import TensorConfig

SECONDS = 120
MEGABYTES = 3


def bench_emit() -> list[Record]:
    """Elaborate and convert the 128x128 bf16 array: wall time, size, distinct modules and their instances."""
    config = TensorConfig(rows=128, columns=128, formats=("bf16",))
    started = time.perf_counter()
    emission = emit(Array(config))
    elapsed = time.perf_counter() - started
    modules = emission.description["modules"]
    reference = f"128x128 bf16, parameters {config.digest()}"
    block = "tensor.array"
    return [
        Record(block, "elaboration and Verilog", round(elapsed, 1), "s", SECONDS, reference, "lower"),
        Record(block, "Verilog", round(len(emission.verilog) / 1e6, 3), "MB", MEGABYTES, reference, "lower"),
        Record(block, "distinct modules", len(modules), "modules", None, reference),
        Record(block, "module instances", sum(entry["count"] for entry in modules), "instances", None, reference),
    ]
