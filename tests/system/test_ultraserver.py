"""Four compiled chips on switches, one in each server and one for each half: collectives as on golden."""

from collections.abc import Iterator

import numpy as np
import pytest

from golden.system.system import System
from tests.system.collective import check_collective
from verif.system.driver import RtlSystem
from verif.system.programs import load, switched_config, transfers

pytestmark = pytest.mark.long

CONFIG = switched_config(4, 1, 2, chip_lines=256)


@pytest.fixture(scope="module")
def chips() -> Iterator[RtlSystem]:
    system = RtlSystem(CONFIG)
    yield system
    system.model.close()


@pytest.mark.parametrize("operation", ["reduce_scatter", "all_gather", "all_reduce", "all_to_all"])
def test_collectives_leave_what_golden_leaves_in_every_memory(operation: str, chips: RtlSystem) -> None:
    rng = np.random.default_rng(7)
    golden, _, _ = check_collective(chips, operation, rng.permutation(CONFIG.chips).tolist(), rng)
    size = CONFIG.chips * CONFIG.chip_bytes
    golden.hbm[5] ^= 1
    assert not np.array_equal(chips.read(0, size), golden.read(0, size))


def test_random_transfers_between_all_chips(chips: RtlSystem) -> None:
    rng = np.random.default_rng(8)
    golden, size = System(CONFIG), CONFIG.chips * CONFIG.chip_bytes
    data = rng.standard_normal(size // 4).astype(np.float32).view(np.uint8)
    for machine in (golden, chips):
        machine.write(0, data)
    for _ in range(5):
        programs = transfers(CONFIG, rng, 12).programs
        for machine in (golden, chips):
            assert [report.fault for report in machine.run(load(machine, programs))] == [None] * CONFIG.chips
    np.testing.assert_array_equal(chips.read(0, size), golden.read(0, size))
