"""The RTL of a fabric beside the cycle-exact model: same stimulus, every flit on every link in every cycle compared.

The model decides when each chip offers a flit, from the credits it sees. Its trace drives the RTL. Flits and credits of
the RTL are then compared in each cycle: as long as they agree, the RTL's chips would have offered the same.
"""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.link.router import DATA_BITS, ID_SHIFT, run
from golden.link.traffic import Traffic
from hdl.link.fabric import Fabric
from spec.link import RouterConfig
from verif.harness import counts
from verif.harness.model import Model


@dataclasses.dataclass(frozen=True)
class Replay:
    """What a replay found. ``delivered`` is measured on the RTL's own outputs; packets in order of ``traffic``."""

    compared: int
    mismatches: int
    first: str
    delivered: NDArray[np.int64]
    flits: int
    """Flits that left the RTL's fabric at chips."""
    links: NDArray[np.int64]
    returns: NDArray[np.int64]
    """The model's trace, as :func:`golden.link.router.run` gives it."""


def _wire(config: RouterConfig, trace: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Flits of the model's trace as the probe shows them: data, first, last, lane, valid; zero where none is."""
    data = trace & ((1 << config.flit_bits) - 1)
    marks = (trace >> DATA_BITS) & 3
    lane = trace >> ID_SHIFT
    lane_bits = max(1, (config.lanes - 1).bit_length())
    packed = data | marks << config.flit_bits | lane << (config.flit_bits + 2)
    packed |= np.int64(1) << (config.flit_bits + 2 + lane_bits)
    return np.where(trace >= 0, packed, 0).astype(np.uint64)


def replay(
    model: Model,
    config: RouterConfig,
    traffic: Traffic,
    cycles: int,
    *,
    fault: Any = None,
    fresh: bool = True,
    reset_after: bool = False,
) -> Replay:
    """Run ``cycles`` cycles on ``model``, a :class:`~hdl.link.fabric.Fabric`, and compare all links.

    ``fault`` may change golden's ``links`` array before it is compared: the planted fault of a test. ``fresh`` powers
    the model on first; otherwise it must stand as after reset. ``reset_after`` resets it for one cycle at the end.
    """
    golden = run(config, traffic, cycles, trace=cycles)
    links, returns = golden["links"], golden["returns"]
    nodes, ports = config.torus.nodes, config.ports
    drive: dict[str, Any] = {}
    for node in range(nodes):
        offer = links[:, node, ports]
        drive[f"chips__{node}__valid"] = (offer >= 0).astype(np.int64)
        drive[f"chips__{node}__lane"] = np.where(offer >= 0, offer >> ID_SHIFT, 0)
        flit = (offer & ((1 << config.flit_bits) - 1)) | ((offer >> DATA_BITS) & 3) << config.flit_bits
        drive[f"chips__{node}__flit"] = np.where(offer >= 0, flit, 0)
        drive[f"routers__{node}__credit"] = returns[:, node, ports]
    if fresh:
        model.power_on()
    result = model.run(drive=drive, sample=["probe", "returns"], limit=cycles)
    if reset_after:
        model.run(limit=1, resets=[(0, 1)])
    if fault is not None:
        links = fault(links.copy())
    width = config.flit_bits + 3 + max(1, (config.lanes - 1).bit_length())
    seen = _unpack(result.samples["probe"], width, nodes * ports).reshape(cycles, nodes, ports)
    back = _unpack(result.samples["returns"], config.lanes, nodes * ports).reshape(cycles, nodes, ports)
    valid = (seen >> np.uint64(width - 1)) & np.uint64(1)
    seen = np.where(valid, seen, 0)
    wrong = (seen != _wire(config, links[:, :, :ports])) | (back != returns[:, :, :ports].astype(np.uint64))
    first = ""
    if wrong.any():
        cycle, node, port = (int(index) for index in np.argwhere(wrong)[0])
        expected = _wire(config, links[cycle : cycle + 1, node, port])[0]
        first = (
            f"cycle {cycle}, chip {node}, port {port}: RTL {int(seen[cycle, node, port]):#x}, golden {int(expected):#x}"
        )
        first += f", credits {int(back[cycle, node, port]):#x} and {int(returns[cycle, node, port]):#x}"
    counts.add(wrong.size, int(wrong.sum()))
    delivered = np.where(wrong.any(), -1, golden["delivered"])
    flits = int(valid[:, :, 0].sum())
    return Replay(int(wrong.size), int(wrong.sum()), first, delivered, flits, golden["links"], returns)


def _unpack(words: NDArray[np.uint32], width: int, count: int) -> NDArray[np.uint64]:
    """``count`` fields of ``width`` bits (at most 57) of each row, lowest first."""
    raw = np.ascontiguousarray(words).view(np.uint8).reshape(len(words), -1)
    raw = np.concatenate([raw, np.zeros((len(words), 8), np.uint8)], axis=1)
    fields = np.zeros((len(words), count), np.uint64)
    for index in range(count):
        byte, shift = divmod(index * width, 8)
        eight = np.ascontiguousarray(raw[:, byte : byte + 8]).view("<u8")[:, 0]
        fields[:, index] = (eight >> np.uint64(shift)) & np.uint64((1 << width) - 1)
    return fields


def fabric_model(config: RouterConfig, **options: Any) -> Model:
    """A compiled model of the fabric: the router compiled once and evaluated for each chip; cached by its Verilog."""
    fabric = Fabric(config)
    return Model(fabric, hierarchy=(fabric.nodes[0].module_name,), **options)
