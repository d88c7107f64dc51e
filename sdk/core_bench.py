"""Figures of the core: golden's time against the hardware's, published measurements against golden, speed."""

import dataclasses
import resource
import time
from collections.abc import Callable
from typing import Any

from examples.kernels import kernels, matmul
from golden.core.report import Span
from hdl.core.core import Core
from hdl.emit import emit
from sdk.program import Program
from sdk.run import GoldenTarget, Result, load, run
from sdk.tensors import View
from spec.core import CoreConfig, core_of
from spec.presets import machine_named
from spec.results import Record
from verif.core.bench import LITTLE
from verif.core.driver import RtlTarget

TINY = core_of(machine_named("TINY"))
SMALL = core_of(machine_named("SMALL"))
SMALL_DEPTH, SMALL_COLUMNS = 64, 128
"""Of the products on the compiled core of SMALL: rows and columns of the stationary; columns of the shorter result."""
TRN2 = core_of(machine_named("TRN2")).replace(hbm_lines=1 << 20)
FULL = TRN2.replace(hbm_lines=1 << 18)
FULL_COLUMNS = 512
"""Columns of the product on the compiled core of TRN2, whose HBM has what the product needs."""
GHZ = 1.4
"""Clock of DMA and sequencers that nanoseconds are told in: the profiler's core clock of the published measurements."""
WITHIN = 0.15
SILICON = "silicon 86.65 to 90.92 (nki-autotune)"
ROW_CYCLES = 147
"""Shortest time of a row on the real machine, 105 ns (NKI DMA overview: rows below 2 KiB take as long as these)."""
PUBLISHED_EFFICIENCY = {
    32: 0.013,
    64: 0.026,
    128: 0.05,
    256: 0.10,
    512: 0.21,
    1024: 0.42,
    2048: 0.81,
    4096: 0.97,
    8192: 0.98,
    16384: 0.99,
}
"""By the bytes of a row, one in each of 128 partitions, relative to 32 KiB (heights in a figure of that page)."""


def bench_core() -> list[Record]:
    """Every figure."""
    return [*_against_hardware(), *_compiled(), *_elaborated(), *_tensor(), *_published(), *_dma()]


def _against_hardware() -> list[Record]:
    """Each kernel on both; the speed of both."""
    records, worst = [], 0.0
    target = RtlTarget(LITTLE)
    golden_seconds = rtl_seconds = 0.0
    cycles = 0
    for name, kernel in kernels(LITTLE).items():
        started = time.perf_counter()
        golden = run(kernel.program, "golden", kernel.inputs)
        golden_seconds += time.perf_counter() - started
        before = target.model.seconds
        rtl = run(kernel.program, target, kernel.inputs)
        rtl_seconds += target.model.seconds - before
        cycles += rtl.cycles
        error = abs(golden.cycles / rtl.cycles - 1)
        worst = max(worst, error)
        records.append(
            Record(
                "core", f"{name}: golden against hardware", 100 * error, "%", 2, f"{rtl.cycles} cycles", better="lower"
            )
        )
    target.model.close()
    records += [
        Record("core", "compiled core of 4 lanes", cycles / rtl_seconds, "cycles/s"),
        Record("core", "golden against compiled hardware, 4 lanes", rtl_seconds / golden_seconds, "x", 100),
        Record("core", "largest error of a kernel's time", 100 * worst, "%", 2, better="lower"),
    ]
    return records


