"""Parameters, instructions and operations of the vector engine."""

import dataclasses

from spec.parameters import Parameters, parameter


@dataclasses.dataclass(frozen=True, kw_only=True)
class QueueConfig(Parameters):
    """A queue in front of a stream."""

    width: int = parameter(32, unit="bits", low=1, high=1 << 20, doc="bits of an item")
    depth: int = parameter(2, unit="items", low=1, high=1 << 12, doc="items stored")
