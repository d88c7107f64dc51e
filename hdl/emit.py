"""Verilog of a block: each distinct module once, memories as instances of an SRAM model, the same bytes always.

``emit(block)`` hands a platform to ``elaborate``. A parent that adds children with :func:`hdl.block.place` then gets
an ``Instance`` of the child's module, and the child is converted once, however often it is placed. Elaboration time
and text grow with the number of *distinct* blocks and with the instances in each, not with their product.

Limits, by construction: ``ResetInserter`` and ``EnableInserter`` around a placed block or around anything that holds a
memory do not reach inside the instance (``DomainRenamer`` does); a block takes its reset from its clock domain.
"""

import contextlib
import dataclasses
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amaranth.back import rtlil as amaranth_rtlil
from amaranth.hdl import ClockDomain, ClockSignal, Fragment, Instance, ResetSignal
from amaranth.hdl._ir import PortDirection
from amaranth.hdl._xfrm import DomainCollector
from amaranth.lib.memory import Memory

from hdl.block import Block
from hdl.describe import Port, canonical, describe, ports_of
from hdl.memory import memory_instance
from hdl.rtlil import ConversionError, RtlilModule, merge, parse, to_verilog
from spec.parameters import Parameters, refuse

SRAM = Path(__file__).with_name("sram.v")
"""The SRAM model that emitted Verilog instantiates: one parameterised module for every memory."""
INPUT_BITS = (1 << 16) - 4
"""Inputs of one module: Amaranth numbers them, two constants, clock and reset with 16 bits."""


@dataclasses.dataclass(frozen=True)
class Emission:
    """What came out: the Verilog text (without the SRAM model) and the content of the JSON file beside it."""

    verilog: str
    description: dict[str, Any]

    @property
    def sources(self) -> tuple[Path, ...]:
        """Files the Verilog needs beside itself: the SRAM model, if it holds a memory."""
        return (SRAM,) if self.description["memories"] else ()


def emit(block: Block, *, thorough: bool = False) -> Emission:
    """Convert ``block`` and everything it places.

    ``thorough`` converts every instance, not only the first of each module name, and compares them: slow for arrays,
    meant for tests.
    """
    with _collecting_seldom():
        platform = VerilogPlatform(thorough=thorough)
        platform.convert(block)
        modules = merge(module for group in platform.converted.values() for module in group.modules)
        text = to_verilog(modules)
    top = platform.converted[block.module_name]
    description = describe(block, top.ports, modules, text)
    return Emission(_header(description) + text, description)


