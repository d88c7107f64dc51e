"""Systems of presets, and what is refused."""

import dataclasses
from typing import Any

import pytest

from spec.parameters import ParameterError
from spec.presets import PRESETS, machine_named
from spec.system import chip_of, instance_of, ultraserver_of
from verif.system.programs import system_config


def test_the_ultraserver_of_the_real_machine_is_64_chips_with_half_width_rings() -> None:
    config = ultraserver_of(machine_named("TRN2"))
    assert config.chips == 64
    assert config.router.torus.sizes == (4, 4, 4)
    assert config.router.torus.cycles == (1, 1, 2)
    assert config.chips * config.cores == 512


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_has_a_chip(name: str) -> None:
    config = chip_of(machine_named(name))
    assert config.chips == 1
    assert config.core.hbm_lines == config.chip_lines


def test_chips_behind_switches_are_not_joined() -> None:
    with pytest.raises(ParameterError, match="fabric = 'switch': legal is torus"):
        instance_of(machine_named("TRN3"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chip_lines": 64}, r"core\.hbm_lines = 512: legal is 256, the lines of all chips"),
        ({"cores": 3}, r"cores = 3"),
        ({"chip_lines": 100}, r"chip_lines = 100"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        dataclasses.replace(system_config((2, 2)), **changes)


@pytest.mark.parametrize(
    ("router", "message"),
    [
        ({"classes": 1}, r"router\.classes = 1: legal is 2"),
        ({"tag_bits": 1}, r"router\.tag_bits = 1: legal is at least 2"),
        ({"max_flits": 4}, r"router\.max_flits = 4: legal is at least 5"),
    ],
)
def test_routers_that_cannot_carry_a_packet_are_refused(router: dict[str, int], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        system_config((2, 2), **router)
