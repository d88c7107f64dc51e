"""Parameters of the stream FIFO that blocks put between each other."""

import dataclasses

from spec.parameters import Parameters, parameter


@dataclasses.dataclass(frozen=True, kw_only=True)
class FifoConfig(Parameters):
    """A queue of ``depth`` payloads of ``width`` bits."""

    width: int = parameter(8, unit="bits", low=1, high=65536, doc="bits of one payload")
    depth: int = parameter(2, unit="entries", low=1, high=4096, doc="payloads stored; 2 is enough for full speed")
