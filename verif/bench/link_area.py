"""What the routers of the torus cost: cells and gate levels, and LUTs and clock on ECP5."""

from hdl.link.router import Router
from spec.link import RouterConfig
from spec.results import Record
from spec.topology import Torus
from verif.bench.area import ecp5, generic

SIZES = ((4, 4), (4, 4, 4))
"""Tori whose routers have five and seven ports."""

WANTED_MHZ = 100
PUBLISHED = "CONNECT, virtual channels on Virtex-6: about 100 MHz (Huan and DeHon, FPT 2012)"


def bench_link_area() -> list[Record]:
    """Routers with 4 channels of 8 flits of 32 bits; a quarter of an hour, most of it placing and routing."""
    records = []
    for sizes in SIZES:
        config = RouterConfig(torus=Torus(sizes=sizes), flit_bits=32)
        router = Router(config)
        gates, cells = generic(router), ecp5(router, WANTED_MHZ)
        assert cells.clock is not None
        figures: list[tuple[str, float, str, str | None]] = [
            ("generic cells", gates.cells, "cells", None),
            ("flip-flops", gates.flip_flops, "flip-flops", None),
            ("longest path", gates.levels, "gate levels", None),
            ("ECP5", cells.lut4, "LUT4", None),
            ("ECP5 clock", cells.clock, "MHz", PUBLISHED),
        ]
        name = f"{config.ports}-port router, 4 channels of 8 32-bit flits"
        for figure, value, unit, note in figures:
            better = "higher" if unit == "MHz" else "lower"
            records.append(Record("link.router", f"{name}: {figure}", value, unit, None, note, better))
    return records
