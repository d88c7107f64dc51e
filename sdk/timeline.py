"""A run as a timeline for Perfetto: one track an engine, a DMA queue and a semaphore."""

from pathlib import Path

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackDescriptor, TrackEvent
from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

from golden.core.report import Report

SEQUENCE = 1
NANOSECONDS = 1
"""A cycle is shown as a nanosecond."""


def write_timeline(report: Report, path: Path) -> None:
    """Write the spans and semaphores of a golden run; open the file at https://ui.perfetto.dev.

    Spans of one track may overlap, as those of the tensor engine do: Perfetto wants them nested, so each track has as
    many lanes as it needs.
    """
    with path.open("wb") as file:
        trace = StreamingTraceProtoBuilder(file)
        numbers: dict[str, int] = {}

        def track(name: str, counter: bool = False) -> int:
            if name not in numbers:
                numbers[name] = len(numbers) + 1
                packet = trace.create_packet()
                packet.trusted_packet_sequence_id = SEQUENCE
                descriptor: TrackDescriptor = packet.track_descriptor
                descriptor.uuid, descriptor.name = numbers[name], name
                if counter:
                    descriptor.counter.SetInParent()
                trace.write_packet(packet)
            return numbers[name]

        ends: dict[str, list[int]] = {}
        for span in sorted(report.spans, key=lambda one: (one.start, one.end)):
            lanes = ends.setdefault(span.track, [])
            lane = next((index for index, end in enumerate(lanes) if end <= span.start), len(lanes))
            lanes[lane:] = [span.end, *lanes[lane + 1 :]]
            uuid = track(span.track if lane == 0 else f"{span.track} ({lane + 1})")
            for time, kind in ((span.start, TrackEvent.TYPE_SLICE_BEGIN), (span.end, TrackEvent.TYPE_SLICE_END)):
                packet = trace.create_packet()
                packet.trusted_packet_sequence_id = SEQUENCE
                packet.timestamp = time * NANOSECONDS
                packet.track_event.type, packet.track_event.track_uuid = kind, uuid
                if kind == TrackEvent.TYPE_SLICE_BEGIN:
                    packet.track_event.name = span.name
                trace.write_packet(packet)
        for time, semaphore, value in report.values:
            uuid = track(f"semaphore {semaphore}", counter=True)
            packet = trace.create_packet()
            packet.trusted_packet_sequence_id = SEQUENCE
            packet.timestamp = time * NANOSECONDS
            packet.track_event.type, packet.track_event.track_uuid = TrackEvent.TYPE_COUNTER, uuid
            packet.track_event.counter_value = value
            trace.write_packet(packet)
