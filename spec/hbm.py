"""High-bandwidth memory: what the standard demands, how a channel is laid out, and what our controller may choose.

Times are in command clocks (CK) of the set's ``ck_ps``. One access moves 32 B of one pseudo channel and occupies its
data bus for two CK in every generation here (HBM2E: burst 4 on 64 bits; HBM3 and HBM3E: burst 8 on 32 bits), so the
controller's cycle, called a *slot*, is two CK: one column command of each pseudo channel a slot fills both data buses.
"""

import dataclasses
import math

from spec.parameters import Parameters, lookup, parameter, refuse

SLOT_CK = 2
"""Command clocks of one controller cycle: the time one access occupies the data bus."""

ACCESS_BYTES = 32
"""Bytes of one column access of one pseudo channel, in HBM2E, HBM3 and HBM3E alike."""

LINE_ACCESSES = 2
"""Accesses of one line (the unit of a request): two neighbouring columns of one row."""

LINE_BYTES = ACCESS_BYTES * LINE_ACCESSES
"""Bytes of one line, the granule of the request port."""

RAMULATOR_HBM3 = "Ramulator 2.1, python/ramulator/dram/hbm3.py, preset HBM3_6400Mbps"


def _ck(default: int, doc: str, low: int = 1, source: str = RAMULATOR_HBM3) -> int:
    value: int = parameter(default, unit="CK", low=low, high=1 << 16, doc=doc, source=source)
    return value


@dataclasses.dataclass(frozen=True, kw_only=True)
class HbmTiming(Parameters):
    """Every timing constraint of one speed grade. The defaults are the HBM3 6.4 Gbit/s set."""

    ck_ps: int = parameter(625, unit="ps", low=100, high=10_000, doc="command clock period", source=RAMULATOR_HBM3)
    t_rcd_rd: int = _ck(31, "ACT to RD, same bank")
    t_rcd_wr: int = _ck(15, "ACT to WR, same bank")
    t_rp: int = _ck(26, "PRE to ACT or REFpb, same bank")
    t_ras: int = _ck(45, "ACT to PRE, same bank")
    t_rc: int = _ck(72, "ACT to ACT or REFpb, same bank")
    t_cl: int = _ck(20, "RD to first data")
    t_cwl: int = _ck(10, "WR to first data")
    t_ccd_s: int = _ck(2, "column to column, other bank group, same stack id")
    t_ccd_l: int = _ck(4, "column to column, same bank group")
    t_ccd_r: int = _ck(3, "column to column, other stack id")
    t_rrd_s: int = _ck(4, "ACT to ACT or REFpb, other bank")
    t_rrd_l: int = _ck(5, "ACT to ACT, same bank group")
    t_faw: int = _ck(24, "window that may hold four ACT")
    t_wtr_s: int = _ck(7, "end of write data to RD, other bank group")
    t_wtr_l: int = _ck(10, "end of write data to RD, same bank group")
    t_rtw: int = _ck(20, "RD to WR")
    t_wr: int = _ck(33, "end of write data to PRE, same bank")
    t_rtp: int = _ck(9, "RD to PRE, same bank")
    t_ppd: int = _ck(2, "PRE to PRE, any bank")
    t_rfc: int = _ck(560, "REFab to any row command", source="JESD238 Table 84, 8 Gbit a channel: 350 ns")
    t_rfc_pb: int = _ck(320, "REFpb to ACT, same bank")
    t_refi: int = _ck(6240, "mean interval at which each bank must be refreshed")
    t_rrefd: int = _ck(8, "REFpb to ACT of another bank, REFpb to REFpb")
    t_xp: int = _ck(8, "power-down exit to any command", source="max(3 CK, 5 ns), the form JESD238 gives; not modelled")

    def check(self) -> None:
        """Refuse sets in which one constraint contradicts another."""
        rules = (
            ("t_rc", self.t_rc >= self.t_ras + self.t_rp, f"at least t_ras + t_rp = {self.t_ras + self.t_rp}"),
            ("t_ccd_l", self.t_ccd_l >= self.t_ccd_s, f"at least t_ccd_s = {self.t_ccd_s}"),
            ("t_ccd_s", self.t_ccd_s >= SLOT_CK, f"at least {SLOT_CK}, the CK one access occupies the data bus"),
            ("t_ccd_r", self.t_ccd_r >= self.t_ccd_s, f"at least t_ccd_s = {self.t_ccd_s}"),
            ("t_rrd_l", self.t_rrd_l >= self.t_rrd_s, f"at least t_rrd_s = {self.t_rrd_s}"),
            ("t_wtr_l", self.t_wtr_l >= self.t_wtr_s, f"at least t_wtr_s = {self.t_wtr_s}"),
            ("t_faw", self.t_faw >= self.t_rrd_s, f"at least t_rrd_s = {self.t_rrd_s}"),
            ("t_ras", self.t_ras >= self.t_rcd_rd, f"at least t_rcd_rd = {self.t_rcd_rd}"),
            ("t_rtw", self.t_rtw + self.t_cwl >= self.t_cl + SLOT_CK, "at least t_cl + 2 - t_cwl (no bus collision)"),
            ("t_rfc", self.t_rfc >= self.t_rfc_pb, f"at least t_rfc_pb = {self.t_rfc_pb}"),
            ("t_refi", self.t_refi > self.t_rfc, f"more than t_rfc = {self.t_rfc}"),
        )
        for field, holds, legal in rules:
            if not holds:
                raise refuse(type(self).__name__, field, getattr(self, field), legal, "CK")

    @property
    def t_wtr_rd_s(self) -> int:
        """WR command to RD command, other bank group."""
        return self.t_cwl + SLOT_CK + self.t_wtr_s

    @property
    def t_wtr_rd_l(self) -> int:
        """WR command to RD command, same bank group."""
        return self.t_cwl + SLOT_CK + self.t_wtr_l

    @property
    def t_wr_pre(self) -> int:
        """WR command to PRE command, same bank."""
        return self.t_cwl + SLOT_CK + self.t_wr

    @property
    def pseudo_channel_gbytes(self) -> float:
        """Peak GB/s of one pseudo channel: 32 B every two CK."""
        return ACCESS_BYTES / (SLOT_CK * self.ck_ps * 1e-3)


