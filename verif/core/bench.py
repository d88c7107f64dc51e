"""Bench of the whole core: programs on golden and on the hardware, every byte of every memory compared."""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.core.core import Core, Start
from golden.core.order import Entry
from golden.core.report import Report
from hdl.core.system import CoreSystem
from spec.core import ENGINES, LINE_BYTES, CoreConfig
from spec.isa import INSTRUCTION_BYTES, PATTERN, encode
from spec.scalar import ScalarConfig
from spec.tensor import TensorConfig
from spec.vector import ELEMENT_FORMATS, VectorConfig
from verif.core.driver import RtlTarget
from verif.core.programs import DATA_LINES, REGIONS, Case, Generator, shrink
from verif.harness.bench import Bench, Trial
from verif.harness.coverage import CoverGroup

Bytes = npt.NDArray[np.uint8]
FORMATS = ELEMENT_FORMATS[:4]
FUNCTIONS = ("copy", "square", "relu", "gelu", "exp", "rsqrt")
LITTLE = CoreConfig(
    tensor=TensorConfig(rows=4, columns=4, psum_banks=2, psum_bank_bytes=64, formats=("bf16", "fp16", "fp32")),
    vector=VectorConfig(lanes=4, formats=FORMATS),
    scalar=ScalarConfig(lanes=4, formats=FORMATS, functions=FUNCTIONS),
    sbuf_bytes=4096,
    dma_queues=8,
    hbm_lines=4096,
)
"""TINY's array and lanes, with the formats and functions of ``examples.kernels``: compiled in half the time."""
MARKED = LITTLE.replace(
    tensor=TensorConfig(
        rows=8,
        columns=8,
        psum_banks=1,
        psum_bank_bytes=64,
        formats=("bf16", "fp8_e4m3fn", "fp4_e2m1"),
        microscaling=True,
        sparsity=True,
    ),
    vector=VectorConfig(lanes=8, formats=ELEMENT_FORMATS[:6]),
    scalar=ScalarConfig(lanes=8, formats=ELEMENT_FORMATS[:6], functions=("copy",)),
    dma_engines=1,
)
"""The smallest core whose operands have scales and tags beside them."""
CODE_LINES = 1024
"""Room for code behind the data of a random program; what is behind it takes dumps."""

COVER = CoverGroup(
    "core",
    {
        "kind": ("legal", "illegal", "deadlock"),
        "engine": ENGINES,
        "fault": ("core", "engine", "none"),
        "memory": ("corrected", "lost"),
        "reset": ("midway",),
    },
)

ILLEGAL = "golden and hardware agree that the program, drawn as a legal one, is not"


