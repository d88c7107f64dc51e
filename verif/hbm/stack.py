"""Bench of the HBM stack: every response is what a plain memory with the ordering rules gives, whatever goes wrong."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.hbm.calendar import check as check_device
from golden.hbm.device import Device
from golden.hbm.memory import SECDED, WORD_BYTES, Line, Memory, Request, Response
from spec.hbm import LINE_BYTES
from spec.hbm_stack import SMALL_STACK, HbmOperation, HbmStackConfig, HbmStatus
from verif.harness import counts
from verif.harness.bench import Bench, Trial
from verif.harness.coverage import CoverGroup
from verif.harness.model import Model, Result
from verif.harness.packing import pack, to_words, unpack_array
from verif.harness.stalls import STALLS
from verif.hbm.dram import HbmRig
from verif.hbm.replay import logged

Ints = NDArray[np.int64]
Rng = np.random.Generator

READ, WRITE, BARRIER = HbmOperation
UNKNOWN = 3
WORDS = LINE_BYTES // WORD_BYTES
SHARED = 8
"""Lines that all requesters write and read in turn."""

COVER = CoverGroup(
    "hbm.stack",
    {
        "operation": ("READ", "WRITE", "BARRIER", "unknown"),
        "status": tuple(status.name for status in HbmStatus),
        "scrub": ("written back",),
        "sharing": ("of a line",),
        "backpressure": tuple(STALLS),
        "reset": ("under load",),
        "order": ("of requests", "any"),
    },
)


@dataclass
class Work:
    """What one requester asks for: its requests and the data lines of its writes, refused ones included."""

    requests: list[Request] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)

    def add(self, rng: Rng, request: Request, damage: float = 0.0) -> None:
        """Append a request; a line of a write has one or two wrong bits in a word with probability ``damage``."""
        self.requests.append(request)
        for _ in range(Memory.lines_taken(request)):
            bits = rng.choice(SECDED.width, 1 + rng.integers(2), replace=False) if rng.random() < damage else ()
            mask = sum(1 << int(bit) for bit in bits)
            self.lines.append(Line(rng.bytes(LINE_BYTES), int(rng.integers(WORDS)) if mask else 0, mask))

    def expected(self, memory: Memory) -> list[Response]:
        """Golden's responses in order."""
        lines = iter(self.lines)
        responses: list[Response] = []
        for request in self.requests:
            data = [next(lines) for _ in range(Memory.lines_taken(request))]
            responses += memory.respond(request, data)
        return responses


def private(config: HbmStackConfig, port: int, count: int, rng: Rng, damage: float = 0.1) -> Work:
    """Requests of one requester to its own part of the stack: bursts, barriers, and one in ten a bad one."""
    part = config.stack_bytes // config.requesters // LINE_BYTES
    base = part * port
    span = min(part, 96)
    work = Work()
    longest = 2 * config.port_lines
    for number in range(count):
        start = int(rng.integers(span))
        length = int(min(rng.integers(1, longest + 1) if rng.random() < 0.2 else 1, span - start))
        address, size = (base + start) * LINE_BYTES, length * LINE_BYTES
        kind = rng.choice(4, p=(0.5, 0.4, 0.05, 0.05))
        bad = rng.random() < 0.1
        operation = int(kind)
        if kind != UNKNOWN and bad:
            flaw = rng.integers(4)
            address += int(rng.integers(1, LINE_BYTES)) if flaw == 0 else 0
            size = size - int(rng.integers(1, LINE_BYTES)) if flaw == 1 else 0 if flaw == 2 else size
            address = config.stack_bytes - size + LINE_BYTES * int(rng.integers(1, 4)) if flaw == 3 else address
        work.add(rng, Request(operation, address, size, number % (1 << config.tag_bits)), damage)
    return work


def stimulus(rig: HbmRig, works: Sequence[Work]) -> dict[str, Any]:
    """The streams of all requesters."""
    shapes = rig.stack.layouts
    inputs: dict[str, Any] = {}
    for port, work in enumerate(works):
        requests = [pack(shapes.request, request._asdict()) for request in work.requests]
        inputs[f"request__{port}"] = to_words(requests, shapes.request.size)
        offset = 8 * LINE_BYTES
        lines = [
            int.from_bytes(line.data, "little") | line.word << offset | line.mask << offset + WORDS.bit_length() - 1
            for line in work.lines
        ]
        inputs[f"written__{port}"] = to_words(lines, shapes.written.size)
    return inputs


def responses(rig: HbmRig, result: Result, port: int) -> list[Response]:
    """What a requester got. ``data`` is there where the status lets it be used and the response may carry any."""
    fields = result.fields(f"response__{port}")
    datas = np.ascontiguousarray(fields["data"], dtype="<u8").tobytes()
    rows = zip(*(fields[name].tolist() for name in ("tag", "status", "address", "last")), strict=True)
    return [
        Response(tag, HbmStatus(status), address, bool(last), datas[LINE_BYTES * at : LINE_BYTES * (at + 1)])
        for at, (tag, status, address, last) in enumerate(rows)
    ]


