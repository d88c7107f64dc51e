"""The base of every hardware block, and how a parent places a block inside itself.

Amaranth emits one Verilog module per *instance*. A block that repeats is therefore converted once and instantiated by
name when the target is Verilog, and is a plain submodule in Amaranth's own simulator. :func:`place` is the whole
mechanism for the parent::

    m.submodules.row_0 = place(self.rows[0], platform)

The parent connects the ports of ``self.rows[0]`` in both cases in the same way.
"""

import re
from typing import Any

from amaranth.hdl import Elaboratable
from amaranth.lib import wiring

from spec.parameters import Parameters


class Block(wiring.Component):
    """A component described by one parameter object.

    Two blocks of the same class and the same parameters are the same hardware: they share :attr:`module_name`, and
    generated Verilog holds that module once. A subclass whose hardware depends on more than ``config`` must extend
    :attr:`module_name`.
    """

    def __init__(self, config: Parameters, signature: Any = None) -> None:
        self.config = config
        super().__init__(signature)

    @property
    def module_name(self) -> str:
        """Name of the Verilog module: the class name in snake case and the digest of the parameters."""
        snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(self).__name__).lower()
        return f"{snake}_{self.config.digest()}"


def place(block: Block, platform: Any) -> Elaboratable:
    """``block`` as something to add to ``m.submodules``: itself, or an ``Instance`` of its module for Verilog."""
    instantiate = getattr(platform, "instantiate", None)
    return block if instantiate is None else instantiate(block)
