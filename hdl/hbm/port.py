"""One requester's port of a stack: checks requests, cuts them into lines, puts responses in order."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.hbm.merge import HbmMerge
from hdl.hbm.onehot import any_of, first_of
from hdl.hbm.stack_layouts import StackLayouts
from spec.hbm import LINE_BYTES
from spec.hbm_stack import HbmOperation, HbmStackConfig, HbmStatus

LINE_SHIFT = LINE_BYTES.bit_length() - 1


class HbmPort(Block):
    """Requests of one requester, one after the other; up to ``port_lines`` responses are under way.

    ``request``   bursts, barriers; ``written``: the lines of write bursts, in order
    ``response``   each line of a read; one for a write (all its lines are taken: whoever reads from now on sees them),
                one for a barrier (every earlier request is done), one for a refused request, with its address. A
                refused write takes its data (length / 64, rounded up, lines) and drops it.
    ``lines``     lines for the pseudo channels, in order of requests; combinational from ``written``
    ``returned``   lines read, from each pseudo channel, in any order; one a slot is taken, in turn

    With ``ordered`` responses come in order of requests and addresses; otherwise as they are ready, told apart by tag
    and address, nobody passed over more than once round. A request is taken in one slot and sends its first line in the
    next; a line returned in slot t is offered from t + 2 on. Lines leave one a slot. Reset forgets all.
    """

    config: HbmStackConfig

    def __init__(self, config: HbmStackConfig) -> None:
        self.layouts = StackLayouts(config)
        shapes = self.layouts
        self.merge: Any = HbmMerge(config, shapes.back, config.pseudo_channels, 1)
        signature = {
            "request": In(stream.Signature(shapes.request)),
            "written": In(stream.Signature(shapes.written)),
            "response": Out(stream.Signature(shapes.response)),
            "lines": Out(stream.Signature(shapes.routed)),
            "returned": In(stream.Signature(shapes.back)).array(config.pseudo_channels),
        }
        super().__init__(config, signature)

    def elaborate(self, platform: Any) -> Module:
        """A burst register before a ring of responses."""
        m = Module()
        shapes = self.layouts
        request: Any = self.request
        pins: Any = self
        m.submodules.merge = place(self.merge, platform)
        for source, sink in zip(pins.returned, self.merge.i, strict=True):
            m.d.comb += [sink.valid.eq(source.valid), sink.payload.eq(source.payload), source.ready.eq(sink.ready)]
        m.d.comb += self.merge.o.ready.eq(1)
        burst = Signal(shapes.request)
        active, left, status = Signal(), Signal(shapes.request["length"].shape), Signal(shapes.status)
        with m.If(request.ready):
            m.d.sync += [
                active.eq(request.valid),
                burst.eq(request.payload),
                left.eq((request.payload.length + LINE_BYTES - 1) >> LINE_SHIFT),
                status.eq(self._verdict(request.payload)),
            ]
        written: Any = self.written
        lines: Any = self.lines
        good, last, finished = Signal(), Signal(), Signal()
        read, write, barrier = (burst.operation == kind for kind in HbmOperation)
        sends, drains, answers, may, ready, step = (Signal(name=f"burst_{name}") for name in _FLAGS)
        tail, room, quiet = Signal(range(self.config.port_lines)), Signal(), Signal()
        m.d.comb += [
            good.eq(status == HbmStatus.OK),
            sends.eq(good & ~barrier),
            drains.eq(write & (left != 0)),
            last.eq((left <= 1) | barrier | ~(good | write)),
            answers.eq(last | (good & read)),
            may.eq(active & (room | ~answers) & (quiet | ~(good & barrier))),
            lines.valid.eq(may & sends & (written.valid | ~write)),
            ready.eq(may & (lines.ready | ~sends)),
            written.ready.eq(ready & drains),
            step.eq(ready & (written.valid | ~drains)),
            finished.eq(step & last),
            request.ready.eq(~active | finished),
            lines.payload.write.eq(write),
            lines.payload.slot.eq(tail),
            lines.payload.data.eq(written.payload.data),
            lines.payload.inject.eq(written.payload.inject),
        ]
        masks = self.config.masks
        m.d.comb += [
            lines.payload.target.eq(_parities(burst.address, masks["channel"])),
            *(
                lines.payload.place[name].eq(_parities(burst.address, masks[name]))
                for name in ("bank", "row", "column")
            ),
        ]
        with m.If(step & ~last):
            m.d.sync += left.eq(left - 1)
            with m.If(good):
                m.d.sync += burst.address.eq(burst.address + LINE_BYTES)
        m.d.comb += self._ring(m, tail, room, quiet, step & answers, {
            "tag": burst.tag, "status": status, "address": burst.address, "last": last, "waits": good & read,
        })  # fmt: skip
        return m

    def _verdict(self, request: Any) -> Any:
        """Status of a request as it comes in; the checks that come first in ``HbmStatus`` win."""
        end = request.address + request.length
        low = Cat(request.address[:LINE_SHIFT], request.length[:LINE_SHIFT])
        checks = (
            (request.operation > max(HbmOperation), HbmStatus.OPERATION),
            (request.operation == HbmOperation.BARRIER, HbmStatus.OK),
            (request.length == 0, HbmStatus.EMPTY),
            (low.any(), HbmStatus.MISALIGNED),
            (end > self.config.stack_bytes, HbmStatus.OUTSIDE),
        )
        verdict: Any = HbmStatus.OK
        for condition, status in reversed(checks):
            verdict = Mux(condition, status, verdict)
        return verdict

    def _ring(
        self, m: Module, tail: Signal, room: Signal, quiet: Signal, enters: Any, entry: dict[str, Any]
    ) -> list[Any]:
        """Slots of responses: given out in order, filled in any order, emptied in order or as they are filled."""
        count = self.config.port_lines
        shapes = self.layouts
        returned = self.merge.o
        response: Any = self.response
        note = data.StructLayout(
            {"tag": self.config.tag_bits, "status": shapes.status, "address": self.config.address_bits, "last": 1,
             "waits": 1}
        )  # fmt: skip
        content = data.StructLayout({"data": shapes.controller.plain, "corrected": 1, "lost": 1})
        notes: Any = memory.Memory(shape=note, depth=count, init=[])
        contents: Any = memory.Memory(shape=content, depth=count, init=[])
        m.submodules.notes, m.submodules.contents = notes, contents
        write_note, write_content = notes.write_port(), contents.write_port()
        read_note, read_content = notes.read_port(), contents.read_port()

        used, filled = Signal(count), Signal(count)
        head, leaves, offered = Signal(range(count)), Signal(), Signal()
        chosen = Signal(count)
        if self.config.ordered:
            m.d.comb += chosen.eq(filled & (1 << head))
        else:
            behind = Signal(count)
            m.d.comb += [
                behind.eq(filled & ~((1 << head) - 1)),
                chosen.eq(first_of(Mux(behind.any(), behind, filled))),
            ]
        index = any_of(Mux(bit, position, 0) for position, bit in enumerate(chosen))
        address = Signal(range(count))
        entering, coming, leaving = (Signal(count, name=name) for name in ("entering", "coming", "leaving"))
        m.d.sync += [
            used.eq((used | entering) & ~leaving),
            filled.eq((filled | Mux(entry["waits"], 0, entering) | coming) & ~leaving),
            offered.eq(leaves | (offered & ~response.ready)),
        ]
        with m.If(enters):
            m.d.sync += tail.eq(Mux(tail == count - 1, 0, tail + 1))
        with m.If(leaves):
            m.d.sync += head.eq(Mux(address == count - 1, 0, address + 1))
        payload = response.payload
        found = Mux(read_content.data.corrected, HbmStatus.CORRECTED, HbmStatus.OK)
        return [
            room.eq(~(used & (1 << tail)).any()),
            quiet.eq((used & ~filled) == 0),
            entering.eq(Mux(enters, 1 << tail, 0)),
            coming.eq(Mux(returned.valid, 1 << returned.payload.slot, 0)),
            leaves.eq(chosen.any() & (~offered | response.ready)),
            leaving.eq(Mux(leaves, chosen, 0)),
            address.eq(index),
            write_note.en.eq(enters),
            write_note.addr.eq(tail),
            *(write_note.data[name].eq(value) for name, value in entry.items()),
            write_content.en.eq(returned.valid),
            write_content.addr.eq(returned.payload.slot),
            *(write_content.data[name].eq(returned.payload[name]) for name in ("data", "corrected", "lost")),
            *(port.en.eq(leaves) for port in (read_note, read_content)),
            *(port.addr.eq(address) for port in (read_note, read_content)),
            response.valid.eq(offered),
            *(payload[name].eq(read_note.data[name]) for name in ("tag", "address", "last")),
            payload.data.eq(read_content.data.data),
            payload.status.eq(
                Mux(
                    read_note.data.waits,
                    Mux(read_content.data.lost, HbmStatus.LOST, found),
                    read_note.data.status,
                )
            ),
        ]


_FLAGS = ("sends", "drains", "answers", "may", "ready", "step")
"""Of the burst's next step: a line goes out, a line of data is used, a response is entered, nothing stands against it,
the pseudo channel agrees, it happens."""


def _parities(address: Any, masks: tuple[int, ...]) -> Any:
    """One bit a mask, the lowest first."""
    return Cat((address & mask).xor() for mask in masks)
