"""Every block by its dotted name: what ``systola verilog --block NAME`` and the sweeps over all blocks know.

A name is the room below ``hdl`` and the block: ``tensor.array`` is ``hdl/tensor/array.py``. The factory takes the
machine of a preset and picks its own part of it.
"""

from collections.abc import Callable

from hdl.block import Block
from hdl.core.core import Core
from hdl.fifo import Fifo
from hdl.hbm.controller import HbmController
from hdl.hbm.scheduler import HbmScheduler
from hdl.hbm.stack import HbmStack
from hdl.link.link import LinkEnd
from hdl.link.router import Router
from hdl.link.switch import Switch
from hdl.numerics import Add, Cast, Compare, Decode, Multiply, MultiplyAdd, Xorshift32
from hdl.scalar.engine import ScalarEngine
from hdl.system.chip import Chip
from hdl.system.system import System
from hdl.tensor.array import Array
from hdl.tensor.engine import TensorEngine
from hdl.vector.engine import VectorEngine
from spec.core import core_of
from spec.fifo import FifoConfig
from spec.hbm_controller import controller_of
from spec.hbm_stack import stack_of
from spec.link import LinkConfig, RouterConfig, SwitchConfig
from spec.machine import MachineConfig
from spec.numerics import (
    OPERANDS,
    AddConfig,
    CastConfig,
    CompareConfig,
    DecodeConfig,
    MultiplyAddConfig,
    MultiplyConfig,
    XorshiftConfig,
)
from spec.parameters import lookup
from spec.scalar import ScalarConfig
from spec.system import chip_of, instance_of, ultraserver_of
from spec.topology import Torus
from spec.vector import VectorConfig

TORUS_CHIPS = 16
"""Chips of the real instance, a 4x4 torus; a machine of fewer chips is a ring of them."""


def torus_of(machine: MachineConfig) -> Torus:
    """The torus that joins the chips of one instance of ``machine``."""
    chips = machine.instance_chips
    return Torus(sizes=(4, 4) if chips >= TORUS_CHIPS else (chips,))


BLOCKS: dict[str, Callable[[MachineConfig], Block]] = {
    "core.core": lambda machine: Core(core_of(machine)),
    "fifo": lambda _: Fifo(FifoConfig()),
    "link.link": lambda _: LinkEnd(LinkConfig()),
    "link.router": lambda machine: Router(RouterConfig(torus=torus_of(machine))),
    "link.switch": lambda _: Switch(SwitchConfig()),
    "hbm.controller": lambda machine: HbmController(controller_of(machine.chip)),
    "hbm.scheduler": lambda machine: HbmScheduler(controller_of(machine.chip)),
    "hbm.stack": lambda machine: HbmStack(stack_of(machine.chip)),
    "system.chip": lambda machine: Chip(chip_of(machine)),
    "system.instance": lambda machine: System(instance_of(machine)),
    "system.ultraserver": lambda machine: System(ultraserver_of(machine)),
    "numerics.add": lambda _: Add(AddConfig()),
    "numerics.cast": lambda _: Cast(CastConfig(sources=("fp32",), targets=OPERANDS)),
    "numerics.compare": lambda _: Compare(CompareConfig()),
    "numerics.decode": lambda machine: Decode(
        DecodeConfig(formats=tuple(name for name in machine.tensor.formats if name in OPERANDS))
    ),
    "numerics.multiply": lambda _: Multiply(MultiplyConfig()),
    "numerics.multiply_add": lambda machine: MultiplyAdd(
        MultiplyAddConfig(multiply_stages=machine.tensor.multiply_stages, add_stages=machine.tensor.add_stages)
    ),
    "numerics.xorshift32": lambda _: Xorshift32(XorshiftConfig()),
    "scalar.engine": lambda machine: ScalarEngine(ScalarConfig(lanes=machine.tensor.rows)),
    "tensor.array": lambda machine: Array(machine.tensor),
    "tensor.engine": lambda machine: TensorEngine(machine.tensor),
    "vector.engine": lambda machine: VectorEngine(VectorConfig(lanes=machine.tensor.rows)),
}
"""Name of each block that stands alone, and what builds it for a machine."""


def block_named(name: str, machine: MachineConfig) -> Block:
    """The block called ``name`` of ``machine``; an unknown name is refused with the list of known ones."""
    block: Block = lookup("block", BLOCKS, name)(machine)
    return block