def agrees(got: Response, wanted: Response) -> bool:
    """Equal in all that the expected response states."""
    same = (got.tag, got.address, got.last) == (wanted.tag, wanted.address, wanted.last)
    status = got.status == wanted.status or (
        wanted.scrubbed and (got.status, wanted.status) == (HbmStatus.OK, HbmStatus.CORRECTED)
    )
    return same and status and wanted.data in (None, got.data)


def in_order(config: HbmStackConfig, responses: Sequence[Response]) -> Sequence[Response]:
    """As they came, or sorted where any order is right."""
    return responses if config.ordered else sorted(responses, key=lambda one: (one.tag, one.address, one.last))


def compare(config: HbmStackConfig, got: Sequence[Response], wanted: Sequence[Response], port: int) -> None:
    """All responses of a requester; unordered ones as a set that tag, address and status tell apart."""
    got, wanted = (in_order(config, side) for side in (got, wanted))
    wrong = [at for at, pair in enumerate(zip(got, wanted, strict=False)) if not agrees(*pair)]
    counts.add(len(wanted), len(wrong) + abs(len(got) - len(wanted)))
    assert not wrong, f"requester {port}, response {wrong[0]}: {got[wrong[0]]}, golden {wanted[wrong[0]]}"
    assert len(got) == len(wanted), f"requester {port}: {len(got)} responses, golden {len(wanted)}"


class Log:
    """Gives the devices every command of a model's runs, in the slots since power-on."""

    def __init__(self, rig: HbmRig) -> None:
        inner = rig.config.controller
        self.rig, self.slots = rig, 0
        self.pair = inner.geometry.pseudo_channels
        self.devices = [Device(inner.timing, inner.geometry) for _ in range(rig.config.channels)]
        self.names = [f"commands__{number}" for number in range(rig.config.pseudo_channels)]

    def take(self, result: Result) -> None:
        """Check the commands of one run."""
        shape = self.rig.command_shape
        for channel, device in enumerate(self.devices):
            rows = []
            for half in range(self.pair):
                sampled = unpack_array(shape, result.samples[self.names[channel * self.pair + half]])
                rows += logged(half, sampled)
            commands = np.concatenate(rows).astype(np.int64)
            commands[:, 0] += self.slots
            check_device(device, commands, self.slots + result.cycles)
        self.slots += result.cycles


def play(
    rig: HbmRig, model: Model, works: Sequence[Work], expect: Sequence[int], log: Log | None = None, **options: Any
) -> Result:
    """Run until every requester has its responses."""
    wanted = {f"response__{port}": count for port, count in enumerate(expect)}
    sample = [*(log.names if log else ()), "scrubbed"]
    slots = 400 * sum(len(work.requests) + len(work.lines) for work in works) + 2_000
    result = model.run(stimulus(rig, works), expect=wanted, sample=sample, limit=slots, idle=2_000, **options)
    if log:
        log.take(result)
    return result


def check(trial: Trial) -> None:
    """Private traffic under each kind of backpressure, shared lines, reset under load, planted faults."""
    config: HbmStackConfig = trial.config
    rig: Any = trial.block
    model = trial.model(no_inline=repeated(rig))
    rounds = 1_000 if trial.long else 100
    COVER.hit(order="of requests" if config.ordered else "any")
    memory, log = Memory(config), Log(rig)
    got: list[Response] = []
    wanted: list[Response] = []
    for name, stall in STALLS.items():
        with trial.test(f"requesters apart, streams that pause: {name}"):
            works = [private(config, port, rounds, trial.rng) for port in range(config.requesters)]
            golden = [work.expected(memory) for work in works]
            stalls = dict.fromkeys(model.design.streams, stall)
            result = play(rig, model, works, [len(part) for part in golden], log, stalls=stalls, seed=trial.seed)
            for port, wanted in enumerate(golden):
                got = responses(rig, result, port)
                compare(config, got, wanted, port)
                _cover(works[port], got)
            COVER.hit(backpressure=name)
            if result.sampled("scrubbed").any():
                COVER.hit(scrub="written back")
    with trial.test("planted faults are noticed"):
        notices(config, got, wanted)
    with trial.test("requesters on the same lines"):
        together(rig, model, memory, rounds, trial)
    with trial.test("reset under load forgets every request"):
        works = [private(config, port, rounds, trial.rng, damage=0) for port in range(config.requesters)]
        model.run(stimulus(rig, works), limit=rounds, resets=[(rounds - 1, 1)])
        works = [fresh(config, port, trial.rng) for port in range(config.requesters)]
        golden = [work.expected(Memory(config)) for work in works]
        result = play(rig, model, works, [len(part) for part in golden])
        for port, wanted in enumerate(golden):
            compare(config, responses(rig, result, port), wanted, port)
        COVER.hit(reset="under load")