def scaled(base: HbmTiming, ck_ps: int, floors: dict[str, int], **given: int) -> HbmTiming:
    """``base`` at another clock: the same nanoseconds, rounded up to whole CK, not below ``floors``; ``given`` wins."""
    values: dict[str, int] = {"ck_ps": ck_ps}
    for field in dataclasses.fields(base):
        if field.name.startswith("t_"):
            nanoseconds = getattr(base, field.name) * base.ck_ps
            values[field.name] = max(math.ceil(nanoseconds / ck_ps), floors.get(field.name, 1))
    values |= given
    values["t_rc"] = max(values["t_rc"], values["t_ras"] + values["t_rp"])
    return HbmTiming(**values)


HBM3_6400 = HbmTiming()

HBM3_5600 = scaled(HBM3_6400, 714, {"t_ccd_s": 2, "t_ccd_l": 4, "t_ppd": 2, "t_rrefd": 8})

HBM3E_9600 = HbmTiming(  # Ramulator 2.1, the same file, preset HBM3_9600Mbps
    ck_ps=417, t_rcd_rd=47, t_rcd_wr=23, t_rp=39, t_ras=68, t_rc=108, t_cl=30, t_cwl=15, t_ccd_s=2, t_ccd_l=6,
    t_ccd_r=5, t_rrd_s=6, t_rrd_l=8, t_faw=36, t_wtr_s=11, t_wtr_l=15, t_rtw=30, t_wr=50, t_rtp=14, t_ppd=2,
    t_rfc=840, t_rfc_pb=480, t_refi=9360, t_rrefd=8, t_xp=12,
)  # fmt: skip

HBM2_2000 = HbmTiming(  # Ramulator 2.1, python/ramulator/dram/hbm2.py, preset HBM2_2000Mbps, 8 Gbit a channel
    ck_ps=1000, t_rcd_rd=14, t_rcd_wr=12, t_rp=14, t_ras=34, t_rc=48, t_cl=14, t_cwl=5, t_ccd_s=2, t_ccd_l=4,
    t_ccd_r=3, t_rrd_s=4, t_rrd_l=4, t_faw=15, t_wtr_s=6, t_wtr_l=8, t_rtw=13, t_wr=16, t_rtp=5, t_ppd=1,
    t_rfc=350, t_rfc_pb=200, t_refi=3900, t_rrefd=8, t_xp=8,
)  # fmt: skip

HBM2E_3200 = scaled(HBM2_2000, 625, {"t_ccd_s": 2}, t_ccd_s=2, t_ccd_l=4, t_ccd_r=3)

TIMINGS = {"hbm2": HBM2_2000, "hbm2e": HBM2E_3200, "hbm3": HBM3_5600, "hbm3-6400": HBM3_6400, "hbm3e": HBM3E_9600}
"""Named sets. ``hbm3`` is Trn2's 5.6 Gbit/s class (4 stacks: 2.9 TB/s), ``hbm3e`` Trn3's 9.6 Gbit/s class (4.9 TB/s).

``hbm3`` keeps the nanoseconds of the 6.4 Gbit/s set, as Ramulator's own speed grades do. No public source has an HBM2E
set: ``hbm2e`` is the nanoseconds of ``hbm2`` at 3.2 Gbit/s, with the column spacings of HBM2E in CK.
"""


def timing(name: str) -> HbmTiming:
    """The named timing set, or a one-line refusal that lists the names."""
    found: HbmTiming = lookup("HBM timing set", TIMINGS, name)
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class HbmGeometry(Parameters):
    """One channel: two pseudo channels of stack ids, bank groups, banks, rows and 32 B columns. Default: 1 GiB."""

    sids: int = parameter(2, low=1, high=4, power_of_two=True, doc="stack ids (ranks)", source="JESD238 Table 4")
    groups: int = parameter(4, low=1, high=8, power_of_two=True, doc="bank groups of one stack id")
    banks: int = parameter(4, low=1, high=8, power_of_two=True, doc="banks of one bank group")
    rows: int = parameter(1 << 14, unit="rows", low=2, high=1 << 18, power_of_two=True, doc="rows of one bank")
    columns: int = parameter(32, unit="accesses", low=8, high=128, power_of_two=True, doc="32 B columns of one row")
    pseudo_channels: int = parameter(2, low=1, high=2, power_of_two=True, doc="pseudo channels of one channel")

    @property
    def all_groups(self) -> int:
        """Bank groups of one pseudo channel over all stack ids: the index is ``sid * groups + group``."""
        return self.sids * self.groups

    @property
    def all_banks(self) -> int:
        """Banks of one pseudo channel: the index is ``(sid * groups + group) * banks + bank``."""
        return self.all_groups * self.banks

    @property
    def channel_bytes(self) -> int:
        """Bytes of the channel."""
        return self.pseudo_channels * self.all_banks * self.rows * self.columns * ACCESS_BYTES

    @property
    def address_bits(self) -> int:
        """Bits of a byte address within the channel."""
        return (self.channel_bytes - 1).bit_length()


HBM3_CHANNEL = HbmGeometry()
"""1 GiB: 16 Gbit dies, eight high, 32 banks a pseudo channel."""