def busy(config: CoreConfig, k: int, m: int, n: int) -> tuple[float, float]:
    """Share of the cycles in which the array takes a column: from the middle of a tiled product on, and of all."""
    kernel = matmul(config, k, m, n, result="bf16")
    report = run(kernel.program, "golden", kernel.inputs).report
    found = [span for span in report.spans if span.name == "matmul"]
    later = found[len(found) // 2 :]
    columns = min(config.tensor.bank_depth, n)
    steady = len(later) * columns / (later[-1].end - later[0].end + columns)
    return steady, len(found) * columns / report.cycles


def _compiled() -> list[Record]:
    """The core of SMALL: its build, a tiled product against golden, speed, share of the array."""
    records, cycles = _product(SMALL, "SMALL", SMALL_DEPTH, (SMALL_COLUMNS, 2 * SMALL_COLUMNS), 20_000)
    columns = (SMALL_DEPTH // SMALL.partitions) ** 2 * SMALL_COLUMNS
    share = 100 * columns / (cycles[1] - cycles[0])
    return [*records, Record("core", "array busy in the tiled product at SMALL, hardware", share, "%", 95)]


def bench_core_fullsize() -> list[Record]:
    """The core of TRN2 at full size, compiled: what that costs, and a product against golden."""
    records, _ = _product(FULL, "TRN2", FULL.partitions, (FULL_COLUMNS,), None)
    usage = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return [*records, Record("core", "memory of build and run at TRN2", max(usage) / 2**20, "GiB", better="lower")]


def _product(
    config: CoreConfig, name: str, depth: int, widths: tuple[int, ...], speed: int | None
) -> tuple[list[Record], list[int]]:
    """Figures of a compiled core and of products of ``depth`` by ``depth`` by each width; the hardware's cycles."""
    started = time.perf_counter()
    target = RtlTarget(config)
    built = time.perf_counter() - started
    cycles, seconds, spent, different = [], 0.0, 0.0, 0
    for n in widths:
        kernel = matmul(config, depth, depth, n, result="bf16")
        started = time.perf_counter()
        golden = run(kernel.program, "golden", kernel.inputs)
        spent += time.perf_counter() - started
        starts = load(kernel.program, target, kernel.inputs)
        before = target.model.seconds
        report = target.run(starts)
        seconds += target.model.seconds - before
        cycles.append(report.cycles)
        different += int((golden["c"] != Result(kernel.program, target, report)["c"]).sum())
        error = abs(golden.cycles / report.cycles - 1)
    target.model.close()
    product = f"product {depth}x{depth}x{n} at {name}"
    build = f"compiled core of {name}, emission and build, or emission if cached"
    return [
        Record("core", build, built, "s", better="lower"),
        Record("core", f"{product}: results that differ from golden", different, "results", 0, better="lower"),
        Record("core", f"{product}: golden against hardware", 100 * error, "%", 2, f"{cycles[-1]} cycles", "lower"),
        Record("core", f"compiled core of {name}", sum(cycles) / seconds, "cycles/s", speed),
        Record("core", f"golden against compiled hardware, {name}", seconds / spent, "x", 100),
    ], cycles


def _elaborated() -> list[Record]:
    """What Verilog of the cores that are simulated costs; that of full size is a long test."""
    records = []
    for name, config in (("TINY", TINY), ("SMALL", SMALL)):
        started = time.process_time()
        emission = emit(Core(config))
        records += [
            Record("core", f"{name}: elaboration and Verilog", time.process_time() - started, "s", better="lower"),
            Record("core", f"{name}: Verilog", len(emission.verilog) / 1e6, "MB", better="lower"),
            Record("core", f"{name}: distinct modules", len(emission.description["modules"]), "modules"),
        ]
    return records


def _tensor() -> list[Record]:
    """The tiled product as golden models it: from its middle on, and all of it, first fetch to last store."""
    steady, whole = busy(TRN2, 2048, 2048, 2048)
    product = "2048x2048x2048 bf16 at TRN2"
    return [
        Record(
            "core", "array busy in the tiled product at SMALL, modelled", 100 * busy(SMALL, 128, 256, 256)[0], "%", 95
        ),
        Record("core", f"array busy in {product}, modelled, from its middle on", 100 * steady, "%", 95),
        Record("core", f"array busy in {product}, modelled, all of it", 100 * whole, "%", 91, SILICON),
    ]


Build = Callable[[Program], None]


def spans(config: CoreConfig, build: Build) -> list[Span]:
    """What the engines and DMA do in a program on an idle machine, in the order of their ends."""
    with Program(config) as p:
        build(p)
    target = GoldenTarget(p)
    report = target.run(load(p, target, {}))
    assert report.fault is None, report.fault
    return sorted(report.spans, key=lambda span: span.end)


def interval(config: CoreConfig, issue: Callable[[Program], Callable[[], None]], each: int = 1) -> int:
    """Cycles between the last two of four equal instructions, or groups of ``each``."""

    def build(p: Program) -> None:
        repeat = issue(p)
        for _ in range(4):
            repeat()

    ends = [span.end for span in spans(config, build)]
    return ends[-1] - ends[-1 - each]


@dataclasses.dataclass(frozen=True)
class Calibration:
    """A published figure of the real machine, what golden says of TRN2, and why they differ if they do."""

    what: str
    published: float
    modelled: float
    unit: str = "cycles"
    why: str = ""

    @property
    def ratio(self) -> float:
        """Modelled to published."""
        return self.modelled / self.published


def _tensor_interval(loaded: int, moved: int, format_: str = "bf16") -> int:
    """Of products of a stationary's columns, loaded anew each time, or not at all, with ``moved`` columns."""
    lanes = TRN2.partitions

    def issue(p: Program) -> Callable[[], None]:
        w, x = p.sbuf((lanes, lanes), format_), p.sbuf((lanes, 512), format_)
        p.tensor.load_stationary(w, "fp32_high" if format_ == "fp32" else None)
        result = p.psum(512, 0)

        def repeat() -> None:
            if not loaded:
                p.tensor.move(result[:, :moved], x[:, :moved])
            else:
                p.tensor.matmul(result[:, :moved], w[:, :loaded], x[:, :moved])

        return repeat

    return interval(TRN2, issue, 2 if loaded else 1)


def _element_interval(work: Callable[[Program, list[View]], None], n: int, psum: bool = False) -> int:
    """Of instructions of vector or scalar engine on tiles of ``n`` elements, the first of them in PSUM or not."""

    def issue(p: Program) -> Callable[[], None]:
        first = p.psum(n, 0) if psum else p.sbuf((TRN2.partitions, n), "fp32")
        views = [first, *(p.sbuf((TRN2.partitions, n), "fp32") for _ in range(2))]
        return lambda: work(p, views)

    return interval(TRN2, issue)


def calibration() -> list[Calibration]:
    """Every published figure that one instruction or one transfer of ours can be held against."""
    n, lanes = 512, TRN2.partitions
    late = "ours ends 20 to 30 cycles after its last row, where the published cost counts none"
    products = 2 * interval_of_products(lanes)
    least = "the real machine starts a matmul every 64 cycles at best, ours when its columns are through"

    def vector(what: str, cost: float, work: Callable[[Program, list[View]], None], **options: Any) -> Calibration:
        return Calibration(what, cost, _element_interval(work, n, **options), why=late)

    return [
        Calibration("matmul, 512 columns", 512, _tensor_interval(0, 512)),
        Calibration("matmul, 64 columns", 64, _tensor_interval(0, 64)),
        Calibration("matmul with a new stationary, 512 columns", 512, _tensor_interval(lanes, 512)),
        Calibration("matmul with a new stationary, 128 columns", 128, _tensor_interval(lanes, 128)),
        Calibration("matrix-vector, short stationary", 128, _tensor_interval(1, 128)),
        Calibration("fp32 matmul, 512 columns", 4 * 512, products),
        vector("vector, one operand", n, lambda p, v: p.vector.tensor_scalar(v[1], v[0], "add", 1.0)),
        vector("vector, two operands of SBUF", 2 * n, lambda p, v: p.vector.tensor_tensor(v[2], v[0], v[1], "add")),
        vector(
            "vector, an operand of PSUM", n, lambda p, v: p.vector.tensor_tensor(v[2], v[0], v[1], "add"), psum=True
        ),
        vector("vector, result into PSUM", n, lambda p, v: p.vector.tensor_scalar(v[0], v[1], "add", 1.0), psum=True),
        vector("vector, reduction", n, lambda p, v: p.vector.tensor_reduce(v[1][:, :1], v[0], "add")),
        vector("vector, copy where a predicate holds", 2 * n, lambda p, v: p.vector.tensor_copy_predicated(*v)),
        vector("vector, eight largest", n, lambda p, v: p.vector.max8(v[1][:, :8], v[0])),
        vector("scalar, activation", n, lambda p, v: p.scalar.activation(v[1], v[0], "exp")),
        Calibration("DMA, 32 KiB, one engine", 1416, transfer(TRN2, 32 * 1024) / GHZ, "ns"),
        Calibration("matrix-vector, short moving", 64, _tensor_interval(lanes, 1), why=least),
        Calibration(
            "vector, reciprocal",
            8 * n,
            _element_interval(lambda p, v: p.vector.reciprocal(v[1], v[0]), n),
            why="ours divides an element a cycle, not one in eight",
        ),
        Calibration(
            "scalar, one element after the other",
            264,
            _element_interval(lambda p, v: p.scalar.activation(v[1][:, :1], v[0][:, :1], "exp"), 8),
            why="the real machine's fixed cost of 60 to 100 cycles an access is no part of ours",
        ),
    ]


def interval_of_products(lanes: int) -> int:
    """Half the cycles of an fp32 product: two of its four passes."""

    def build(p: Program) -> None:
        w, x, result = p.sbuf((lanes, lanes), "fp32"), p.sbuf((lanes, 512), "fp32"), p.psum(512, 0)
        for _ in range(3):
            p.tensor.matmul(result, w, x)

    ends = [span.end for span in spans(TRN2, build) if span.name == "matmul"]
    return (ends[-1] - ends[-5]) // 2


def transfer(config: CoreConfig, count: int, rows: int = 1) -> int:
    """Cycles of a transfer of ``count`` bytes a row from HBM to SBUF."""

    def build(p: Program) -> None:
        p.dma(p.sbuf((rows, count // 4), "fp32"), p.input("a", (rows, count // 4), "fp32"))

    return next(span.end - span.start for span in spans(config, build))


def _published() -> list[Record]:
    """What golden says of TRN2 beside what was published; how many agree."""
    found = calibration()
    records = []
    for entry in found:
        note = f"published {entry.published:g}, ratio {entry.ratio:.2f}" + (f": {entry.why}" if entry.why else "")
        records.append(Record("core", entry.what, entry.modelled, entry.unit, reference=note))
    agree = sum(abs(entry.ratio - 1) <= WITHIN for entry in found)
    return [*records, Record("core", f"published figures met within {WITHIN:.0%}", agree, f"of {len(found)}", 10)]


def efficiency() -> dict[int, float]:
    """Bytes a cycle of transfers of one row a partition, relative to the longest rows, by the bytes of a row."""
    config = TRN2.replace(dma_row=ROW_CYCLES, hbm_lines=1 << 18)
    longest = 32 * 1024
    best = longest / transfer(config, longest, config.partitions)
    return {size: size / transfer(config, size, config.partitions) / best for size in PUBLISHED_EFFICIENCY}


def _dma() -> list[Record]:
    """The published curve of DMA efficiency against ours, with the published shortest time of a row."""
    found = efficiency()
    worst = max(abs(found[size] / published - 1) for size, published in PUBLISHED_EFFICIENCY.items())
    records = [
        Record("core", f"DMA, rows of {size} B", found[size], "of the longest", reference=f"published {published}")
        for size, published in PUBLISHED_EFFICIENCY.items()
    ]
    return [*records, Record("core", "DMA curve, largest difference", 100 * worst, "%", 10, better="lower")]
