"""Memories of ``amaranth.lib.memory`` as instances of the shipped SRAM model (``hdl/sram.v``).

Amaranth expands a memory into a line per row: minutes and megabytes for a large one. One parameterised module instead
is also the one place where a user puts a real macro.
"""

import math
from typing import Any

from amaranth.hdl import Cat, ClockSignal, Const, Fragment, Instance, Shape, Value
from amaranth.lib.memory import Memory

SRAM_MODULE = "systola_sram"
INIT_LIMIT = 1 << 16
"""Bits of power-on contents that still go into a parameter; more is what Verilog tools refuse in one number."""


def memory_instance(memory: Memory) -> Fragment:
    """``memory`` as an instance of the SRAM model.

    What the model cannot express stays as Amaranth writes it: ports in several clock domains, no read port, rows
    without bits, or more than :data:`INIT_LIMIT` bits of non-zero power-on contents.
    """
    width = Shape.cast(memory.shape).width
    reads, writes = memory.read_ports, memory.write_ports
    domains = {port.domain for port in (*reads, *writes)} - {"comb"}
    rows = [row & ((1 << width) - 1) for row in memory.data.init._raw]
    while rows and not rows[-1]:
        rows.pop()
    if len(domains) > 1 or not reads or not width or not memory.depth or len(rows) * width > INIT_LIMIT:
        return memory.elaborate(None)

    address = max(1, math.ceil(math.log2(memory.depth)))
    lane = math.gcd(*(width // len(port.en) for port in writes)) if writes else width
    parameters: dict[str, Any] = {
        "WIDTH": width,
        "DEPTH": memory.depth,
        "ADDRESS": address,
        "READS": len(reads),
        "WRITES": max(1, len(writes)),
        "LANES": width // lane,
        "ASYNC": _bits([port.domain == "comb" for port in reads]),
        "TRANSPARENT": _bits([write in read.transparent_for for read in reads for write in writes or [None]]),
    }
    data_init = Value.cast(reads[0].data).init & ((1 << width) - 1)
    if data_init:
        parameters["DATA_INIT"] = Const(data_init, width)
    if rows:
        parameters["INIT_ROWS"] = len(rows)
        parameters["INIT"] = Const(sum(row << index * width for index, row in enumerate(rows)), len(rows) * width)
    return Instance(
        SRAM_MODULE,
        *(("a", name, value) for name, value in memory.attrs.items()),
        *(("p", name, value) for name, value in parameters.items()),
        ("i", "clk", ClockSignal(domains.pop()) if domains else Const(0)),
        ("i", "read_en", Cat(port.en for port in reads)),
        ("i", "read_addr", Cat(_address(port, address) for port in reads)),
        ("o", "read_data", Cat(port.data for port in reads)),
        ("i", "write_en", Cat(_lanes(port, width, lane) for port in writes) if writes else Const(0, width // lane)),
        ("i", "write_addr", Cat(_address(port, address) for port in writes) if writes else Const(0, address)),
        ("i", "write_data", Cat(port.data for port in writes) if writes else Const(0, width)),
    )


def _bits(flags: list[bool]) -> Const:
    return Const(sum(flag << index for index, flag in enumerate(flags)), len(flags))


def _address(port: Any, width: int) -> Value:
    """The address in ``width`` bits: a memory of one row has an address of none."""
    return port.addr if len(port.addr) == width else Const(0, width)


def _lanes(port: Any, width: int, lane: int) -> Value:
    """The enables of ``port``, each repeated for the lanes of ``lane`` bits that it covers."""
    repeat = width // len(port.en) // lane
    return Cat(bit.replicate(repeat) for bit in port.en)
