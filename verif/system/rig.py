"""Memory devices behind a chip's stacks, so that compiled models hold what HBM would."""

from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Module
from amaranth.lib.wiring import Out, connect, flipped

from hdl.block import Block, place
from hdl.system.stacked import DEVICES
from spec.system import SystemConfig
from verif.hbm.dram import HbmDram


def repeated(config: SystemConfig) -> list[str]:
    """Modules of a chip's stacks that a compiled model need hold once."""
    return [] if config.stack is None else [f"{name}_{config.stack.digest()}" for name in ("hbm_lane", "hbm_port")]


class DeviceRig(Block):
    """``inner``, a block with the ports of :class:`~hdl.system.stacked.StackedMemory`, and devices; its other ports."""

    config: SystemConfig

    def __init__(self, inner: Block, config: SystemConfig) -> None:
        self.inner: Any = inner
        members = dict(self.inner.signature.members)
        super().__init__(config, {name: members[name] for name in members if not name.startswith(DEVICES)})

    @property
    def module_name(self) -> str:
        """What is inside counts."""
        return f"rig_{self.inner.module_name}"

    def elaborate(self, platform: Any) -> Module:
        """Ports through, devices at theirs."""
        m = Module()
        config, inner = self.config, self.inner
        assert config.stack is not None
        m.submodules.inner = place(inner, platform)
        for name, member in inner.signature.members.items():
            if name.startswith(DEVICES[0]):
                for channel, told in enumerate(getattr(inner, name)):
                    dram: Any = HbmDram(config.stack.pseudo_channel)
                    m.submodules[f"{name}_{channel}"] = place(dram, platform)
                    returned = getattr(inner, name.replace(*DEVICES))
                    m.d.comb += [
                        *(dram.column[field].eq(told.column[field]) for field in dram.column.shape().members),
                        dram.row.eq(told.row),
                        dram.write_data.eq(told.write_data),
                        returned[channel].eq(dram.read_data),
                    ]
            elif not name.startswith(DEVICES):
                for outer, port in _pairs(getattr(self, name), getattr(inner, name)):
                    if member.is_port:
                        m.d.comb += outer.eq(port) if member.flow == Out else port.eq(outer)
                    else:
                        connect(m, flipped(outer), port)
        return m


def _pairs(outer: Any, inner: Any) -> Iterator[tuple[Any, Any]]:
    """A port of both, or each of an array of them."""
    if isinstance(outer, list | tuple):
        yield from zip(outer, inner, strict=True)
    else:
        yield outer, inner
