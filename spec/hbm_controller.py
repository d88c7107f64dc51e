"""The choices of our HBM controller: command calendar, address map, queues and policy.

The two pseudo channels of a channel share its row and its column command bus. A fixed calendar of four CK (two slots)
gives each of them its own edges, so that neither ever waits for the other and no arbiter is needed:

====  ======================  ==========================  ==================
CK    column bus              row bus, rising edge        row bus, falling
====  ======================  ==========================  ==================
4k    pseudo channel 0        ACT or REFpb of 0           (second edge of ACT)
4k+1  pseudo channel 1        (third edge of ACT)         PRE of 1
4k+2  pseudo channel 0        ACT or REFpb of 1           (second edge of ACT)
4k+3  pseudo channel 1        (third edge of ACT)         PRE of 0
====  ======================  ==========================  ==================

In its own count of slots each controller therefore issues one column command in every slot, ACT or REFpb in even slots
and PRE in odd slots.
"""

import dataclasses
import functools

from spec.hbm import ACCESS_BYTES, HBM3_6400, HBM3_CHANNEL, LINE_BYTES, SLOT_CK, TIMINGS, HbmGeometry, HbmTiming
from spec.machine import ChipConfig
from spec.parameters import ParameterError, Parameters, parameter, refuse

HALF = 2
"""Half command clocks in one CK: the resolution of the command buses."""

COLUMN_PHASES = (0, 2)
"""Half CK from the start of a slot to the column command, by pseudo channel."""

ACTIVATE_PHASE = 0
PRECHARGE_PHASE = 3
"""Half CK from the start of an even slot to ACT and REFpb, and of an odd slot to PRE."""

GRANULE_LINES = 2
"""Consecutive lines kept in one row before the map moves to the other pseudo channel: 128 B, more than the 96 B that
each ACT must deliver if four of them a tFAW shall keep the bus full."""


