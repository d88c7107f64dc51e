"""What the units of vector and scalar engine share: from a pattern to a job, and an instruction's end."""

from typing import Any

from amaranth.hdl import C, Module, Mux, Value

from spec.core import CoreConfig
from spec.isa import CONSTANT_OFFSET_BITS, DIMENSIONS, UPDATES

NONE = UPDATES.index("none")


def drive_job(m: Module, config: CoreConfig, job: Any, pattern: Any, size: Any, count: Any, fill: Any = 0) -> None:
    """A job that goes through ``count`` elements of a pattern."""
    m.d.comb += [
        job.psum.eq(pattern.memory),
        job.quarter.eq(quarter_of(config, pattern.start)),
        job.partitions.eq(pattern.partitions),
        job.offset.eq(pattern.offset),
        job.size.eq(size),
        job.count.eq(count),
        job.fill.eq(fill),
    ]
    for dimension in range(DIMENSIONS):
        m.d.comb += [
            job.steps[dimension].eq(getattr(pattern, f"step{dimension}")),
            job.nums[dimension].eq(getattr(pattern, f"num{dimension}")),
        ]


def drive_constant(m: Module, config: CoreConfig, job: Any, word: Any) -> None:
    """A job that reads one row of words, from a start partition to the last."""
    start = word[CONSTANT_OFFSET_BITS:]
    m.d.comb += [
        job.psum.eq(0),
        job.quarter.eq(quarter_of(config, start)),
        job.partitions.eq(config.partitions - start),
        job.offset.eq(word[:CONSTANT_OFFSET_BITS]),
        job.size.eq(2),
        job.count.eq(1),
    ]
    for dimension in range(DIMENSIONS):
        m.d.comb += job.nums[dimension].eq(1)


def quarter_of(config: CoreConfig, start: Any) -> Any:
    """Which quarter a legal start partition is."""
    quarter = config.quarter
    return Mux(start == 0, C(0, 2), Mux(start == quarter, C(1, 2), Mux(start == 2 * quarter, C(2, 2), C(3, 2))))


def drive_update(m: Module, payload: Any, word: Any, domain: Any = None) -> None:
    """The change of a semaphore that an instruction's header names; kept from the next cycle on in a domain."""
    domain = m.d.comb if domain is None else domain
    domain += [
        payload.kind.eq(word.update),
        payload.semaphore.eq(word.update_semaphore),
        payload.value.eq(word.update_value),
        payload.core.eq(word.update_core),
    ]


def pass_on(m: Module, source: Any, target: Any) -> None:
    """A stream into another whose payload has as many bits."""
    m.d.comb += [
        target.valid.eq(source.valid),
        Value.cast(target.payload).eq(Value.cast(source.payload)),
        source.ready.eq(target.ready),
    ]


def join(m: Module, share: Any, index: int, requests: Any, answers: Any = None) -> None:
    """Connect a memory port to an asker's place of a :class:`~hdl.core.share.Share`; writers have no answers."""
    pass_on(m, requests, getattr(share, f"asked_{index}"))
    if answers is not None:
        back = getattr(share, f"answer_{index}")
        m.d.comb += [answers.valid.eq(back.valid), Value.cast(answers.data).eq(back.data)]


def serve(m: Module, share: Any, requests: Any, answers: Any) -> None:
    """Connect a :class:`~hdl.core.share.Share` to the memory port that it shares."""
    pass_on(m, share.request, requests)
    m.d.comb += [share.answer.valid.eq(answers.valid), share.answer.data.eq(Value.cast(answers.data))]
