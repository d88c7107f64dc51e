from typing import Any

import numpy as np
import pytest

from golden.hbm.memory import Line, Memory, Request
from hdl.emit import emit
from hdl.hbm.stack import HbmStack
from spec.hbm import LINE_BYTES
from spec.hbm_stack import SMALL_STACK, HbmOperation, HbmStackConfig, HbmStatus, stack_of
from spec.parameters import ParameterError
from spec.presets import machine_named
from verif.harness.model import Model
from verif.hbm.dram import HbmRig
from verif.hbm.stack import BENCH, Log, compare, play, private, repeated, responses

READ, WRITE, BARRIER = HbmOperation


@pytest.mark.parametrize("config", BENCH.quick, ids=str)
def test_the_bench_passes(config: HbmStackConfig) -> None:
    row = BENCH.run(config, seed=2)
    assert row.verdict == "pass", row.failures


@pytest.mark.long
@pytest.mark.parametrize("config", BENCH.long, ids=str)
def test_the_long_bench_passes(config: HbmStackConfig) -> None:
    row = BENCH.run(config, seed=3, long=True)
    assert row.verdict == "pass", row.failures


def integrity(total: int, seed: int) -> dict[HbmStatus, int]:
    """``total`` lines of traffic, one line in ten written damaged; returns how often each status came.

    Every response is compared with golden: a corrected one has the right data, a damage of two bits is reported.
    """
    config = SMALL_STACK
    rig = HbmRig(config)
    memory, log, rng = Memory(config), Log(rig), np.random.default_rng(seed)
    seen = dict.fromkeys(HbmStatus, 0)
    moved = 0
    with Model(rig, no_inline=repeated(rig)) as model:
        while moved < total:
            works = [private(config, port, 300, rng) for port in range(config.requesters)]
            golden = [work.expected(memory) for work in works]
            result = play(rig, model, works, [len(part) for part in golden], log)
            for port, wanted in enumerate(golden):
                got = responses(rig, result, port)
                compare(config, got, wanted, port)
                moved += len(works[port].lines) + sum(one.data is not None for one in wanted)
                for one in got:
                    seen[one.status] += 1
    return seen


def test_no_error_is_silent_in_a_few_thousand_lines() -> None:
    seen = integrity(4_000, seed=4)
    assert all(seen.values()), seen


@pytest.mark.long
@pytest.mark.parametrize("seed", [5, 6])
def test_no_error_is_silent_in_a_million_lines(seed: int) -> None:
    seen = integrity(1_000_000, seed)
    assert all(seen.values()), seen


@pytest.mark.long
def test_a_stack_of_32_pseudo_channels_is_emitted_with_each_module_once() -> None:
    config = stack_of(machine_named("TRN2").chip)
    assert config.pseudo_channels == 32
    small = config.replace(controller=SMALL_STACK.controller, requesters=1, port_lines=8, return_lines=6)
    text = emit(HbmStack(small)).verilog
    modules = [line.split()[1].split("(")[0] for line in text.splitlines() if line.startswith("module ")]
    assert len(modules) == len(set(modules))
    for part in ("hbm_controller", "hbm_returns", "hbm_port", "hbm_scheduler"):
        assert sum(name.startswith(part) for name in modules) == 1
    lane = next(name for name in modules if name.startswith("hbm_lane"))
    assert text.count(f"  {lane} ") == 32


def test_the_addresses_of_a_stack_are_spread_one_to_one() -> None:
    masks = [mask for group in SMALL_STACK.masks.values() for mask in group]
    basis: list[int] = []
    for mask in masks:
        for pivot in basis:
            mask = min(mask, mask ^ pivot)
        assert mask, "an output bit follows from the others"
        basis.append(mask)
    assert len(basis) == SMALL_STACK.stack_bits - 5


@pytest.mark.parametrize("bit", range(8, 30))
def test_power_of_two_strides_reach_every_channel_of_a_full_stack(bit: int) -> None:
    masks = HbmStackConfig().masks["channel"][1:]
    channels = {
        sum(((index << bit & mask).bit_count() & 1) << at for at, mask in enumerate(masks)) for index in range(16)
    }
    assert len(channels) == 16


BAD = {
    "unknown operation": (Request(3, 0, 64), HbmStatus.OPERATION),
    "zero length": (Request(READ, 64, 0), HbmStatus.EMPTY),
    "odd address": (Request(READ, 65, 64), HbmStatus.MISALIGNED),
    "half a line": (Request(WRITE, 64, 96), HbmStatus.MISALIGNED),
    "beyond the end": (Request(READ, SMALL_STACK.stack_bytes, 64), HbmStatus.OUTSIDE),
    "across the end": (Request(READ, SMALL_STACK.stack_bytes - 64, 128), HbmStatus.OUTSIDE),
}


@pytest.mark.parametrize("name", BAD)
def test_golden_refuses_a_bad_request_with_its_address_and_changes_nothing(name: str) -> None:
    request, status = BAD[name]
    memory = Memory(SMALL_STACK)
    (answer,) = memory.respond(request, [Line(bytes(LINE_BYTES))] * Memory.lines_taken(request))
    assert (answer.status, answer.address, answer.last) == (status, request.address, True)
    assert not memory.lines


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"address_bits": 17}, "address_bits = 17 bits: legal is at least 18"),
        ({"interleave": 1 << 16}, "interleave = 65536 bytes: legal is at most half a channel"),
        ({"channels": 3}, "channels = 3 channels: legal is 1 to 64, a power of two"),
    ],
)
def test_a_stack_outside_its_limits_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        SMALL_STACK.replace(**change)
