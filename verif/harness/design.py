"""A block as the harness sees it: Verilog text, streams, plain ports.

A port called ``a.b`` in Python is ``a__b`` in Verilog, ``a[2].b`` is ``a__2__b``. A struct payload is one vector.
"""

import dataclasses
import functools
import re
from collections.abc import Iterator
from typing import Any

from amaranth.back import verilog
from amaranth.hdl import Shape
from amaranth.lib import stream, wiring

from hdl.block import Block
from hdl.emit import emit


@dataclasses.dataclass(frozen=True)
class Port:
    """One plain port (or one of the three wires of a stream) of the Verilog module."""

    name: str
    width: int
    signed: bool
    into: bool
    """Whether the block reads it."""
    init: int = 0


@dataclasses.dataclass(frozen=True)
class StreamPort:
    """One ``valid`` / ``ready`` / ``payload`` triple. ``into`` says whether the block consumes it."""

    name: str
    shape: Any
    width: int
    into: bool
    always_valid: bool
    always_ready: bool


@dataclasses.dataclass(frozen=True)
class Design:
    """Verilog of one block with its interface. ``streams`` and ``ports`` are keyed by Verilog name."""

    top: str
    verilog: str
    streams: dict[str, StreamPort]
    ports: dict[str, Port]
    names: tuple[str, ...]
    """Every port of the Verilog module, clock and reset included."""
    digest: str = ""
    """Of the block's parameters."""


def interface_of(component: Any) -> tuple[dict[str, StreamPort], dict[str, Port]]:
    """The streams and plain ports of a component, keyed by their names in Verilog."""
    streams: dict[str, StreamPort] = {}
    ports: dict[str, Port] = {}
    for name, member in _members(component.signature):
        if member.is_port:
            shape = Shape.cast(member.shape)
            init = member.init if isinstance(member.init, int) else 0
            ports[name] = Port(name, shape.width, shape.signed, member.flow is wiring.In, init)
        else:
            kind = _plain(member.signature)
            shape = kind.members["payload"].shape
            into = isinstance(
                member.signature, wiring.FlippedSignature
            )  # streams are written as their producer sees them
            width = Shape.cast(shape).width
            streams[name] = StreamPort(name, shape, width, into, kind.always_valid, kind.always_ready)
    return streams, ports


def _members(signature: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """``(Verilog name, member)`` of each port and each stream, arrays and nested interfaces unrolled."""
    for name, member in signature.members.items():
        for suffix in _indices(member.dimensions):
            path = prefix + name + suffix
            if member.is_port or isinstance(_plain(member.signature), stream.Signature):
                yield path, member
            else:
                yield from _members(member.signature, path + "__")


def _plain(signature: Any) -> Any:
    return signature.flip() if isinstance(signature, wiring.FlippedSignature) else signature


def _indices(dimensions: tuple[int, ...]) -> Iterator[str]:
    if not dimensions:
        yield ""
        return
    for index in range(dimensions[0]):
        for rest in _indices(dimensions[1:]):
            yield f"__{index}{rest}"


@functools.lru_cache(maxsize=64)
def design_of(component: Any) -> Design:
    """Verilog and interface of a component; converted once per object and process.

    A :class:`~hdl.block.Block` goes the way every block goes (``hdl.emit``); any other component is converted whole.
    """
    streams, ports = interface_of(component)
    if isinstance(component, Block):
        emission = emit(component)
        texts = [emission.verilog, *(source.read_text() for source in emission.sources)]
        names = tuple(port["name"] for port in emission.description["ports"])
        return Design(component.module_name, "\n".join(texts), streams, ports, names, component.config.digest())
    top = type(component).__name__.lower()
    text = verilog.convert(component, name=top, strip_internal_attrs=True)
    header = re.search(rf"^module {top}\((.*?)\);", text, re.MULTILINE | re.DOTALL)
    names = tuple(re.findall(r"\w+", header[1])) if header else ()
    return Design(top, text, streams, ports, names)
