"""A plane of switches: every message arrives once, unchanged, behind those sent before it to the same chip."""

from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.block import Block
from hdl.system.layouts import message_layout
from hdl.system.switched import add_plane, links_of, routes_of, switches_of
from hdl.system.vertex import Vertex
from spec.parameters import ParameterError
from spec.system import SystemConfig
from verif.harness.packing import pack, unpack
from verif.harness.pysim import simulate
from verif.harness.stalls import STALLS
from verif.system.programs import switched_config


class Plane(Block):
    """``send[chip]`` in, ``come[chip]`` out: a plane alone, as a system has one for each class."""

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        message = stream.Signature(message_layout(config))
        super().__init__(config, {"send": In(message).array(config.chips), "come": Out(message).array(config.chips)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        pins: Any = self
        topology = switches_of(self.config)
        vertices: list[Any] = []
        for number, routes in enumerate(routes_of(topology)[: topology.nodes]):
            vertex: Any = Vertex(self.config, *links_of(topology, number), chip=True)
            m.submodules[f"chip_{number}"] = vertex
            m.d.comb += [vertex.routes.eq(routes), vertex.chip.eq(number)]
            connect(m, flipped(pins.send[number]), vertex.send)
            connect(m, vertex.come, flipped(pins.come[number]))
            vertices.append(vertex)
        add_plane(m, platform, self.config, "switch", [(vertex.i, vertex.o) for vertex in vertices])
        return m


CONFIGS = [switched_config(2, 2, 1), switched_config(4, 1, 2)]
COUNT = 12


def messages(config: SystemConfig, rng: np.random.Generator) -> list[list[dict[str, int]]]:
    """Of each chip; the body is a number that no other has."""
    return [
        [
            {"peer": int(rng.integers(config.chips)), "body": COUNT * chip + number, "operation": 1, "core": 0}
            for number in range(COUNT)
        ]
        for chip in range(config.chips)
    ]


def arrivals(config: SystemConfig, sent: list[list[dict[str, int]]], stall: str) -> list[list[dict[str, int]]]:
    layout = message_layout(config)
    expect = {f"come__{chip}": 0 for chip in range(config.chips)}
    for one in (one for part in sent for one in part):
        expect[f"come__{one['peer']}"] += 1
    inputs = {f"send__{chip}": [pack(layout, one) for one in part] for chip, part in enumerate(sent)}
    stalls: Any = dict.fromkeys(expect, STALLS[stall])
    run = simulate(Plane(config), inputs, expect=expect, stalls=stalls, limit=3000)
    return [[unpack(layout, word) for word in run.values(name)] for name in expect]


def problem(config: SystemConfig, sent: list[list[dict[str, int]]], found: list[list[dict[str, int]]]) -> str:
    """What is wrong; empty if nothing is."""
    for target in range(config.chips):
        for source in range(config.chips):
            wanted = [one["body"] for one in sent[source] if one["peer"] == target]
            got = [one["body"] for one in found[target] if one["peer"] == source]
            if got != wanted:
                return f"from {source} to {target}: {got}, sent {wanted}"
    return "" if sum(map(len, found)) == sum(map(len, sent)) else "a message that nobody sent"


@pytest.mark.parametrize("config", CONFIGS, ids=["one level", "two levels"])
def test_messages_arrive_once_and_in_order(config: SystemConfig) -> None:
    sent = messages(config, np.random.default_rng(1))
    found = arrivals(config, sent, "half")
    assert not problem(config, sent, found)
    found[1][0], found[1][1] = found[1][1], found[1][0]
    found[1][0]["peer"] = found[1][1]["peer"]
    assert problem(config, sent, found)


def test_switches_and_a_router_or_neither_are_refused() -> None:
    config = CONFIGS[0]
    with pytest.raises(ParameterError, match="switches = None: legal is switches, or a router"):
        SystemConfig(core=config.core, cores=1, chip_lines=config.chip_lines)
