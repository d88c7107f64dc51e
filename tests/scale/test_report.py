from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from scale.engine import Model, Timeline
from scale.fabric import Fabric, machine_scope
from scale.measured import load
from scale.report import figures, sources, write_trace
from scale.step import Step
from spec.models import MODELS
from spec.parallelism import ParallelConfig, WorkloadConfig

ASSUMED = {"hbm": 0.95, "link": 0.9, "hop_cycles": 3.0, "watts": 500.0, "usd_hour": 2.0}


def _timeline() -> Timeline:
    machine, scope = machine_scope("trn2-instance")
    workload = WorkloadConfig(batch=4, sequence=256)
    layout = ParallelConfig(tp=4, pp=2, dp=2, microbatches=2)
    return Step(Fabric(machine, scope, load(ASSUMED)), MODELS["tiny-dense"], layout, workload).run().timeline


def _slices(path: Path) -> tuple[dict[int, tuple[str, int]], list[tuple[int, str, int, int]]]:
    """Tracks (name, parent) and slices (track, name, start, finish), read with Perfetto's own schema."""
    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    tracks, open_slices, slices = {}, {}, []
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = (packet.track_descriptor.name, packet.track_descriptor.parent_uuid)
        elif packet.track_event.type == TrackEvent.TYPE_SLICE_BEGIN:
            assert packet.track_event.track_uuid not in open_slices, "a resource does two things at once"
            open_slices[packet.track_event.track_uuid] = (packet.track_event.name, packet.timestamp)
        else:
            name, start = open_slices.pop(packet.track_event.track_uuid)
            slices.append((packet.track_event.track_uuid, name, start, packet.timestamp))
    assert not open_slices
    return tracks, slices


def test_a_trace_opens_and_holds_every_operation_on_every_resource_it_held(tmp_path: Path) -> None:
    timeline = _timeline()
    write_trace(tmp_path / "step.pftrace", timeline)
    tracks, slices = _slices(tmp_path / "step.pftrace")
    written = sorted(
        (f"{tracks[tracks[track][1]][0]} {tracks[track][0]}", name, *span) for track, name, *span in slices
    )
    expected = sorted(
        (timeline.resources[resource], name, round(start * 1e9), round(finish * 1e9))
        for name, held, start, finish in zip(
            timeline.names, timeline.held, timeline.starts, timeline.finishes, strict=True
        )
        for resource in held
        if round(finish * 1e9) > round(start * 1e9)
    )
    assert written == expected
    assert len(written) > 100


def test_a_trace_that_lacks_an_operation_is_caught(tmp_path: Path) -> None:
    model = Model()
    for name in "abc":
        model.add(name, ["stage 0 chip 0 tensor"], 1e-6)
    write_trace(tmp_path / "step.pftrace", model.run())
    assert [name for _, name, _, _ in _slices(tmp_path / "step.pftrace")[1]] == ["a", "b", "c"]
    assert not list(tmp_path.glob("*.part"))


def test_figures_follow_from_each_other_and_state_their_assumptions() -> None:
    machine, scope = machine_scope("trn2-instance")
    values = load(ASSUMED)
    workload = WorkloadConfig(batch=16, sequence=256)
    result = Step(Fabric(machine, scope, values), MODELS["llama3.1-8b"], ParallelConfig(tp=16), workload).run()
    found = {record.figure: record for record in figures("x", result, values)}
    seconds = float(found["step time"].value) / 1e3
    assert found["tokens"].value == pytest.approx(16 * 256 / seconds)
    assert found["energy of a step"].value == pytest.approx(500 * 16 * seconds)
    assert found["price of a million tokens"].value == pytest.approx(2.0 * 16 * seconds / 3600 / 4096 * 1e6)
    assert "assumed: 500 W a chip" in str(found["energy of a token"].reference)
    assert "hbm 0.95" in str(found["step time"].reference)
    assert ("hbm", 0.95, "of peak", "assumed") in sources(values)


def test_energy_and_price_are_left_out_without_an_assumption() -> None:
    machine, scope = machine_scope("trn2-chip")
    values = load({name: ASSUMED[name] for name in ("hbm", "link", "hop_cycles")})
    result = Step(
        Fabric(machine, scope, values), MODELS["tiny-dense"], ParallelConfig(), WorkloadConfig(batch=1, sequence=64)
    ).run()
    assert not {"energy of a step", "price of a million tokens"} & {r.figure for r in figures("x", result, values)}
