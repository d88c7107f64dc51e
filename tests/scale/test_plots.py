from pathlib import Path

import numpy as np
import pytest

from scale.bench import ASSUMED
from scale.fabric import Fabric, machine_scope
from scale.measured import load
from scale.plots import draw, torus_use
from scale.step import Step
from spec.models import MODELS
from spec.parallelism import ParallelConfig, WorkloadConfig


def test_the_heat_map_shows_links_where_the_groups_lie() -> None:
    """Tensor-parallel ranks in planes use x and y alike; without data-parallel ranks above them, z carries nothing."""
    machine, scope = machine_scope("trn2-ultraserver")
    fabric = Fabric(machine, scope, load(ASSUMED))
    workload = WorkloadConfig(kind="decode", batch=4, sequence=64)
    result = Step(fabric, MODELS["llama3.1-8b"], ParallelConfig(tp=16, dp=4), workload).run()
    use = torus_use(fabric, result)
    assert np.ptp(use[:2]) == pytest.approx(0, abs=1e-12)
    assert use[0].min() > 0 == use[2].max()


@pytest.mark.long
def test_plots_are_the_same_text_every_time(tmp_path: Path) -> None:
    first, second = draw(tmp_path / "a"), draw(tmp_path / "b")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert len(first) == 5
