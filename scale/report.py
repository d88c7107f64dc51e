"""What a step is reported as: figures with units, and a trace that Perfetto opens."""

from collections.abc import Mapping
from pathlib import Path

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from scale.engine import Timeline
from scale.measured import Value
from scale.step import StepResult
from spec.results import Record

NANO = 1e9


def figures(block: str, result: StepResult, values: Mapping[str, Value]) -> list[Record]:
    """The figures of a step; those that rest on an assumption or a published number say so in ``reference``."""
    assumed = ", ".join(
        f"{name} {value.value:g} {value.unit}" for name, value in values.items() if value.source == "assumed"
    )
    basis = f"assumed: {assumed}" if assumed else "measured and published efficiencies"
    rate = result.tokens / result.seconds
    records = [
        Record(block, "step time", result.seconds * 1e3, "ms", reference=basis),
        Record(block, "tokens", rate, "tokens/s", reference=basis),
        Record(block, "tokens of a chip", rate / result.chips, "tokens/s", reference=basis),
        Record(block, "MFU", result.mfu, "", reference="useful products over the peak of all arrays"),
        Record(block, "MBU", result.mbu, "", reference="HBM bytes moved over the peak of all stacks"),
        Record(block, "HBM needed by a chip", result.footprint.total / 2**30, "GiB"),
        Record(block, "wall time of the model", result.model_seconds, "s"),
    ]
    if len(result.link_use):
        width = "of the width they reach"
        records.append(Record(block, "links, mean use", float(result.link_use.mean()), "", reference=width))
        records.append(Record(block, "links, busiest", float(result.link_use.max()), "", reference=width))
    if "watts" in values:
        watts = values["watts"]
        joules = watts.value * result.chips * result.seconds
        stated = f"{watts.source}: {watts.value:g} W a chip"
        records.append(Record(block, "energy of a step", joules, "J", reference=stated))
        records.append(Record(block, "energy of a token", joules / result.tokens, "J", reference=stated))
        records.append(
            Record(
                block, "tokens of a megawatt", rate / (watts.value * result.chips) * 1e6, "tokens/s", reference=stated
            )
        )
    if "usd_hour" in values:
        price = values["usd_hour"]
        cost = price.value * result.chips * result.seconds / 3600 / result.tokens * 1e6
        stated = f"{price.source}: {price.value:g} USD a chip and hour"
        records.append(Record(block, "price of a million tokens", cost, "USD", reference=stated))
    return records


def sources(values: Mapping[str, Value]) -> list[tuple[str, float, str, str]]:
    """``(name, value, unit, source)`` of every efficiency that went in."""
    return [(name, value.value, value.unit, value.source) for name, value in values.items()]


def write_trace(path: Path, timeline: Timeline) -> None:
    """Write a Perfetto trace: one track a resource, below one track a chip; a reader never sees half a file.

    Times are rounded to whole nanoseconds; operations that then have no length are left out.
    """
    draft = path.with_name(path.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    with draft.open("wb") as file:
        builder = StreamingTraceProtoBuilder(file)
        parents: dict[str, int] = {}
        tracks: list[int] = []
        for resource in timeline.resources:
            owner, _, engine = resource.partition(" chip ")
            number, _, engine = engine.partition(" ")
            chip = f"{owner} chip {number}"
            if chip not in parents:
                parents[chip] = _describe(builder, chip, None, len(parents) + len(tracks) + 1)
            tracks.append(_describe(builder, engine, parents[chip], len(parents) + len(tracks) + 1))
        events = []
        for index, (start, finish) in enumerate(zip(timeline.starts, timeline.finishes, strict=True)):
            if round(finish * NANO) > round(start * NANO):
                events += [(round(finish * NANO), 0, index), (round(start * NANO), 1, index)]
        for moment, begins, operation in sorted(events):
            for held in timeline.held[operation]:
                packet = builder.create_packet()
                packet.timestamp = moment
                packet.trusted_packet_sequence_id = 1
                packet.track_event.track_uuid = tracks[held]
                packet.track_event.type = TrackEvent.TYPE_SLICE_BEGIN if begins else TrackEvent.TYPE_SLICE_END
                if begins:
                    packet.track_event.name = timeline.names[operation]
                builder.write_packet(packet)
    draft.replace(path)


def _describe(builder: StreamingTraceProtoBuilder, name: str, parent: int | None, uuid: int) -> int:
    """Add a track and return its number."""
    packet = builder.create_packet()
    packet.track_descriptor.uuid = uuid
    packet.track_descriptor.name = name
    if parent is not None:
        packet.track_descriptor.parent_uuid = parent
    builder.write_packet(packet)
    return uuid