@contextlib.contextmanager
def _collecting_seldom() -> Iterator[None]:
    """Conversion makes millions of objects that live until its end; looking for garbage takes a third of it."""
    usual = gc.get_threshold()
    gc.set_threshold(200_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@dataclasses.dataclass(frozen=True)
class _Converted:
    """A module that has been converted: what identifies it, its clock domains, its ports and its RTLIL."""

    identity: tuple[Any, ...]
    domains: tuple[str, ...]
    ports: list[Port]
    modules: list[RtlilModule]


class VerilogPlatform:
    """The platform object that makes :func:`hdl.block.place` and ``amaranth.lib.memory`` produce instances."""

    def __init__(self, *, thorough: bool = False) -> None:
        self.converted: dict[str, _Converted] = {}
        self._compared: set[tuple[Any, ...]] = set()
        self._thorough = thorough
        self._open: list[str] = []

    def instantiate(self, block: Block) -> Instance:
        """An ``Instance`` of ``block.module_name`` on ``block``'s own port signals, converted at first use."""
        module = self.convert(block)
        _mark_used(block)
        connections: list[tuple[str, str, Any]] = []
        for domain in module.domains:
            clock, reset = _domain_ports(domain)
            connections.append(("i", clock, ClockSignal(domain)))
            connections.append(("i", reset, ResetSignal(domain, allow_reset_less=True)))
        connections += [("i" if port.direction == "input" else "o", port.name, port.value) for port in ports_of(block)]
        return Instance(block.module_name, *connections)

    def get_memory(self, memory: Memory) -> Fragment:
        """Called by ``amaranth.lib.memory`` in place of its own elaboration."""
        return memory_instance(memory)

    def convert(self, block: Block) -> _Converted:
        """Convert ``block`` unless a block of the same name was; refuse two different blocks of one name."""
        name = block.module_name
        if name in self._open:
            raise ConversionError(f"{name} places itself: {' -> '.join([*self._open, name])}")
        known = self.converted.get(name)
        identity = _identity(block)
        if known is None:
            self._compared.add(_state(block))
            self._open.append(name)
            converted = self._convert(block, identity)
            self._open.pop()
            self.converted = {name: converted, **self.converted}  # parents before children
            return converted
        if known.identity != identity:
            raise ConversionError(f"two different blocks are called {name}: {_difference(known.identity, identity)}")
        # Converting each of 16,384 instances would cost what this module saves. A block that depends on more than its
        # parameters shows it in its attributes: the first of each set of values is converted and compared.
        state = _state(block)
        if self._thorough or state not in self._compared:
            self._compared.add(state)
            if _bodies(self._convert(block, identity).modules) != _bodies(known.modules):
                raise ConversionError(f"two different blocks are called {name}: same parameters, different hardware")
        return known

    def _convert(self, block: Block, identity: tuple[Any, ...]) -> _Converted:
        named = ports_of(block)
        inputs = sum(port.width for port in named if port.direction == "input")
        if inputs > INPUT_BITS:  # said before all that it places has been converted
            raise refuse(block.module_name, "inputs", inputs, f"at most {INPUT_BITS}, Amaranth's limit", "bits")
        fragment: Any = Fragment.get(block, self)  # type: ignore[no-untyped-call]  # the stubs leave it bare
        # Domains that nobody defines become ports. Amaranth would add them in the order of a set of strings.
        collector = DomainCollector()
        collector(fragment)
        missing = collector.used_domains - collector.defined_domains
        domains = tuple(sorted(missing, key=lambda domain: (domain != "sync", domain)))
        ports: dict[str, Any] = {}
        for domain in domains:
            clock_domain = ClockDomain(domain)
            fragment.add_domains(clock_domain)
            clock, reset = _domain_ports(domain)
            ports[clock] = (clock_domain.clk, PortDirection.Input)
            ports[reset] = (clock_domain.rst, PortDirection.Input)
        for port in named:
            ports[port.name] = (port.value, PortDirection(port.direction))
        text, _ = amaranth_rtlil.convert_fragment(fragment, ports, block.module_name, emit_src=False)
        modules = parse(text)
        if not modules or modules[0].name != block.module_name:
            raise ConversionError(f"{block.module_name} holds no hardware at all")
        clocks = [
            Port(name, "input", 1, False, None, 1, kind)
            for domain in domains
            for name, kind in zip(_domain_ports(domain), ("clock", "reset"), strict=True)
        ]
        modules[0].attributes["parameters"] = block.config.digest()
        modules[0].order_ports(port.name for port in clocks + named)
        return _Converted(identity, domains, clocks + named, modules)


def _mark_used(value: Any) -> None:
    """Only the first block of a name is elaborated: keep Amaranth from warning of the others and of their children."""
    if isinstance(value, Block):
        value._MustUse__used = True
        value = [child for name, child in vars(value).items() if not name.startswith("_MustUse")]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for element in value:
            _mark_used(element)


def _domain_ports(domain: str) -> tuple[str, str]:
    return ("clk", "rst") if domain == "sync" else (f"{domain}_clk", f"{domain}_rst")


def _identity(block: Block) -> tuple[Any, ...]:
    """What must agree between two blocks of one module name, cheap enough to compare for each of 16,384 instances."""
    return type(block), block.config, tuple((port.name, port.direction, port.width) for port in ports_of(block))


def _state(block: Block) -> tuple[Any, ...]:
    """Attributes with plain values: an argument of the constructor that is missing from the parameters shows here."""
    plain = (int, float, str, type, Parameters, type(None))
    return (block.module_name, *((name, value) for name, value in vars(block).items() if isinstance(value, plain)))


def _difference(one: tuple[Any, ...], other: tuple[Any, ...]) -> str:
    for what, left, right in zip(("class", "parameters", "ports"), one, other, strict=True):
        if left != right:
            return f"{what} {left} and {right}"
    return ""


def _bodies(modules: list[RtlilModule]) -> list[tuple[str, str]]:
    return [(module.name, module.body()) for module in modules]


def _header(description: dict[str, Any]) -> str:
    top = description["module"]
    return (
        f"// {top['name']}: {top['class']} of systola, written by `systola verilog`. Do not edit.\n"
        f"// parameters {top['digest']}: {canonical(description['parameters'])}\n"
    )
