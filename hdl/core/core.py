"""A NeuronCore: engines, memories, semaphores and DMA, joined."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.dma import DmaQueues
from hdl.core.elementwise import ScalarUnit, VectorUnit
from hdl.core.layouts import (
    FAULT,
    LINE_BITS,
    PATIENCE_BITS,
    PROGRAMS,
    REASON_BITS,
    REPORT,
    UPDATE,
    answer,
    beat_layout,
    beat_request,
    line_request,
    psum_request,
    psum_store,
)
from hdl.core.sbuf import SECDED, Sbuf
from hdl.core.semaphores import Semaphores
from hdl.core.sequencer import Sequencer
from hdl.core.share import Share
from hdl.core.tensor_unit import TensorUnit
from hdl.core.transfer import TransferEngine
from hdl.core.unit import join, pass_on, serve
from spec.core import ENGINES, LINE_BYTES, WORD_BYTES, CoreConfig, SequencerConfig, ShareConfig
from spec.isa import REASON

SHARED = 4
"""Ports of SBUF and PSUM that DMA engines share where there are more of them: four fill a line of HBM in a cycle."""
ROWS_AHEAD = 16
"""Rows asked for at a shared port whose answers are not there yet."""
QUIET = 16
"""Cycles without anything under way after which a program has ended."""


def sharing(ports: list[Any]) -> list[list[Any]]:
    """The DMA engines' ports in groups that share one; none where each has its own.

    Successive engines are in different groups: a transfer goes to the first engine that is free, so the first four that
    work have a port each.
    """
    return [ports[first::SHARED] for first in range(SHARED)] if len(ports) > SHARED else []


class Core(Block):
    """Runs one program at a time: ``start`` takes it, ``report`` tells how it ended; then the next may start.

    ``lines`` is the port to HBM, one line a cycle, answers in order. ``heard`` takes updates of semaphores from
    outside, ``sent`` gives those for others. ``pending`` says that what went out of ``lines`` or ``sent`` is not done
    yet, ``error`` (a reason, 0: none) that something of it failed. ``inject`` is XORed to what is written into SBUF (0
    in use).

    A start clears the semaphores, a cycle each. A program ends when every sequencer has halted and nothing is under
    way; or at a fault: nothing is issued any more, and what is under way ends. Who waits for ``patience`` cycles in
    which nothing is under way waits forever, a fault (0: never). Memories and the engines' states outlive it. A reset
    drops everything under way; SBUF and PSUM keep their contents.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig) -> None:
        ports = {
            "start": In(stream.Signature(PROGRAMS)),
            "report": Out(stream.Signature(REPORT)),
            "lines": Out(stream.Signature(line_request(config))),
            "answer": In(answer(LINE_BITS)),
            "heard": In(stream.Signature(UPDATE)),
            "sent": Out(stream.Signature(UPDATE)),
            "pending": In(1),
            "error": In(REASON_BITS),
            "inject": In(SECDED.width),
        }
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Place everything, join the ports of each memory, lead a program from start to end."""
        m = Module()
        config = self.config
        engines = range(config.dma_engines)
        sequencers = {name: Sequencer(SequencerConfig(core=config, engine=name)) for name in ENGINES}
        tensor, vector, scalar = TensorUnit(config), VectorUnit(config), ScalarUnit(config)
        queues, movers = DmaQueues(config), [TransferEngine(config) for _ in engines]
        named: dict[str, Any] = {f"{name}_sequencer": block for name, block in sequencers.items()}
        named |= {"tensor": tensor, "vector": vector, "scalar": scalar, "queues": queues}
        named |= {f"mover_{index}": mover for index, mover in enumerate(movers)}
        for name, block in named.items():
            m.submodules[name] = place(block, platform)
        for name in ("tensor", "vector", "scalar"):
            pass_on(m, sequencers[name].issue, named[name].issue)
        for name, sequencer in sequencers.items():
            pass_on(m, sequencer.transfers, getattr(queues, f"from_{name}"))
        for index, mover in enumerate(movers):
            pass_on(m, getattr(queues, f"engine_{index}"), mover.transfers)
            m.d.comb += getattr(queues, f"done_{index}").eq(mover.done)

        sbuf = self._sbuf(m, platform, tensor, vector, scalar, movers)
        self._psum(m, platform, tensor, [vector, scalar], movers)
        self._hbm(m, platform, list(sequencers.values()), movers)
        updates = [sequencer.update for sequencer in sequencers.values()]
        updates += [tensor.updates_0, tensor.updates_1, tensor.updates_2, vector.update, scalar.update]
        updates += [*(mover.update for mover in movers), self.heard]
        semaphores = Semaphores(config, len(updates))
        m.submodules.semaphores = place(semaphores, platform)
        for index, update in enumerate(updates):
            pass_on(m, update, getattr(semaphores, f"update_{index}"))
        pass_on(m, semaphores.sent, self.sent)
        for sequencer in sequencers.values():
            m.d.comb += sequencer.change.eq(semaphores.change)
        faults = [block.fault for block in (*sequencers.values(), tensor, vector, scalar, *movers)]
        units = {"tensor": tensor.busy, "vector": vector.busy, "scalar": scalar.busy}
        moving = queues.busy | Cat(mover.busy for mover in movers).any()
        self._lead(m, sequencers, semaphores, sbuf, faults, units, moving)
        return m

    def _sbuf(self, m: Module, platform: Any, tensor: Any, vector: Any, scalar: Any, movers: list[Any]) -> Sbuf:
        """Every engine's ports, those of a matmul first; more than a few DMA engines share ports."""
        loads, count = self.config.tensor.load_columns, self.config.operand_ports
        operands = [*range(loads, count), *range(loads)]
        ports = [(getattr(tensor, f"sbuf_{index}"), getattr(tensor, f"sbuf_answer_{index}")) for index in operands]
        beats: list[tuple[Any, Any]] = []
        for unit in (vector, scalar):
            ports += [(unit.sbuf_read, unit.sbuf_answer), (unit.sbuf_write, None)]
        groups = sharing(movers)
        for mover in [] if groups else movers:
            beats += [(mover.sbuf_read, mover.sbuf_answer), (mover.sbuf_write, None)]
        for index, group in enumerate(groups):
            beats.append(self._shared(m, platform, f"sbuf_port_{index}", group))
        sbuf = Sbuf(self.config, count - loads, len(ports), len(beats))
        m.submodules.sbuf = place(sbuf, platform)
        m.d.comb += sbuf.inject.eq(self.inject)
        for name, users in (("", ports), ("beat_", beats)):
            for index, (requests, answers) in enumerate(users):
                pass_on(m, requests, getattr(sbuf, f"{name or 'request_'}{index}"))
                if answers is not None:
                    m.d.comb += Value.cast(answers).eq(Value.cast(getattr(sbuf, f"{name}answer_{index}")))
        return sbuf

    def _shared(self, m: Module, platform: Any, name: str, movers: list[Any]) -> tuple[Any, Any]:
        """One port of SBUF for several DMA engines, reads and writes in turn, a line of HBM at a time.

        So each port goes through the banks in order, and ports follow each other without meeting; engines that took
        turns beat by beat were seen to wait for each other's banks half of the time.
        """
        sizes = beat_request(self.config).size, beat_layout(self.config).size
        beats = max(1, LINE_BYTES // (WORD_BYTES * self.config.dma_lanes))
        share = self._share(m, platform, name, 2 * len(movers), *sizes, burst=beats)
        for index, mover in enumerate(movers):
            join(m, share, 2 * index, mover.sbuf_read, mover.sbuf_answer)
            join(m, share, 2 * index + 1, mover.sbuf_write)
        return share.request, share.answer

    def _psum(self, m: Module, platform: Any, tensor: Any, units: list[Any], movers: list[Any]) -> None:
        """Reads of PSUM take turns, and so do writes; those of many DMA engines in groups first."""
        size, row = psum_request(self.config).size, 32 * self.config.partitions
        users = [(unit.psum, unit.psum_answer) for unit in units]
        readers = [(mover.psum, mover.psum_answer) for mover in movers]
        for number, group in enumerate(sharing(readers)):
            share = self._share(m, platform, f"psum_port_{number}", len(group), size, row)
            for index, (requests, answers) in enumerate(group):
                join(m, share, index, requests, answers)
            users.append((share.request, share.answer))
        users += [] if sharing(readers) else readers
        share = self._share(m, platform, "psum", len(users), size, row)
        for index, (requests, answers) in enumerate(users):
            join(m, share, index, requests, answers)
        serve(m, share, tensor.psum, tensor.psum_answer)
        writers, size = [unit.psum_write for unit in units], psum_store(self.config).size
        stores = [mover.psum_write for mover in movers]
        for number, engines in enumerate(sharing(stores)):
            share = self._share(m, platform, f"psum_store_{number}", len(engines), size, 1)
            for index, store in enumerate(engines):
                join(m, share, index, store)
            writers.append(share.request)
        writers += [] if sharing(stores) else stores
        share = self._share(m, platform, "psum_stores", len(writers), size, 1)
        for index, writer in enumerate(writers):
            join(m, share, index, writer)
        pass_on(m, share.request, tensor.psum_write)

    def _share(
        self, m: Module, platform: Any, name: str, ports: int, request: int, response: int, burst: int = 1
    ) -> Share:
        """A port of SBUF or PSUM for several."""
        share = Share(ShareConfig(ports=ports, request=request, response=response, depth=ROWS_AHEAD, burst=burst))
        m.submodules[name] = place(share, platform)
        return share

    def _hbm(self, m: Module, platform: Any, sequencers: list[Any], movers: list[Any]) -> None:
        """Instructions, DMA reads and writes take turns."""
        size = line_request(self.config).size
        count = len(sequencers) + 2 * len(movers)
        share = Share(ShareConfig(ports=count, request=size, response=LINE_BITS, depth=256))
        m.submodules.hbm = place(share, platform)
        for index, user in enumerate((*sequencers, *movers)):
            join(m, share, index, user.lines, user.answer)
        for index, mover in enumerate(movers):
            join(m, share, len(sequencers) + len(movers) + index, mover.stores)
        serve(m, share, self.lines, self.answer)

    def _lead(
        self,
        m: Module,
        sequencers: dict[str, Any],
        semaphores: Any,
        sbuf: Any,
        faults: list[Any],
        units: dict[str, Any],
        moving: Any,
    ) -> None:
        """From start to report."""
        programs, patience, fault = Signal(PROGRAMS), Signal(PATIENCE_BITS), Signal(FAULT)
        go, quiet = Signal(), Signal(PATIENCE_BITS)
        cycles, conflicts = Signal(32), Signal(32)
        report = self.report.payload
        works = semaphores.busy | moving | self.pending | Cat(units.values()).any()
        parked = Cat(sequencer.parked for sequencer in sequencers.values())
        waiting = Cat(sequencer.waiting for sequencer in sequencers.values())
        stopped = fault.reason != 0
        waits = [Signal.like(report.engines[0].waiting, name=f"waits_{name}") for name in ENGINES]
        busy = [Signal(32, name=f"busy_{name}") for name in ENGINES]
        first = Signal(2)
        for index in reversed(range(len(ENGINES))):
            with m.If(waiting[index]):
                m.d.comb += first.eq(index)
        for index, (name, sequencer) in enumerate(sequencers.items()):
            m.d.comb += [
                sequencer.start.eq(go),
                sequencer.program.eq(programs.programs[index]),
                sequencer.stop.eq(stopped),
                report.engines[index].counter.eq(sequencer.counter),
                report.engines[index].issued.eq(sequencer.issued),
                report.engines[index].busy.eq(busy[index]),
                report.engines[index].waiting.eq(waits[index]),
                report.engines[index].awaited.eq(sequencer.awaited),
                report.engines[index].target.eq(sequencer.target),
                report.engines[index].holds.eq(sequencer.holds),
            ]
            m.d.sync += busy[index].eq(Mux(go, 0, busy[index] + units.get(name, ~sequencer.parked)))
        m.d.comb += [
            report.fault.eq(fault),
            report.cycles.eq(cycles),
            report.conflicts.eq(sbuf.conflicts - conflicts),
            report.corrected.eq(sbuf.corrected),
        ]
        with m.FSM():
            with m.State("IDLE"):
                m.d.comb += [self.start.ready.eq(1), semaphores.clear.eq(self.start.valid)]
                m.d.sync += [programs.eq(self.start.payload), patience.eq(self.start.payload.patience)]
                with m.If(self.start.valid):
                    m.next = "CLEAR"
            with m.State("CLEAR"), m.If(~semaphores.busy):
                m.d.comb += go.eq(1)
                m.d.sync += [fault.eq(0), cycles.eq(0), quiet.eq(0), conflicts.eq(sbuf.conflicts)]
                m.d.sync += [wait.eq(0) for wait in waits]
                m.next = "RUN"
            with m.State("RUN"):
                m.d.sync += cycles.eq(cycles + 1)
                m.d.sync += quiet.eq(Mux(works | ~(parked | waiting).all(), 0, quiet + 1))
                with m.If(~stopped):
                    for entry in reversed(faults):
                        with m.If(entry.reason != 0):
                            m.d.sync += fault.eq(entry)
                    with m.If(sbuf.lost):
                        m.d.sync += fault.reason.eq(REASON["memory_lost"])
                    with m.If(self.error != 0):
                        m.d.sync += fault.reason.eq(self.error)
                with m.If(parked.all() & (quiet >= QUIET)):
                    m.d.sync += cycles.eq(cycles - QUIET)
                    m.next = "REPORT"
                with m.Elif(~stopped & (patience != 0) & (quiet == patience)):
                    counters = [sequencer.counter for sequencer in sequencers.values()]
                    m.d.sync += [fault.reason.eq(REASON["deadlock"]), fault.engine.eq(first), quiet.eq(0)]
                    with m.Switch(first):
                        for index, counter in enumerate(counters):
                            with m.Case(index):
                                m.d.sync += fault.counter.eq(counter)
                    m.d.sync += [wait.eq(waiting[index]) for index, wait in enumerate(waits)]
            with m.State("REPORT"):
                m.d.comb += self.report.valid.eq(1)
                with m.If(self.report.ready):
                    m.next = "IDLE"
