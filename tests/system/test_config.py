"""Systems of presets, and what is refused."""

import dataclasses
import gc
import warnings
from typing import Any

import pytest
from amaranth.hdl import UnusedElaboratable

from hdl.system.chip import Chip
from spec.core import LINE_BYTES
from spec.parameters import ParameterError
from spec.presets import PRESETS, machine_named
from spec.system import chip_of, instance_of, ultraserver_of
from spec.topology import TOPOLOGIES
from verif.system.programs import CABLED, system_config


def test_the_ultraserver_of_the_real_machine_is_64_chips_with_half_width_rings() -> None:
    config = ultraserver_of(machine_named("TRN2"))
    assert config.chips == 64
    assert config.torus_router.torus.sizes == (4, 4, 4)
    assert config.torus_router.torus.cycles == (1, 1, 2)
    assert config.chips * config.cores == 512


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_chip(name: str) -> None:
    config = chip_of(machine_named(name))
    assert config.chips == 1
    assert config.core.hbm_lines == config.chip_lines


def test_the_ultraserver_on_switches_is_144_chips_with_a_switch_in_each_server() -> None:
    config = ultraserver_of(machine_named("TRN3"))
    assert config.chips == 144
    assert config.switches == TOPOLOGIES["trn3_gen2"]
    with pytest.raises(ParameterError, match="fabric = 'switch': legal is torus"):
        instance_of(machine_named("TRN3"))


@pytest.mark.parametrize("name", PRESETS)
def test_the_memory_of_a_preset_is_what_its_chips_have(name: str) -> None:
    machine = machine_named(name)
    config, chip = chip_of(machine), machine.chip
    assert config.stacks == chip.hbm_stacks
    assert config.stack_lines * LINE_BYTES == int(chip.hbm_stack_gib * (1 << 30)) // LINE_BYTES * LINE_BYTES
    assert config.stack is not None
    assert config.stack_lines * LINE_BYTES <= config.stack.stack_bytes < 2 * config.stack_lines * LINE_BYTES


@pytest.mark.parametrize("name", ["TRN2", "TRN3"])
def test_devices_of_one_chip_are_ports_and_those_of_many_lie_in_sockets(name: str) -> None:
    alone, many = chip_of(machine_named(name)), ultraserver_of(machine_named(name))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        outside = [Chip(config).outside for config in (alone, many)]
        gc.collect()
    assert "told_0" in outside[0]
    assert outside[1] == ["damage", "corrected"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chip_lines": 64}, r"core\.hbm_lines = 512: legal is 256, the lines of all chips"),
        ({"cores": 3}, r"cores = 3"),
        ({"chip_lines": 100}, r"chip_lines = 100"),
        ({"sockets": True}, r"sockets = True: legal is False without a stack"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        dataclasses.replace(system_config((2, 2)), **changes)


@pytest.mark.parametrize(
    ("router", "message"),
    [
        ({"classes": 1}, r"router\.classes = 1: legal is 2"),
        ({"tag_bits": 1}, r"router\.tag_bits = 1: legal is at least 4"),
        ({"max_flits": 4}, r"router\.max_flits = 4: legal is at least 5"),
    ],
)
def test_routers_that_cannot_carry_a_packet_are_refused(router: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        system_config((2, 2), **router)


def test_a_core_that_gives_up_before_a_dead_cable_is_noticed_is_refused() -> None:
    with pytest.raises(ParameterError, match="patience = 900 cycles: legal is at least 960"):
        dataclasses.replace(CABLED, patience=900)
