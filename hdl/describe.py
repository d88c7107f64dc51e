"""What the JSON file beside a Verilog file says: ports with their fields, parameters, modules and signal names."""

import dataclasses
import enum
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from amaranth.hdl import Const, Shape, Value, ValueCastable
from amaranth.lib import data, wiring

from hdl.block import Block
from hdl.rtlil import RtlilModule


@dataclasses.dataclass(frozen=True)
class Port:
    """One port of a module. ``shape`` is what the signature says, for the fields; ``kind`` is data, clock or reset."""

    name: str
    direction: str
    width: int
    signed: bool
    value: Any
    shape: Any
    kind: str = "data"


def ports_of(block: Block) -> list[Port]:
    """Ports of ``block`` in the order of its signature, ``a__b`` for member ``b`` of interface ``a``.

    Members that are constant (``ready`` of an ``always_ready`` stream) and members without bits are no ports:
    :func:`constants_of` lists them.
    """
    return [port for port in _members(block) if not isinstance(port.value, Const) and port.width]


def constants_of(block: Block) -> dict[str, int]:
    """Value of each member that is no port because it never changes."""
    return {
        port.name: port.value.value if isinstance(port.value, Const) else 0
        for port in _members(block)
        if isinstance(port.value, Const) or not port.width
    }


def _members(block: Block) -> Iterator[Port]:
    for path, member, value in block.signature.flatten(block):
        plain = value.as_value() if isinstance(value, ValueCastable) else Value.cast(value)
        direction = "input" if member.flow == wiring.In else "output"
        shape = plain.shape()
        yield Port("__".join(map(str, path)), direction, shape.width, shape.signed, plain, member.shape)


def fields_of(shape: Any, prefix: str = "", offset: int = 0) -> list[dict[str, Any]]:
    """The leaves of a layout, lowest bit first: ``name`` (``exponent``, ``lanes[3].sign``), ``offset``, ``width``,
    ``signed`` and, for an enumeration, ``values``. A plain number is one leaf with an empty name.
    """
    layout = _layout(shape)
    if layout is None:
        plain = Shape.cast(shape)
        leaf = {"name": prefix, "offset": offset, "width": plain.width, "signed": plain.signed}
        if isinstance(shape, enum.EnumMeta):
            leaf["values"] = {member.name: Const.cast(member).value for member in shape}  # type: ignore[var-annotated]
        return [leaf]
    leaves = []
    for key, field in layout:
        step = f"[{key}]" if isinstance(key, int) else f".{key}" if prefix else key
        leaves += fields_of(field.shape, prefix + step, offset + field.offset)
    return leaves


def _layout(shape: Any) -> data.Layout | None:
    try:
        return data.Layout.cast(shape)
    except TypeError:
        return None


def describe(block: Block, ports: list[Port], modules: list[RtlilModule], verilog: str) -> dict[str, Any]:
    """The whole description; plain JSON values only, the same for the same block on every run."""
    parameters = block.config.as_dict()
    counts = _counts(modules)
    return {
        "module": {
            "name": block.module_name,
            "class": f"{type(block).__module__}.{type(block).__qualname__}",
            "digest": block.config.digest(),
        },
        "parameters": parameters,
        "ports": [_port(port) for port in ports],
        "constants": constants_of(block),
        "modules": [
            {
                "name": module.name,
                "count": counts[module.name],
                "instances": {name: kind for kind, name in module.instances},
                **_signals(verilog, module.name),
            }
            for module in modules
        ],
        "memories": [
            {"module": module.name, "instance": name, "count": counts[module.name], **module.parameters_of(name)}
            for module in modules
            for kind, name in module.instances
            if kind == "systola_sram"
        ],
    }


def _port(port: Port) -> dict[str, Any]:
    entry = {key: getattr(port, key) for key in ("name", "direction", "width", "signed", "kind")}
    return {**entry, "fields": fields_of(port.shape) if port.kind == "data" else []}


def _counts(modules: list[RtlilModule]) -> Counter[str]:
    """How often each module stands in the whole hierarchy below the first, parents before children."""
    counts = Counter({modules[0].name: 1})
    for module in modules:
        for kind, _ in module.instances:
            counts[kind] += counts[module.name]
    return counts


def _signals(verilog: str, module: str) -> dict[str, Any]:
    """Width of each named net of ``module`` in the Verilog, and which of them are registers."""
    start = verilog.index(f"module {module}(")
    text = verilog[start : verilog.index("endmodule", start)]
    signals: dict[str, int] = {}
    registers: list[str] = []
    for kind, high, name in re.findall(r"^  (wire|reg) (?:signed )?(?:\[(\d+):0\] )?\\?(\S+?) ?;$", text, re.MULTILINE):
        if not re.fullmatch(r"_\d+_", name):
            signals[name] = int(high or 0) + 1
            if kind == "reg":
                registers.append(name)
    return {"signals": signals, "registers": registers}


def canonical(value: Any) -> str:
    """``value`` as one line of JSON, keys sorted."""
    return json.dumps(value, sort_keys=True, separators=(", ", ": "))
