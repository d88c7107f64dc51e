"""What the routers of the torus cost: cells and gate levels, and LUTs and clock on ECP5."""

from hdl.link.router import Router
from spec.link import RouterConfig
from spec.results import Record
from spec.topology import Torus
from verif.bench.area import area_records, ecp5

SIZES = ((4, 4), (4, 4, 4))
"""Tori whose routers have five and seven ports."""

WANTED_MHZ = 40
PUBLISHED = "CONNECT, virtual channels on Virtex-6: about 100 MHz (Huan and DeHon, FPT 2012)"


def bench_link_area() -> list[Record]:
    """Routers with 4 channels of 8 flits of 32 bits; half an hour, placed and not routed: that takes hours."""
    records = []
    for sizes in SIZES:
        config = RouterConfig(torus=Torus(sizes=sizes), flit_bits=32)
        router = Router(config)
        label = f"{config.ports}-port router, 4 channels of 8 32-bit flits"
        records += area_records("link.router", label, router, ecp5(router, WANTED_MHZ, route=False), None, PUBLISHED)
    return records