def slots(clocks: int, before: int, after: int) -> int:
    """Slots between two commands at least ``clocks`` apart, sent ``before`` and ``after`` half CK into their slots."""
    return max(-(-(clocks * HALF + before - after) // (SLOT_CK * HALF)), 0)


@dataclasses.dataclass(frozen=True)
class HbmSlots:
    """The timing set in slots: distance from one command to the first slot in which the other is legal.

    Rounded up for the worse of the two pseudo channels, so both use the same controller.
    """

    rcd_rd: int
    rcd_wr: int
    rp: int
    ras: int
    rc: int
    ccd_l: int
    ccd_r: int
    rrd_s: int
    rrd_l: int
    faw: int
    wtr_s: int
    wtr_l: int
    rtw: int
    rtp: int
    wr_pre: int
    rfc_pb: int
    rrefd: int
    read_latency: int

    @classmethod
    def of(cls, t: HbmTiming) -> "HbmSlots":
        """Round ``t`` to the calendar."""
        early, late = min(COLUMN_PHASES), max(COLUMN_PHASES)
        act, pre = ACTIVATE_PHASE, PRECHARGE_PHASE
        return cls(
            rcd_rd=slots(t.t_rcd_rd, act, early),
            rcd_wr=slots(t.t_rcd_wr, act, early),
            rp=slots(t.t_rp, pre, act),
            ras=slots(t.t_ras, act, pre),
            rc=slots(t.t_rc, act, act),
            ccd_l=slots(t.t_ccd_l, 0, 0),
            ccd_r=slots(t.t_ccd_r, 0, 0),
            rrd_s=slots(t.t_rrd_s, act, act),
            rrd_l=slots(t.t_rrd_l, act, act),
            faw=slots(t.t_faw, act, act),
            wtr_s=slots(t.t_wtr_rd_s, 0, 0),
            wtr_l=slots(t.t_wtr_rd_l, 0, 0),
            rtw=slots(t.t_rtw, 0, 0),
            rtp=slots(t.t_rtp, late, pre),
            wr_pre=slots(t.t_wr_pre, late, pre),
            rfc_pb=slots(t.t_rfc_pb, act, act),
            rrefd=slots(t.t_rrefd, act, act),
            read_latency=slots(t.t_cl + SLOT_CK, 0, 0),
        )


@dataclasses.dataclass(frozen=True)
class HbmAddress:
    """Where a line lies: ``column`` is the index of its first 32 B access; ``group`` counts over all stack ids."""

    pseudo_channel: int
    bank: int
    row: int
    column: int


@dataclasses.dataclass(frozen=True)
class HbmMap:
    """The address map: each output bit is the parity of the byte address under a mask.

    Low to high the address holds: byte and access of the line, line of the granule, pseudo channel, lowest group bit,
    the other column bits, the other group bits, bank, stack id, row. With ``hashed``, the address bits that select
    (pseudo channel, group, bank, stack id) and the row bits form a polynomial over GF(2). The pseudo channel is its
    parity, the bank its remainder modulo a primitive polynomial of degree log2(banks). Of its coefficients any
    log2(banks) in a row reach all banks, as multiplication by x is invertible; one more reaches all banks of both
    pseudo channels, as the only dependence among their remainders is the primitive polynomial itself, whose weight is
    odd. So every power-of-two stride walks through all banks of both pseudo channels, and the map is one to one.
    """

    geometry: HbmGeometry
    hashed: bool

    @functools.cached_property
    def masks(self) -> dict[str, tuple[int, ...]]:
        """For ``pseudo_channel``, ``bank`` (stack id and group included), ``row``, ``column``: masks, low bit first."""
        g = self.geometry
        line, granule = LINE_BYTES.bit_length() - 1, GRANULE_LINES.bit_length() - 1
        position = line + granule
        widths = {"pc": g.pseudo_channels, "group": g.groups, "bank": g.banks, "sid": g.sids}
        count = {name: size.bit_length() - 1 for name, size in widths.items()}
        columns = list(range(ACCESS_BYTES.bit_length() - 1, position))
        spare = g.columns.bit_length() - 1 - len(columns)

        low = count["pc"] + min(count["group"], 1)
        select = list(range(position, position + low))
        columns += range(position + low, position + low + spare)
        position += low + spare
        total = sum(count.values())
        select += range(position, position + total - low)
        position += total - low
        rows = list(range(position, position + g.rows.bit_length() - 1))

        pc, coded = [1 << bit for bit in select[: count["pc"]]], [1 << bit for bit in select[count["pc"] :]]
        if self.hashed:
            pc = [sum(1 << bit for bit in select + rows)] * count["pc"]
            coded = _remainders(select + rows, total - count["pc"])
        # Neighbours first: a bank group, where one toggles in each granule, then banks, then the stack id.
        early = coded[: count["pc"]] if self.hashed and count["bank"] else []
        coded = coded[len(early) :]
        group, bank = (
            coded[: count["group"]],
            early + coded[count["group"] : total - count["pc"] - count["sid"] - len(early)],
        )
        sid = coded[len(coded) - count["sid"] :]
        return {
            "pseudo_channel": tuple(pc),
            "bank": tuple(bank + group + sid),
            "row": tuple(1 << bit for bit in rows),
            "column": tuple(1 << bit for bit in columns),
        }

    def locate(self, address: int) -> HbmAddress:
        """The place of the line that holds byte ``address``; refused outside the channel or off the line grid."""
        if not 0 <= address < self.geometry.channel_bytes:
            raise refuse("HbmMap", "address", address, f"0 to {self.geometry.channel_bytes - 1}")
        if address % LINE_BYTES:
            raise refuse("HbmMap", "address", address, f"a multiple of {LINE_BYTES}")
        return HbmAddress(*(_field(address, masks) for masks in self.masks.values()))


PRIMITIVE = {2: 0b111, 3: 0b1011, 4: 0b10011, 5: 0b100101, 6: 0b1000011, 7: 0b10000011, 8: 0b100011101}
"""A primitive polynomial over GF(2) of each degree."""


def _remainders(bits: list[int], degree: int) -> list[int]:
    """Masks of the ``degree`` coefficients of (sum of the address bits ``bits[k]`` times x^k) modulo ``PRIMITIVE``."""
    masks, power = [0] * degree, 1
    for bit in bits:
        for coefficient in range(degree):
            masks[coefficient] |= (power >> coefficient & 1) << bit
        power <<= 1
        if power >> degree:
            power ^= PRIMITIVE[degree]
    return masks


def _field(address: int, masks: tuple[int, ...]) -> int:
    return sum(((address & mask).bit_count() & 1) << bit for bit, mask in enumerate(masks))


@dataclasses.dataclass(frozen=True, kw_only=True)
class HbmControllerConfig(Parameters):
    """One pseudo channel's controller. Depths count lines (64 B, two accesses)."""

    timing: HbmTiming = HBM3_6400
    geometry: HbmGeometry = HBM3_CHANNEL
    read_lines: int = parameter(64, unit="lines", low=2, high=64, doc="reorder window of reads")
    write_lines: int = parameter(128, unit="lines", low=2, high=256, doc="write buffer")
    high_water: int = parameter(124, unit="lines", low=1, high=256, doc="writes that start a write batch")
    low_water: int = parameter(32, unit="lines", low=0, high=255, doc="writes left when a write batch ends")
    prepare: int = parameter(
        24, unit="lines", low=0, high=256, doc="distance to a batch's end at which rows of the next open"
    )
    idle_slots: int = parameter(16, unit="slots", low=1, high=255, doc="slots without reads after which writes drain")
    age_limit: int = parameter(
        512, unit="slots", low=16, high=1 << 15, doc="wait of the oldest read before it goes first"
    )
    refresh_ahead: int = parameter(
        32, unit="REFpb", low=0, high=256, doc="refreshes that may be done before they are due"
    )
    refresh_urgent: int = parameter(32, unit="REFpb", low=1, high=256, doc="refreshes owed at which demand gives way")
    hashed: bool = parameter(True, choices=(False, True), doc="fold all address bits into the bank (HbmMap)")
    in_order: bool = parameter(False, choices=(False, True), doc="True: accesses in order of arrival, no reordering")
    tag_bits: int = parameter(8, unit="bits", low=1, high=32, doc="tag returned with each read")
    scrub_lines: int = parameter(4, unit="lines", low=1, high=64, doc="corrected lines that wait to be written back")

    def check(self) -> None:
        """Refuse watermarks outside the buffer and refresh limits beyond the standard's."""
        name = type(self).__name__
        if self.high_water > self.write_lines:
            raise refuse(name, "high_water", self.high_water, f"at most write_lines = {self.write_lines}", "lines")
        if self.low_water >= self.high_water:
            raise refuse(name, "low_water", self.low_water, f"less than high_water = {self.high_water}", "lines")
        t = self.timing
        for field, limit in (("t_ccd_s", SLOT_CK), ("t_ppd", 2 * SLOT_CK)):
            if getattr(t, field) > limit:
                raise refuse(
                    name, f"timing.{field}", getattr(t, field), f"at most {limit}, as the calendar has it", "CK"
                )
        if self.geometry.all_banks < 4:
            raise ParameterError(f"{name}.geometry: legal is four or more banks of a pseudo channel")

    @functools.cached_property
    def slots(self) -> HbmSlots:
        """The timing set rounded to the calendar."""
        return HbmSlots.of(self.timing)

    @functools.cached_property
    def map(self) -> HbmMap:
        """The address map."""
        return HbmMap(self.geometry, self.hashed)


CHANNELS = 16
"""Channels of one stack (JESD238)."""

SMALL_CHANNEL = HbmGeometry(sids=2, groups=2, banks=2, rows=16, columns=8)
"""64 KiB a channel: every kind of neighbour (group, bank, stack id) twice, for machines small enough to simulate."""


def controller_of(chip: ChipConfig) -> HbmControllerConfig:
    """The controller of a chip's memory: the slowest set with its bandwidth; small windows for a small memory."""
    needed = chip.hbm_tbytes * 1000 / (chip.hbm_stacks * CHANNELS * HBM3_CHANNEL.pseudo_channels)
    enough = [t for t in TIMINGS.values() if t.pseudo_channel_gbytes >= 0.98 * needed]
    fastest = max(TIMINGS.values(), key=lambda t: t.pseudo_channel_gbytes)
    chosen = min(enough, key=lambda t: t.pseudo_channel_gbytes, default=fastest)
    if chip.hbm_stack_gib * (1 << 30) / CHANNELS >= HBM3_CHANNEL.channel_bytes:
        return HbmControllerConfig(timing=chosen)
    return HbmControllerConfig(
        timing=chosen, geometry=SMALL_CHANNEL, read_lines=4, write_lines=8, high_water=7, low_water=1, prepare=2
    )