class Pair:
    """The same core twice, golden and hardware, with the same memories."""

    def __init__(self, config: CoreConfig, target: RtlTarget) -> None:
        self.config, self.target = config, target
        self.golden = Core(config)
        self.compared = 0

    def load(self, case: Case) -> dict[str, Start]:
        """Put a program into both memories."""
        starts, code = case.code()
        self.write(0, case.data)
        for engine, data in code.items():
            self.write(starts[engine].line * LINE_BYTES, data)
        return starts

    def write(self, address: int, data: Bytes) -> None:
        """Bytes into both HBMs."""
        self.golden.memories.hbm[address : address + len(data)] = data
        self.target.write(address, data)

    def run(self, case: Case) -> tuple[Report, Report]:
        """Run a program on both."""
        starts = self.load(case)
        return self.golden.run(starts), self.target.run(starts)

    def dump(self) -> dict[str, Bytes]:
        """Memories of the hardware: HBM is read, SBUF and PSUM copied there by a program."""
        config = self.config
        found = {"hbm": self.target.read(0, DATA_LINES * LINE_BYTES)}
        address = (DATA_LINES + CODE_LINES) * LINE_BYTES
        places, words = {}, []
        for queue, (space, held, pitch) in enumerate(
            (("sbuf", config.sbuf_bytes, config.sbuf_pitch), ("psum", config.psum_bytes, config.psum_pitch))
        ):
            fields = {
                "queue": queue,
                "source_space": space,
                "source_step0": 4,
                "source_step1": pitch,
                "target_address": address,
                "target_step0": 4,
                "target_step1": held,
                "num0": held // 4,
                "num1": config.partitions,
                "num2": 1,
                "num3": 1,
            }
            words.append(encode("dma", fields))
            places[space] = address, held
            address += -(-held * config.partitions // LINE_BYTES) * LINE_BYTES
        words.append(encode("halt", {}))
        line = DATA_LINES
        code = b"".join(word.to_bytes(INSTRUCTION_BYTES, "little") for word in words)
        self.target.write(line * LINE_BYTES, np.frombuffer(code, np.uint8))
        report = self.target.run({"sync": Start(line, len(words))})
        assert report.fault is None, f"the dump stopped: {report.fault}"
        for space, (place, held) in places.items():
            count = held * config.partitions
            found[space] = self.target.read(place, count).reshape(config.partitions, held)
        return found

    def differences(self) -> str:
        """The first byte in which the two differ, in words; empty if none does."""
        memories = self.golden.memories
        expected = {"hbm": memories.hbm[: DATA_LINES * LINE_BYTES], "sbuf": memories.sbuf, "psum": memories.psum}
        for name, found in self.dump().items():
            self.compared += found.size
            if not np.array_equal(found, expected[name]):
                place = tuple(int(index[0]) for index in np.nonzero(found != expected[name]))
                return f"{name}{list(place)} is {found[place]:#x}, golden has {expected[name][place]:#x}"
        return ""


def drawn(pair: Pair, draw: Generator, count: int) -> Case:
    """A legal random program: it accumulates only onto what the pair's tensor engine has written since its reset."""
    draw.written[:] = pair.golden.units.tensor.written.all(0)
    return draw.case(count)


def fails(pair: Pair, case: Case) -> str:
    """What is wrong with a legal program on the hardware; empty if nothing is."""
    golden, rtl = pair.run(case)
    if golden.fault != rtl.fault:
        return f"golden ends with {golden.fault}, the hardware with {rtl.fault}"
    return ILLEGAL if golden.fault else pair.differences()


def spoiled(case: Case, rng: np.random.Generator) -> Case:
    """The same program with one wrong field in one instruction."""
    plain = [number for number, one in enumerate(case.entries) if number >= REGIONS and one.name != "vector.set_seed"]
    index = int(rng.choice(plain))
    entry = case.entries[index]
    wrong: dict[str, list[dict[str, Any]]] = {
        "vector": [
            {"output.num1": 0},
            {"output.offset": (1 << 24) - 4},
            {"output.memory": "psum", "output.offset": 1 << 12},
            {"output.partitions": 0},
            {"output.start": 3, "output.partitions": 4},
            {"length": 0},
            {"output.base": 1, "output.offset": 1},
            {"output.step0": -32768, "output.num0": 3},
        ],
        "scalar": [
            {"output.partitions": case.config.partitions + 1},
            {"length": 0},
            {"output.num3": 0},
            {"output.offset": 1 << 20},
        ],
        "tensor": [
            {"columns": 0},
            {"source.memory": "psum"},
            {"source.partitions": case.config.partitions + 1},
            {"location": 31, "columns": 2},
            {"sparse": 1, "source.num3": 5, "beside.num0": 0},
        ],
        "sync": [
            {"queue": 15},
            {"source_address": 1 << 39},
            {"target_space": "psum", "target_address": 1 << 20},
            {"num2": 0},
            {"target_step0": 3, "target_format": "fp32"},
            {"source_format": "int8"},
        ],
    }
    choices = wrong[entry.engine]
    change = choices[int(rng.integers(0, len(choices)))]
    if entry.name in ("alu", "nop"):
        change = {"raw": 0x80}
    if entry.name in ("load", "store"):
        change = {"address": 1}
    if entry.name == "load_stationary" and "location" in change:
        change = {"columns": case.config.tensor.columns + 1}
    entries = list(case.entries)
    if any(key.startswith("left.") for key in entry.fields) and rng.random() < 0.2:
        change = {f"output.{part.name}": entry.fields.get(f"left.{part.name}", 0) for part in PATTERN}
        change |= {"output.num0": 4, "output.step0": 0}
    fields = entry.fields | change
    if entry.name == "ring":
        first, *rest = entry.fields["descriptors"]
        fields = entry.fields | {"descriptors": [*rest, first | change]}
    entries[index] = dataclasses.replace(entry, fields=fields)
    return Case(case.config, entries, case.data)


def untouched(pair: Pair, case: Case, before: dict[str, Bytes]) -> str:
    """Bytes that no instruction of a program writes, and that changed."""
    found = pair.dump()
    for name, old in before.items():
        free = np.ones(old.shape, np.bool_)
        for entry in case.entries:
            for box in entry.writes:
                if box.memory == name:
                    place = (slice(box.low, box.high),)
                    free[(slice(box.partitions.start, box.partitions.stop), *place) if name != "hbm" else place] = False
        pair.compared += int(free.sum())
        if not np.array_equal(found[name][free], old[free]):
            return f"{name} changed where no instruction writes"
    return ""


def deadlocked(config: CoreConfig) -> Case:
    """Two engines that wait for each other, and one that halts."""
    entries = [
        Entry(engine, engine, "nop", {"wait": 1, "wait_semaphore": 200 + other, "wait_value": 7}, (), (), "")
        for engine, other in (("vector", 1), ("scalar", 2))
    ]
    return Case(config, entries, np.zeros(LINE_BYTES, np.uint8))


def check(trial: Trial) -> None:
    """Random programs, wrong programs, deadlock, errors of memory, reset."""
    config: CoreConfig = trial.config
    target = RtlTarget(config, trial.model(no_inline=RtlTarget.shared(config)))
    pair = Pair(config, target)
    draw = Generator(config, trial.rng)
    many, wrong = ((2000, 500) if config == LITTLE else (500, 100)) if trial.long else (10, 10)
    for number in range(many):
        with trial.test(f"random program {number}"):
            case = drawn(pair, draw, 30)
            problem = fails(pair, case)
            if problem:
                small = shrink(case, lambda one: fails(pair, one) not in ("", ILLEGAL))
                names = "; ".join(f"{entry.engine} {entry.name} {entry.fields}" for entry in small.entries)
                raise AssertionError(f"{problem}; shortest program that fails: {names}")
            for entry in case.entries:
                COVER.hit(kind="legal", engine=entry.engine, fault="none")
    for number in range(wrong):
        with trial.test(f"wrong program {number}"):
            case = spoiled(drawn(pair, draw, 12), trial.rng)
            before = pair.dump()
            before["hbm"] = np.concatenate([case.data, before["hbm"][len(case.data) :]])
            golden, rtl = pair.run(case)
            assert golden.fault is not None
            assert golden.fault == rtl.fault, f"golden ends with {golden.fault}, the hardware with {rtl.fault}"
            problem = untouched(pair, case, before)
            assert not problem, problem
            owner = golden.fault.reason.split("_")[0]
            COVER.hit(kind="illegal", fault="engine" if owner in ENGINES else "core")
            pair = level(pair, trial)
    _special(trial, pair, draw)
    assert pair.compared or trial.row.tests


def level(pair: Pair, trial: Trial) -> Pair:
    """After a fault the engines stopped at different points: golden goes on from what the hardware holds."""
    pair.target.model.run({}, resets=[(0, 1)], limit=4)
    fresh = Pair(pair.config, pair.target)
    for name, found in fresh.dump().items():
        memory = getattr(fresh.golden.memories, name)
        memory[: len(found)] = found
    trial.row.vectors += pair.compared
    return fresh


def _special(trial: Trial, pair: Pair, draw: Generator) -> None:
    """What random programs do not reach."""
    config = pair.config
    with trial.test("deadlock: who waits for what"):
        golden, rtl = pair.run(deadlocked(config))
        assert golden.fault == rtl.fault
        assert rtl.fault is not None
        assert rtl.fault.reason == "deadlock"
        assert len(rtl.fault.waits) == 2
        COVER.hit(kind="deadlock")
    with trial.test("reset in mid-program: the next one runs"):
        for cycle in (50, 300, 420):
            case = drawn(pair, draw, 20)
            starts = pair.load(case)
            word = pair.target.start_word(starts)
            pair.target.model.run({"start": word})
            pair.target.model.run(resets=[(cycle, 2)], limit=cycle + 4)
            pair = level(pair, trial)
            problem = fails(pair, drawn(pair, draw, 12))
            assert not problem, problem
        COVER.hit(reset="midway")
    with trial.test("one wrong bit of SBUF is repaired and counted"):
        case = drawn(pair, draw, 20)
        starts = pair.load(case)
        golden, rtl = pair.golden.run(starts), pair.target.run(starts, hold={"inject": 1 << 5})
        assert rtl.fault == golden.fault is None
        problem = pair.differences()
        assert not problem, problem
        assert pair.target.corrected > 0
        COVER.hit(memory="corrected")
    with trial.test("two wrong bits of SBUF stop the program that reads them"):
        filled = draw.case(0)
        pair.target.run(pair.load(filled), hold={"inject": 3})
        try:
            pair.dump()
            reason = "none"
        except AssertionError as stopped:
            reason = str(stopped)
        assert "memory_lost" in reason, f"a word with two wrong bits was read: {reason}"
        pair.target.run(pair.load(filled))
        COVER.hit(memory="lost")
    with trial.test("planted faults are noticed"):
        pair = level(pair, trial)
        problem = fails(pair, drawn(pair, draw, 8))
        assert not problem, problem
        memories = pair.golden.memories
        for memory in (memories.hbm, memories.sbuf, memories.psum):
            place = tuple(int(trial.rng.integers(0, min(size, DATA_LINES * LINE_BYTES))) for size in memory.shape)
            memory[place] ^= 1
            assert pair.differences(), "a flipped bit went unnoticed"
            memory[place] ^= 1
    trial.row.vectors += pair.compared


BENCH = Bench("core.core", block=CoreSystem, quick=(LITTLE,), long=(MARKED,), check=check, cover=COVER)
