"""Packets of every kind through packetizer and depacketizer, and packets that are wrong."""

from typing import Any

import numpy as np
import pytest

from hdl.link.layouts import flit_layout
from hdl.system.layouts import message_layout
from hdl.system.packets import Depacketizer, Packetizer
from spec.link import Status
from spec.system import ANSWERS, ERRORS, OPERATIONS, REQUESTS, SystemConfig
from verif.harness.packing import pack, unpack
from verif.harness.pysim import simulate
from verif.harness.stalls import STALLS
from verif.system.programs import system_config

CONFIGS = [
    system_config((3, 2), cores=2),
    system_config((2,), flit_bits=64, max_flits=12),
    system_config((5,), flit_bits=700),
]


def messages(config: SystemConfig, names: list[str]) -> list[dict[str, int]]:
    rng = np.random.default_rng(5)
    found = []
    for name in names:
        width = sum(size for _, size in config.bodies[name])
        body = int.from_bytes(rng.bytes(100)) & ((1 << width) - 1)
        fields = {"operation": OPERATIONS.index(name), "core": int(rng.integers(config.cores)), "body": body}
        found.append(fields | {"peer": int(rng.integers(config.chips))})
    return found


def flits_of(config: SystemConfig, sent: list[dict[str, int]], chip: int) -> list[dict[str, int]]:
    layout = message_layout(config)
    count = sum(config.flits(OPERATIONS[one["operation"]]) for one in sent)
    run = simulate(
        Packetizer(config), {"i": [pack(layout, one) for one in sent]}, expect={"o": count}, hold={"chip": chip}
    )
    stamps = run.stamps["o"]
    assert stamps[-1] - stamps[0] == count - 1, "a gap between packets"
    return [unpack(flit_layout(config.torus_router), word) for word in run.values("o")]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.digest())
@pytest.mark.parametrize("group", [REQUESTS, ANSWERS])
def test_messages_arrive_as_they_were_sent(config: SystemConfig, group: int) -> None:
    names = ["answer", "done", "answer"] if group == ANSWERS else ["write", "update", "read", "read", "write"]
    sent = messages(config, names)
    chip = config.chips - 1
    flits = flits_of(config, sent, chip)
    assert [flit["last"] for flit in flits].count(1) == len(sent)
    items = [pack(flit_layout(config.torus_router), flit) for flit in flits]
    stalls: Any = {"o": STALLS["half"]}
    run = simulate(Depacketizer(config, group), {"i": items}, expect={"o": len(sent)}, stalls=stalls)
    layout = message_layout(config)
    for word, one in zip(run.values("o"), sent, strict=True):
        found = unpack(layout, word)
        width = sum(size for _, size in config.bodies[OPERATIONS[one["operation"]]])
        assert found["operation"] == one["operation"]
        assert (found["peer"], found["core"]) == (chip, one["core"])
        assert found["body"] & ((1 << width) - 1) == one["body"]


def test_bad_packets_are_dropped_and_counted() -> None:
    config = CONFIGS[0]
    good = messages(config, ["update", "write"])
    update, *write = flits_of(config, good, 1)
    (answer,) = [flits_of(config, messages(config, ["answer"]), 1)]
    short = [write[0] | {"last": 1}]
    long = [*(flit | {"last": 0} for flit in write), *(flit | {"first": 0, "last": 0} for flit in write), write[-1]]
    flits = [*short, update, *answer, *write, *long, update]
    items = [pack(flit_layout(config.torus_router), flit) for flit in flits]
    run = simulate(Depacketizer(config, REQUESTS), {"i": items}, expect={"o": 3}, sample=("bad",), limit=200)
    found = [unpack(message_layout(config), word)["operation"] for word in run.values("o")]
    assert found == [OPERATIONS.index(name) for name in ("update", "write", "update")]
    assert sum(run.sampled("bad")) == 3


def test_what_the_network_says_of_a_packet_comes_out_as_an_error_and_what_it_broke_off_is_dropped() -> None:
    config = CONFIGS[0]
    (sent,) = messages(config, ["read"])
    (flit,) = flits_of(config, [sent], 1)
    offset, _ = config.torus_router.field_offsets["status"]
    reply = {"data": flit["data"] | Status.UNREACHABLE << offset, "first": 1, "last": 1}
    whole = flits_of(config, messages(config, ["answer"]), 2)
    broken = [whole[0], whole[1], whole[2] | {"first": 1, "last": 1}]
    items = [pack(flit_layout(config.torus_router), one) for one in (*broken, reply, *whole)]
    run = simulate(Depacketizer(config, ANSWERS), {"i": items}, expect={"o": 2}, sample=("bad",), limit=100)
    first, second = (unpack(message_layout(config), word) for word in run.values("o"))
    assert (first["operation"], first["core"]) == (OPERATIONS.index("answer"), sent["core"])
    assert first["body"] == ERRORS.index("unreachable")
    assert second["operation"] == OPERATIONS.index("answer")
    assert sum(run.sampled("bad")) == 1
