"""Figures of the core: golden's time against the hardware's, published measurements against golden, speed."""

import time
from collections.abc import Callable

from examples.kernels import kernels, matmul
from golden.core.report import Span
from sdk.program import Program
from sdk.run import GoldenTarget, load, run
from sdk.tensors import View
from spec.core import CoreConfig, core_of
from spec.presets import machine_named
from spec.results import Record
from verif.core.bench import LITTLE
from verif.core.driver import RtlTarget

SMALL = core_of(machine_named("SMALL"))
TRN2 = core_of(machine_named("TRN2")).replace(hbm_lines=1 << 20)
GHZ = 1.4
"""Clock of DMA and sequencers that nanoseconds are told in: the profiler's core clock of the published measurements."""
DMA_SIZES = (64, 256, 1024, 4096)
"""Bytes of one row of a transfer."""


def bench_core() -> list[Record]:
    """Every figure."""
    return [*_against_hardware(), *_tensor(), *_published(), *_dma()]


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


def busy(config: CoreConfig, k: int, m: int, n: int) -> float:
    """Share of the cycles in which the array takes a column, from the middle of a tiled product to its end."""
    kernel = matmul(config, k, m, n, result="bf16")
    report = run(kernel.program, "golden", kernel.inputs).report
    found = [span for span in report.spans if span.name == "matmul"]
    later = found[len(found) // 2 :]
    columns = min(config.tensor.bank_depth, n)
    return len(later) * columns / (later[-1].end - later[0].end + columns)


def _tensor() -> list[Record]:
    """The tiled product."""
    small = busy(SMALL, 128, 256, 256)
    return [Record("core", "array busy in the tiled product at SMALL, modelled", 100 * small, "%", 95)]


Build = Callable[[Program], None]


def spans(config: CoreConfig, build: Build) -> list[Span]:
    """What the engines and DMA do in a program on an idle machine, in the order of their ends."""
    with Program(config) as p:
        build(p)
    target = GoldenTarget(p)
    report = target.run(load(p, target, {}))
    assert report.fault is None, report.fault
    return sorted(report.spans, key=lambda span: span.end)


def interval(config: CoreConfig, issue: Callable[[Program], Callable[[], None]]) -> int:
    """Cycles between the last two of four equal instructions."""

    def build(p: Program) -> None:
        repeat = issue(p)
        for _ in range(4):
            repeat()

    ends = [span.end for span in spans(config, build)]
    return ends[-1] - ends[-2]


def _cases() -> list[tuple[str, float, float, str]]:
    """``(what, published, modelled, unit and reason)``, of the public record of the real machine."""
    lanes = TRN2.partitions

    def tensor(loaded: int, moved: int, format_: str = "bf16") -> Callable[[Program], Callable[[], None]]:
        def issue(p: Program) -> Callable[[], None]:
            w, x = p.sbuf((lanes, lanes), format_), p.sbuf((lanes, 512), format_)
            p.tensor.load_stationary(w, "fp32_high" if format_ == "fp32" else None)
            result = p.psum(512, 0)

            def repeat() -> None:
                if loaded:
                    p.tensor.matmul(result[:, :moved], w[:, :loaded], x[:, :moved])
                else:
                    p.tensor.move(result[:, :moved], x[:, :moved])

            return repeat

        return issue

    def vector(work: Callable[[Program, View, View, View], None], n: int) -> Callable[[Program], Callable[[], None]]:
        def issue(p: Program) -> Callable[[], None]:
            x, y, z = (p.sbuf((lanes, n), "fp32") for _ in range(3))
            return lambda: work(p, x, y, z)

        return issue

    fixed = "our instruction ends 20 to 30 cycles after its last row, where the published cost counts none"
    n = 512
    cases: list[tuple[str, float, float, str]] = [
        ("matmul, 512 columns", 512, interval(TRN2, tensor(0, 512)), "cycles"),
        ("matmul, 64 columns", 64, interval(TRN2, tensor(0, 64)), "cycles"),
        ("matmul with a new stationary, 512 columns", 512, interval(TRN2, tensor(lanes, 512)), "cycles"),
        ("matrix-vector, short stationary", 128, interval(TRN2, tensor(1, 128)), "cycles"),
        (
            "matrix-vector, short moving",
            64,
            interval(TRN2, tensor(lanes, 1)),
            "cycles; a stationary comes a column a cycle from SBUF, four on the real machine",
        ),
        ("fp32 matmul, 512 columns", 4 * 512, 2 * interval_of_products(lanes), "cycles"),
        (
            "vector, one operand",
            n,
            interval(TRN2, vector(lambda p, x, y, z: p.vector.tensor_scalar(y, x, "add", 1.0), n)),
            f"cycles; {fixed}",
        ),
        (
            "vector, two operands of SBUF",
            2 * n,
            interval(TRN2, vector(lambda p, x, y, z: p.vector.tensor_tensor(z, x, y, "add"), n)),
            f"cycles; {fixed}",
        ),
        (
            "vector, reduction",
            n,
            interval(TRN2, vector(lambda p, x, y, z: p.vector.tensor_reduce(y[:, :1], x, "add"), n)),
            f"cycles; {fixed}",
        ),
        (
            "vector, eight largest",
            n,
            interval(TRN2, vector(lambda p, x, y, z: p.vector.max8(y[:, :8], x), n)),
            f"cycles; {fixed}",
        ),
        (
            "vector, reciprocal",
            8 * n,
            interval(TRN2, vector(lambda p, x, y, z: p.vector.reciprocal(y, x), n)),
            "cycles; ours divides an element a cycle",
        ),
        (
            "scalar, activation",
            n,
            interval(TRN2, vector(lambda p, x, y, z: p.scalar.activation(y, x, "exp"), n)),
            f"cycles; {fixed}",
        ),
        (
            "scalar, one element after the other",
            264,
            interval(TRN2, vector(lambda p, x, y, z: p.scalar.activation(y[:, :1], x[:, :1], "exp"), 8)),
            "cycles; the real machine's fixed cost of 60 to 100 cycles an access is not part of ours",
        ),
        ("DMA, 32 KiB, one engine", 1416, transfer(32 * 1024) / GHZ, "ns; ours moves 4 bytes a cycle"),
    ]
    return cases


def interval_of_products(lanes: int) -> int:
    """Half the cycles of an fp32 product: two of its four passes."""

    def build(p: Program) -> None:
        w, x, result = p.sbuf((lanes, lanes), "fp32"), p.sbuf((lanes, 512), "fp32"), p.psum(512, 0)
        for _ in range(3):
            p.tensor.matmul(result, w, x)

    ends = [span.end for span in spans(TRN2, build) if span.name == "matmul"]
    return (ends[-1] - ends[-5]) // 2


def transfer(count: int, rows: int = 1) -> int:
    """Cycles of a transfer of ``count`` bytes a row from HBM to SBUF."""

    def build(p: Program) -> None:
        p.dma(p.sbuf((rows, count // 4), "fp32"), p.input("a", (rows, count // 4), "fp32"))

    return next(span.end - span.start for span in spans(TRN2, build))


def _published() -> list[Record]:
    """What golden says of TRN2 beside what was published; the array's clock for the product of 2048."""
    records = []
    for what, published, modelled, reason in _cases():
        unit, _, why = reason.partition("; ")
        note = f"published {published:g}, ratio {modelled / published:.2f}" + (f": {why}" if why else "")
        records.append(Record("core", what, modelled, unit, reference=note))
    return records


def _dma() -> list[Record]:
    """Bytes a cycle of one engine against the size of a row, 16 rows."""
    best = 16 * DMA_SIZES[-1] / transfer(DMA_SIZES[-1], 16)
    return [
        Record("core", f"DMA, rows of {size} B", 16 * size / transfer(size, 16) / best, "of the largest")
        for size in DMA_SIZES
    ]