def repeated(rig: HbmRig) -> list[str]:
    """Modules that a compiled model need hold once."""
    stack = rig.stack
    return [stack.lanes[0].module_name, stack.ports[0].module_name]


def fresh(config: HbmStackConfig, port: int, rng: Rng) -> Work:
    """Every line of a part of the stack written, then read."""
    work = Work()
    base = config.stack_bytes // config.requesters // LINE_BYTES * LINE_BYTES * port
    size = config.port_lines * LINE_BYTES
    for operation in (WRITE, BARRIER, READ):
        work.add(rng, Request(operation, base, size, 1))
    return work


def together(rig: HbmRig, model: Model, memory: Memory, count: int, trial: Trial) -> None:
    """All requesters write and read a few lines; each read may see only what the order of acceptance allows.

    A line is written in the slot in which its data is taken. A read is between its request and its response, and before
    the next write of the same requester.
    """
    config, rng = rig.config, trial.rng
    first = Work()
    first.add(rng, Request(WRITE, 0, SHARED * LINE_BYTES))
    first.expected(memory)
    play(rig, model, [first], [1])
    works = []
    for _ in range(config.requesters):
        work = Work()
        for tag in range(count):
            operation = READ if rng.random() < 0.5 else WRITE
            work.add(
                rng,
                Request(operation, int(rng.integers(SHARED)) * LINE_BYTES, LINE_BYTES, tag % (1 << config.tag_bits)),
            )
        works.append(work)
    result = play(rig, model, works, [count] * config.requesters)
    history: dict[int, list[tuple[int, bytes]]] = {}
    for address in range(0, SHARED * LINE_BYTES, LINE_BYTES):
        history[address] = [(-1, memory.read(address)[1] or b"")]
    for port, work in enumerate(works):
        stamps = result.stamps[f"written__{port}"].tolist()
        targets = [request.address for request in work.requests if request.operation == WRITE]
        for address, stamp, line in zip(targets, stamps, work.lines, strict=True):
            history[address].append((stamp, line.data))
    for writes in history.values():
        writes.sort()
    for port, work in enumerate(works):
        got = responses(rig, result, port)
        asked, came = result.stamps[f"request__{port}"].tolist(), result.stamps[f"response__{port}"].tolist()
        if not config.ordered:
            continue
        for response, request, since, until in zip(got, work.requests, asked, came, strict=True):
            if request.operation == WRITE:
                continue
            writes = history[request.address]
            before = max(at for at, (stamp, _) in enumerate(writes) if stamp <= since)
            legal = [data for stamp, data in writes[before:] if stamp < until]
            counts.add(1, response.data not in legal)
            assert response.data in legal, f"requester {port} read what nobody could have left at {request.address}"
            if len({id(data) for data in legal}) > 1:
                COVER.hit(sharing="of a line")


def notices(config: HbmStackConfig, got: Sequence[Response], wanted: Sequence[Response]) -> None:
    """Lost, doubled, exchanged and damaged responses are noticed."""
    got, wanted = (in_order(config, side) for side in (got, wanted))
    at = next(index for index, response in enumerate(wanted) if response.data is not None and index)
    one = got[at]
    flipped = Response(one.tag, one.status, one.address, one.last, bytes([one.data[0] ^ 1]) + one.data[1:])  # type: ignore[index]
    silent = Response(one.tag, HbmStatus.LOST, one.address, one.last, one.data)
    faults = ([*got[:at], *got[at + 1 :]], [*got[:at], one, *got[at:]], [*got[:at], flipped, *got[at + 1 :]],
              [*got[:at], silent, *got[at + 1 :]])  # fmt: skip
    with counts.paused():
        for fault in faults:
            try:
                compare(config, fault, wanted, 0)
            except AssertionError:
                continue
            raise AssertionError("a planted fault went unnoticed")


def _cover(work: Work, got: Sequence[Response]) -> None:
    names = {**{kind.value: kind.name for kind in HbmOperation}, UNKNOWN: "unknown"}
    for operation in {request.operation for request in work.requests}:
        COVER.hit(operation=names[operation])
    for status in {response.status for response in got}:
        COVER.hit(status=status.name)


BENCH = Bench(
    "hbm.stack",
    quick=(SMALL_STACK,),
    long=(SMALL_STACK.replace(ordered=False, requesters=2, streak=1), SMALL_STACK.replace(channels=1, requesters=1)),
    block=HbmRig,
    check=check,
    cover=COVER,
)
