"""Millions of vectors through a pipeline without handshake, compared with golden."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from verif.harness import counts
from verif.harness.bench import Trial
from verif.harness.model import Model

FAULT_ITEMS = 100
"""Items among which planted faults must be noticed."""


def through(
    model: Model, inputs: Mapping[str, Any], output: str, *, latency: int, hold: Mapping[str, int] | None = None
) -> NDArray[Any]:
    """What a block makes of ``inputs``: arrays with one number a cycle, all of the same length.

    A tuple ``(array, delay)`` reaches its port that many cycles after the others. ``latency`` is counted from those.
    """
    timed = {port: value if isinstance(value, tuple) else (value, 0) for port, value in inputs.items()}
    drive = {port: np.concatenate([np.zeros(delay, value.dtype), value]) for port, (value, delay) in timed.items()}
    cycles = len(next(iter(timed.values()))[0]) + latency
    run = model.run(drive=drive, hold=hold, sample=[output], limit=cycles, tail=cycles)
    return run.sampled(output)[latency:]


@dataclasses.dataclass(frozen=True)
class Check:
    """Compares codes of one output; ``number`` names their format for the report."""

    trial: Trial
    name: str
    width: int
    number: str | None = None

    def equal(self, actual: Any, golden: Any) -> None:
        """Compare arrays of codes. Only if they differ, the scoreboard looks at each, and says where."""
        actual, golden = np.asarray(actual).astype(np.uint64), np.asarray(golden).astype(np.uint64)
        if np.array_equal(actual, golden):
            counts.add(len(golden), 0)
        else:
            self.trial.scoreboard(self.name, self.width, self.number).compare(actual.tolist(), golden.tolist())

    def notices(self, golden: Any) -> None:
        """Show that the comparison notices planted faults among the first of these codes."""
        some = np.asarray(golden)[:FAULT_ITEMS].astype(np.uint64).tolist()
        self.trial.notices(self.name, self.width, some)
        try:
            with counts.paused():
                self.equal([*some[:-1], some[-1] ^ 1], some)
        except AssertionError:
            return
        raise AssertionError(f"{self.name}: a result wrong by one unit in the last place was not noticed")
