"""What depth costs: the reorder window, the part of the controller that grows with its queues.

The rest of a scheduler (bank machines, refresh, choice) does not depend on the depths.
"""

from hdl.hbm.window import HbmWindow
from spec.hbm_controller import HbmControllerConfig
from spec.results import Record
from verif.bench.area import area_records, ecp5

DEPTHS = (4, 8, 16, 32, 64, 128, 256)
"""Lines: the read window is 4 to 64, the write buffer 8 to 256."""

ROUTED = 16
"""The deepest window that is placed and routed: nextpnr takes minutes for it and hours for the next ones."""

CONFIG = HbmControllerConfig()
WANTED_MHZ = 200
"""What nextpnr is told to aim at; it is out of reach for most depths, so that each shows its best."""


def bench_hbm_area(depths: tuple[int, ...] = DEPTHS, routed: int = ROUTED) -> list[Record]:
    """Cells and gate levels of a window of each depth, and LUTs and clock on ECP5 of the shallow ones."""
    records = []
    for lines in depths:
        window = HbmWindow(CONFIG, lines)
        cells = ecp5(window, WANTED_MHZ) if lines <= routed else None
        records += area_records("hbm.window", f"{lines} lines", window, cells, "Yosys, nextpnr")
    return records
