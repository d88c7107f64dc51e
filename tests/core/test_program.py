"""Programs: built, ordered, run, stopped by faults, saved, shown."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from golden.core.core import Core, Ring, Start
from golden.core.memory import Memories
from golden.vector.statistics import bn_aggr, bn_stats
from sdk.image import restore, save
from sdk.program import Program
from sdk.run import ProgramError, run
from sdk.tensors import contiguous
from sdk.timeline import write_timeline
from spec.core import ENGINES, LINE_BYTES, core_of
from spec.isa import INSTRUCTION_BYTES, assemble, encode
from spec.parameters import ParameterError
from spec.presets import SMALL, TINY
from verif.core.bench import LITTLE

RNG = np.random.default_rng(0)


def doubled() -> Program:
    with Program(TINY) as p:
        a, b = p.input("a", (4, 16), "fp32"), p.output("b", (4, 16), "fp32")
        x = p.sbuf((4, 16), "fp32")
        p.dma(x, a)
        p.vector.tensor_scalar(x, x, "multiply", 2.0)
        p.dma(b, x)
    return p


def test_a_program_runs_and_its_lines_are_known() -> None:
    p = doubled()
    a = RNG.normal(size=(4, 16)).astype(np.float32)
    assert np.array_equal(p.run(a=a)["b"], 2 * a)
    assert "test_program.py" in p.disassemble()
    for text in p.disassemble().splitlines():
        assembly = text[14:].split("  ; ")[0].strip()
        assert assemble(assembly)


def test_dma_transposes_casts_accumulates_gathers_and_scatters() -> None:
    with Program(LITTLE) as p:
        a, t = p.input("a", (4, 12), "fp32"), p.output("t", (12, 4), "bf16")
        total = p.input("total", (4, 12), "fp32")
        order, picked, spread = p.input("order", (4,), "int32"), p.output("picked", (4, 12), "fp32"), None
        spread = p.output("spread", (4, 12), "fp32")
        p.dma(t, a.T)
        p.dma(total, a, accumulate=True)
        p.dma(picked, a, gather=order)
        p.dma(spread, a, scatter=order)
    value = RNG.normal(size=(4, 12)).astype(np.float32)
    result = p.run(a=value, total=np.ones((4, 12), np.float32), order=np.array([2, 0, 3, 1], np.int32))
    assert np.array_equal(result["t"].astype(np.float32), value.T.astype(result["t"].dtype).astype(np.float32))
    assert np.array_equal(result["total"], value + np.float32(1))
    assert np.array_equal(result["picked"], value[[2, 0, 3, 1]])
    assert np.array_equal(result["spread"][[2, 0, 3, 1]], value)


def ring_of_four() -> tuple[Core, dict[str, Start], list[int]]:
    """Three descriptors of a ring of four, from the last one on, twice; each moves a line, and where they put it."""
    core = Core(LITTLE)
    core.memories.hbm[: 4 * LINE_BYTES] = RNG.integers(0, 256, 4 * LINE_BYTES)
    step = "num0=16 num1=1 num2=1 num3=1 source_step0=4 target_step0=4 done=increment done_semaphore=7"
    lines = [
        "alu operation=move target=5 immediate=1 value=3",
        "ring left=5 address=16384 size=2 count=3 update=increment update_semaphore=8",
        "nop wait=1 wait_semaphore=7 wait_value=3",
        "ring left=5 address=16384 size=2 count=1 wait=1 wait_semaphore=8 wait_value=1",
        "halt",
    ]
    descriptors = [f"dma {step} source_address={64 * n} target_address={8192 + 64 * n}" for n in range(4)]
    for place, texts in ((20480, lines), (16384, descriptors)):
        data = b"".join(assemble(line).to_bytes(INSTRUCTION_BYTES, "little") for line in texts)
        core.memories.hbm[place : place + len(data)] = np.frombuffer(data, np.uint8)
    return core, {"sync": Start(20480 // LINE_BYTES, len(lines))}, [0, 1, 2, 3]


def test_a_ring_of_descriptors_goes_round() -> None:
    core, starts, places = ring_of_four()
    before = core.memories.hbm.copy()
    report = core.run(starts)
    assert report.fault is None
    assert report.issued["sync"] == 5 + 3 + 1
    for place in places:
        assert np.array_equal(core.memories.hbm[8192 + 64 * place :][:LINE_BYTES], before[64 * place :][:LINE_BYTES])


def test_transfers_of_a_program_come_from_a_ring() -> None:
    with Program(LITTLE) as p:
        a, b, c = p.input("a", (4, 8), "fp32"), p.output("b", (4, 8), "fp32"), p.output("c", (8, 4), "fp32")
        x = p.sbuf((4, 8), "fp32")
        with p.ring(queue=2):
            p.dma(x, a)
            p.dma(c, a.T)
        p.scalar.activation(x, x, "square")
        with p.ring(queue=1):
            p.dma(b, x)
    value = RNG.normal(size=(4, 8)).astype(np.float32)
    found = p.run(a=value)
    assert np.array_equal(found["b"], value * value)
    assert np.array_equal(found["c"], value.T)
    assert "ring" in p.disassemble()


def biased() -> Program:
    """A product onto a bias that the vector engine, the scalar engine and DMA have put into PSUM, a bank each."""
    with Program(LITTLE) as p:
        w, x, bias = (p.input(name, shape, "fp32") for name, shape in (("w", (4, 4)), ("x", (4, 8)), ("bias", (4, 8))))
        y = p.output("y", (3, 4, 8), "fp32")
        left, right, start = p.sbuf((4, 4), "fp32"), p.sbuf((4, 8), "fp32"), p.sbuf((4, 8), "fp32")
        for tile, tensor in ((left, w), (right, x), (start, bias)):
            p.dma(tile, tensor)
        for number in range(3):
            result = p.psum(8, number % LITTLE.tensor.psum_banks)
            if number == 0:
                p.vector.tensor_copy(result, start)
            elif number == 1:
                p.scalar.tensor_copy(result, start)
            else:
                p.dma(result, bias)
            p.tensor.matmul(result, left, right, accumulate=True)
            p.vector.tensor_scalar(result, result, "multiply", 2.0)
            p.dma(y[number], result)
    return p


def test_every_engine_writes_psum_and_products_add_to_it() -> None:
    w, x, bias = (RNG.integers(-4, 5, shape).astype(np.float32) for shape in ((4, 4), (4, 8), (4, 8)))
    result = biased().run(w=w, x=x, bias=bias)
    assert np.array_equal(result["y"], np.broadcast_to(2 * (w.T @ x + bias), (3, 4, 8)))


def test_planted_faults_of_rings_and_psum_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Memories, "mark", lambda *_: None)
    with pytest.raises(ProgramError, match="tensor_unwritten"):
        biased().run()
    monkeypatch.setattr(Ring, "place", property(lambda ring: ring.address + ring.number * INSTRUCTION_BYTES))
    core, starts, _ = ring_of_four()
    fault = core.run(starts).fault
    assert fault is not None
    assert fault.reason == "bad_opcode"


def test_accumulation_onto_one_element_adds_every_term() -> None:
    with Program(LITTLE) as p:
        a, total = p.input("a", (8,), "fp32"), p.output("total", (1,), "fp32")
        p.dma(total.repeat(0, 8)[:, 0], a, accumulate=True)
    assert p.run(a=np.arange(8, dtype=np.float32))["total"][0] == 28


FAULTS: list[tuple[str, dict[str, Any], str]] = [
    ("vector.tensor_copy", {"output.num2": 0}, "bad_pattern"),
    ("vector.tensor_copy", {"output.offset": 1 << 20}, "bad_address"),
    ("vector.tensor_copy", {"output.step0": -5}, "bad_address"),
    ("vector.tensor_copy", {"output.partitions": 0}, "bad_partitions"),
    ("vector.tensor_copy", {"output.start": 1, "output.partitions": 2}, "bad_partitions"),
    ("vector.tensor_copy", {"output.memory": "psum", "output.offset": 1 << 12}, "bad_address"),
    ("matmul", {"format": "bf16", "columns": 4, "source.memory": "psum"}, "bad_memory"),
    ("vector.tensor_copy", {"length": 0}, "vector_bad_length"),
    ("scalar.activation", {"function": 31}, "scalar_bad_function"),
    ("matmul", {"format": "bf16", "columns": 4}, "tensor_stationary"),
    ("matmul", {"format": "bf16", "columns": 4, "location": 14}, "tensor_address"),
    ("load_stationary", {"format": "bf16", "columns": 5}, "tensor_columns"),
    ("load_stationary", {"format": "fp8_e4m3", "columns": 4}, "tensor_format"),
    ("dma", {"queue": 15}, "bad_queue"),
    ("dma", {"target_space": "psum", "target_address": 1 << 12}, "bad_address"),
    ("dma", {"num3": 0}, "bad_pattern"),
    ("dma", {"source_address": 1 << 30}, "bad_address"),
    ("dma", {"target_step0": 2}, "bad_address"),
    ("dma", {"indexed": "gather", "list_address": 2}, "bad_address"),
    ("ring", {"address": 4096}, "bad_pattern"),
    ("ring", {"address": 4, "count": 1}, "bad_address"),
    ("ring", {"address": 1 << 17, "size": 20, "count": 1}, "bad_address"),
    ("ring", {"address": 4096, "count": 1}, "bad_opcode"),
    ("load", {"address": 2}, "bad_address"),
    ("load", {"address": 64, "immediate": 1, "value": -68}, "bad_address"),
    ("store", {"address": LITTLE.hbm_bytes}, "bad_address"),
    ("nop", {"wait": 1, "wait_value": 1}, "deadlock"),
]


CONTROL = dict.fromkeys(("dma", "nop", "ring", "load", "store"), "sync")


@pytest.mark.parametrize(("name", "change", "reason"), FAULTS)
def test_a_fault_names_engine_instruction_and_reason(name: str, change: dict[str, Any], reason: str) -> None:
    core = Core(LITTLE.replace(dma_queues=8))
    legal: dict[str, Any] = {}
    engine = name.split(".")[0] if "." in name else CONTROL.get(name, "tensor")
    patterns = {"vector": ("left", "output"), "scalar": ("input", "output"), "tensor": ("source",), "sync": ()}[engine]
    for side in patterns:
        legal |= {f"{side}.partitions": 4, f"{side}.step0": 1}
        legal |= {f"{side}.num{dimension}": 4 if dimension == 0 else 1 for dimension in range(4)}
    if name == "dma":
        legal |= {f"num{dimension}": 1 for dimension in range(4)} | {"target_address": 64}
    if engine in ("vector", "scalar"):
        legal["length"] = 4
    words = [encode("nop", {}), encode(name, legal | change), encode("halt", {})]
    data = b"".join(word.to_bytes(INSTRUCTION_BYTES, "little") for word in words)
    core.memories.hbm[4096 : 4096 + len(data)] = np.frombuffer(data, np.uint8)
    before = core.memories.sbuf.copy()
    fault = core.run({engine: Start(4096 // LINE_BYTES, len(words))}).fault
    assert fault is not None
    assert (fault.engine, fault.counter, fault.reason) == (engine, 1, reason)
    assert np.array_equal(core.memories.sbuf, before)
    assert core.run({}).fault is None


def test_an_index_that_leads_outside_stops_the_program() -> None:
    with Program(LITTLE) as p:
        a, b, order = p.input("a", (4, 4), "fp32"), p.output("b", (2, 4), "fp32"), p.input("order", (2,), "int32")
        p.dma(b, a, gather=order)
    with pytest.raises(ProgramError, match=r"test_program.py:\d+: sync instruction 0: bad_address"):
        p.run(order=np.array([0, -3], np.int32))


def test_a_deadlock_says_who_waits_for_what() -> None:
    with Program(LITTLE) as p:
        p.add("vector", "nop", {"wait": 1, "wait_semaphore": 9, "wait_value": 2}, [], [])
    with pytest.raises(ProgramError, match=r"vector 0 waits for semaphore 9 >= 2, it is 0"):
        p.run()


def test_registers_loops_and_relative_addresses() -> None:
    """Four rows are doubled by one instruction in a loop whose operand moves with a register."""
    core = Core(LITTLE)
    core.memories.sbuf[:, :64].view(np.float32)[:] = RNG.normal(size=(4, 16)).astype(np.float32)
    before = core.memories.sbuf[:, :64].view(np.float32).copy()
    side = "num0=4 num1=1 num2=1 num3=1 partitions=4 step0=1 base=1"
    pattern = " ".join(f"{name}.{part}" for name in ("left", "output") for part in side.split())
    two = int(np.float32(2).view(np.uint32))
    lines = [
        "alu operation=move target=0 immediate=1 value=0",
        f"vector.tensor_scalar op0=multiply length=4 c0={two} {pattern}",
        "alu operation=add target=0 left=0 immediate=1 value=16",
        "branch compare=less left=0 immediate=1 value=64 destination=1",
        "halt",
    ]
    data = b"".join(assemble(line).to_bytes(INSTRUCTION_BYTES, "little") for line in lines)
    core.memories.hbm[: len(data)] = np.frombuffer(data, np.uint8)
    report = core.run({"vector": Start(0, len(lines))})
    assert report.fault is None
    assert report.issued["vector"] == 2 + 3 * 4
    assert np.array_equal(core.memories.sbuf[:, :64].view(np.float32), 2 * before)


def counted() -> tuple[Core, dict[str, Start]]:
    """Each engine adds up a list in HBM whose length stands before it, and puts the sum behind it."""
    core = Core(LITTLE)
    words = core.memories.hbm.view(np.int32)
    starts = {}
    for number, engine in enumerate(ENGINES):
        base = 1024 * number
        words[base // 4] = count = 3 + number
        words[base // 4 + 1 : base // 4 + 1 + count] = RNG.integers(-(1 << 31), 1 << 31, count)
        lines = [
            f"load target=1 address={base} immediate=1",
            "alu operation=shift_left target=1 left=1 immediate=1 value=2",
            f"load target=2 address={base + 4} right=3",
            "alu operation=add target=4 left=4 right=2",
            "alu operation=add target=3 left=3 immediate=1 value=4",
            "branch compare=less left=3 right=1 destination=2",
            f"store left=4 address={base + 8} right=3 update=increment update_semaphore=9",
            "nop wait=1 wait_semaphore=9 wait_value=4",
            f"load target=5 address={base} immediate=1 value=64",
            f"store left=5 address={base + 512 + 68} immediate=1 value=-64",
            "halt",
        ]
        data = b"".join(assemble(line).to_bytes(INSTRUCTION_BYTES, "little") for line in lines)
        core.memories.hbm[8192 * (number + 1) :][: len(data)] = np.frombuffer(data, np.uint8)
        starts[engine] = Start(8192 * (number + 1) // LINE_BYTES, len(lines))
    return core, starts


def test_words_of_memory_lead_a_program() -> None:
    core, starts = counted()
    words = core.memories.hbm.view(np.int32)
    expected = [int(words[256 * n + 1 :][: 3 + n].sum(dtype=np.int32)) for n in range(len(ENGINES))]
    assert core.run(starts).fault is None
    assert [int(words[256 * n + 5 + n]) for n in range(len(ENGINES))] == expected
    assert [words[256 * n + 129] for n in range(len(ENGINES))] == [words[256 * n + 16] for n in range(len(ENGINES))]


def test_programs_load_and_store_words_in_order_with_transfers() -> None:
    with Program(LITTLE) as p:
        a, b = p.input("a", (8,), "int32"), p.output("b", (8,), "int32")
        word = p.output("word", (1,), "int32")
        p.load(1, a[3:4])
        p.store(a[4:5], 1)
        p.dma(b.cast("fp32"), a.cast("fp32"))
        p.load(2, b[4:5])
        p.load(3, b, index=0)
        p.store(word, 2)
        p.store(b, 3, index=4)
    found = p.run(a=np.arange(8, dtype=np.int32) + 5)
    assert found["b"].tolist() == [5, 6, 7, 8, 8, 10, 11, 12]
    assert found["word"].tolist() == [8]
    with pytest.raises(ParameterError, match="one element of 4 bytes in HBM"):
        Program(LITTLE).load(1, a)


def test_images_survive_files_and_refuse_another_machine(tmp_path: Path) -> None:
    p, path = doubled(), tmp_path / "program"
    save(p, path)
    again = restore(core_of(TINY.machine), path)
    a = RNG.normal(size=(4, 16)).astype(np.float32)
    assert np.array_equal(run(again, "golden", {"a": a})["b"], 2 * a)
    with pytest.raises(ParameterError, match="image of version"):
        restore(core_of(SMALL.machine), path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ParameterError, match="bytes of code"):
        restore(core_of(TINY.machine), path)
    path.write_bytes(b"something else")
    with pytest.raises(ParameterError, match="not a program image"):
        restore(core_of(TINY.machine), path)


def test_the_timeline_opens_in_perfetto_with_a_track_for_everyone(tmp_path: Path) -> None:
    path = tmp_path / "run.pftrace"
    write_timeline(doubled().run(a=np.ones((4, 16), np.float32)).report, path)
    trace = Trace.FromString(path.read_bytes())
    names = {packet.track_descriptor.name for packet in trace.packet if packet.HasField("track_descriptor")}
    assert {"vector", "dma 0", "dma 1", "semaphore 1"} <= names
    kinds = [packet.track_event.type for packet in trace.packet if packet.HasField("track_event")]
    assert kinds.count(TrackEvent.TYPE_SLICE_BEGIN) == kinds.count(TrackEvent.TYPE_SLICE_END) == 3


def test_shapes_that_do_not_fit_are_refused_where_they_are_written() -> None:
    p = Program(TINY)
    tile = p.sbuf((4, 16), "fp32")
    with pytest.raises(ParameterError, match="as the source has"):
        p.dma(tile, p.input("a", (4, 15), "fp32"))
    with pytest.raises(ParameterError, match="partitions"):
        p.sbuf((5, 1), "fp32")
    with pytest.raises(ParameterError, match="legal is one of copy"):
        p.scalar.activation(tile, tile, "no such function")
    with pytest.raises(ParameterError, match="not empty"):
        _ = tile[:, 3:3]
    with pytest.raises(ParameterError, match="a name that no other"):
        p.input("a", (1,), "fp32")
    assert contiguous("hbm", "fp32", (2, 3), 0).T.shape == (3, 2)


def test_copies_of_narrow_elements_move_words_where_that_is_the_same() -> None:
    with Program(LITTLE) as p:
        a, b = p.input("a", (4, 8), "bf16"), p.output("b", (8, 4), "bf16")
        x = p.sbuf((4, 8), "bf16")
        p.dma(x, a)
        p.dma(b, a.T)
    assert [entry.fields["num0"] for entry in p.entries] == [4, 4]
    assert [entry.fields["source_format"] for entry in p.entries] == ["fp32", "bf16"]
    value = RNG.normal(size=(4, 8)).astype(np.float32)
    found = p.run(a=value)
    assert np.array_equal(found["b"].T, found["a"])


def test_statistics_shuffle_and_transpose_of_the_vector_engine() -> None:
    with Program(LITTLE) as p:
        a, out = p.input("a", (4, 8), "fp32"), p.output("out", (4, 16), "fp32")
        order = p.input("order", (4, 1), "int32")
        x, y, six, held = (p.sbuf((4, size), "fp32") for size in (8, 16, 6, 1))
        p.dma(x, a)
        p.dma(held, order.cast("fp32"))
        p.vector.bn_stats(six, x)
        p.vector.bn_aggr(y[:, :2], six)
        p.vector.transpose(y[:, 2:10], x)
        p.vector.stream_shuffle(y[:, 10:14], x[:, :4], held)
        p.dma(out, y)
    value = RNG.normal(size=(4, 8)).astype(np.float32)
    found = p.run(a=value, order=np.array([[3], [2], [1], [0]], np.int32))["out"]
    assert np.array_equal(found[:, :2], bn_aggr(bn_stats(value.T)).T)
    assert np.array_equal(found[:, 2:10], np.concatenate([value[:, :4].T, value[:, 4:].T], axis=1))
    assert np.array_equal(found[:, 10:14], value[::-1, :4])
