"""A channel under load: the controllers of its pseudo channels behind a player that hands over lines in order."""

from itertools import pairwise
from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.hbm.layouts import Layouts
from hdl.hbm.scheduler import HbmScheduler
from spec.hbm_controller import HbmControllerConfig

DEPTH = 6
"""Lines the player holds: with two taken and two refilled in a slot, it never has fewer than two to offer."""

PAIR = 2


class PlayerLayouts(Layouts):
    """``pair`` of lines, each with its pseudo channel; ``commands`` of one slot of one pseudo channel."""

    def __init__(self, config: HbmControllerConfig) -> None:
        super().__init__(config)
        self.line = data.StructLayout({"channel": 1, "request": self.request})
        self.pair = data.StructLayout({"lines": data.ArrayLayout(self.line, PAIR), "both": 1})
        self.commands = data.StructLayout({"column": self.column, "row": self.row})


class HbmPlayer(Block):
    """Two schedulers side by side; ``pairs`` brings two lines a slot (the last pair may hold one).

    Head of line: in each slot the oldest line is offered to its pseudo channel, and if it is taken the next one too,
    if that is for the other pseudo channel. ``commands_0`` and ``commands_1`` show the commands of each slot, ``owed``
    the refreshes owed. The first line is offered in the slot after its pair was taken.
    """

    def __init__(self, config: HbmControllerConfig) -> None:
        self.layouts = PlayerLayouts(config)
        self.schedulers: list[Any] = [HbmScheduler(config) for _ in range(config.geometry.pseudo_channels)]
        signature = {"pairs": In(stream.Signature(self.layouts.pair))}
        for index, scheduler in enumerate(self.schedulers):
            signature |= {f"commands_{index}": Out(self.layouts.commands), f"owed_{index}": Out(scheduler.owed.shape())}
        super().__init__(config, signature)

    def elaborate(self, platform: Any) -> Module:
        """A shift queue and the two offers."""
        m = Module()
        pairs: Any = self.pairs  # type: ignore[attr-defined]  # from the signature
        parity = Signal()
        m.d.sync += parity.eq(~parity)
        for index, scheduler in enumerate(self.schedulers):
            m.submodules[f"scheduler_{index}"] = place(scheduler, platform)
            m.d.comb += [
                scheduler.even.eq(parity if index else ~parity),
                getattr(self, f"commands_{index}").column.eq(scheduler.column),
                getattr(self, f"commands_{index}").row.eq(scheduler.row),
                getattr(self, f"owed_{index}").eq(scheduler.owed),
            ]
        for one, other in pairwise(self.schedulers):
            m.d.comb += [one.partner.eq(other.writing), other.partner.eq(one.writing)]
        held: list[Any] = [Signal(self.layouts.line, name=f"held_{i}", reset_less=True) for i in range(DEPTH)]
        count = Signal(range(DEPTH + 1))
        ready = Signal(PAIR)
        for index, scheduler in enumerate(self.schedulers):
            m.d.comb += ready[index].eq(scheduler.request.ready)
        first, second = held[0], held[1]
        took_first, took_second = Signal(), Signal()
        m.d.comb += [
            took_first.eq((count > 0) & ready.bit_select(first.channel, 1)),
            took_second.eq(
                took_first & (count > 1) & (first.channel != second.channel) & ready.bit_select(second.channel, 1)
            ),
            pairs.ready.eq(count <= DEPTH - PAIR),
        ]
        for index, scheduler in enumerate(self.schedulers):
            mine = first.channel == index
            m.d.comb += [
                scheduler.request.valid.eq(Mux(mine, count > 0, took_second)),
                scheduler.request.payload.eq(Mux(mine, first.request.as_value(), second.request.as_value())),
            ]
        left = Signal.like(count)
        m.d.comb += left.eq(count - took_first - took_second)
        fill = pairs.valid & pairs.ready
        m.d.sync += count.eq(left + Mux(fill, 1 + pairs.payload.both, 0))
        for i, line in enumerate(held):
            one, two = (held[min(i + k, DEPTH - 1)].as_value() for k in (1, 2))
            kept = Mux(took_second, two, Mux(took_first, one, line.as_value()))
            fresh = Mux(left == i, pairs.payload.lines[0].as_value(), pairs.payload.lines[1].as_value())
            m.d.sync += line.eq(Mux(i < left, kept, fresh))
        return m
