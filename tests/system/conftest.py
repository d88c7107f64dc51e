"""One compiled system for all tests of what goes wrong in chips and between them."""

from collections.abc import Iterator

import pytest

from verif.system.driver import RtlSystem
from verif.system.programs import CABLED


@pytest.fixture(scope="session")
def compiled() -> Iterator[RtlSystem]:
    system = RtlSystem(CABLED, patience=4096)
    yield system
    system.model.close()


@pytest.fixture
def cabled(compiled: RtlSystem) -> RtlSystem:
    """As it is when power comes on."""
    compiled.model.power_on()
    return compiled
