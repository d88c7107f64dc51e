"""An HBM channel as the standard sees it: it takes commands, keeps data, and refuses whatever the timing set forbids.

It knows nothing of any controller: no slots, no calendar, no policy. Times are in half command clocks, as the row bus
has half-clock commands. Commands must come in order of time. Each violation is a ``DeviceError`` that names the
constraint.

=======  =======================================  ==================================================================
command  bus                                      what is checked
=======  =======================================  ==================================================================
ACT      row, three halves from a rising edge     bank closed, tRC, tRP, tRFC, tRFCpb, tRRD_S, tRRD_L, tFAW, tRREFD
PRE      row, one half, either edge               tRAS, tRTP, tWR, tPPD, tRFC
REFPB    row, one half, rising edge               bank closed, tRC, tRP, tRRD_S, tRREFD, tRFC, tRFCpb, order of the
round REFAB    row, one half, rising edge               all banks closed, tRC, tRP, tRFCpb, tRFC
RD       column, two halves from a rising edge    row open, tRCD, tCCD_S/L/R, tWTR_S/L, data written before
WR       column, two halves from a rising edge    row open, tRCD, tCCD_S/L/R, tRTW
=======  =======================================  ==================================================================

Refresh: a bank may go ``1 + postpone`` times tREFI without one, and no bank is refreshed twice by REFPB before all were
once. ``finish`` checks the banks that no command touched.
"""

import dataclasses
import enum
from collections import deque

from spec.hbm import SLOT_CK, HbmGeometry, HbmTiming

HALF = 2
"""Half command clocks in one."""

LONG_AGO = -(1 << 40)


class Command(enum.Enum):
    """Commands the device takes."""

    RD = 0
    WR = 1
    ACT = 2
    PRE = 3
    REFPB = 4
    REFAB = 5


class DeviceError(AssertionError):
    """A command the standard forbids. ``constraint`` names the rule."""

    def __init__(self, constraint: str, text: str) -> None:
        self.constraint = constraint
        super().__init__(f"{constraint}: {text}")


class _Bank:
    """When what happened last in one bank, and the row that is open (None: closed)."""

    def __init__(self) -> None:
        self.row: int | None = None
        self.act = self.pre = self.rd = self.wr = self.ref = LONG_AGO
        self.refreshed = 0
        self.refreshes = 0


class _PseudoChannel:
    """Banks of one pseudo channel and what concerns more than one of them."""

    def __init__(self, geometry: HbmGeometry) -> None:
        self.banks = [_Bank() for _ in range(geometry.all_banks)]
        self.acts: deque[tuple[int, int]] = deque(maxlen=4)  # (time, group)
        self.last_group = {kind: [LONG_AGO] * geometry.all_groups for kind in (Command.RD, Command.WR, Command.ACT)}
        self.last = dict.fromkeys(Command, LONG_AGO)
        self.round: set[int] = set()


@dataclasses.dataclass
class Device:
    """One channel. ``postpone``: tREFI by which a bank's refresh may be late (JESD238 allows eight)."""

    timing: HbmTiming
    geometry: HbmGeometry
    postpone: int = 8

    def __post_init__(self) -> None:
        self.channels = [_PseudoChannel(self.geometry) for _ in range(self.geometry.pseudo_channels)]
        self.memory: dict[tuple[int, int, int, int], bytes] = {}
        self.row_bus_free = self.column_bus_free = self.now = LONG_AGO
        self.issued = dict.fromkeys(Command, 0)

    def command(
        self, time: int, channel: int, kind: Command, bank: int = 0, place: int = 0, data: bytes | None = None
    ) -> bytes | None:
        """Take one command at ``time`` (half CK). ``place`` is the row of ACT, the column of RD and WR.

        RD returns what the last WR with data put there. A WR or RD without ``data`` and without earlier data only
        moves time.
        """
        if time < self.now:
            raise DeviceError("order", f"{kind.name} at {time} after a command at {self.now}")
        self.now = time
        self._bus(time, kind)
        pc = self.channels[channel]
        self.issued[kind] += 1
        result = getattr(self, f"_{kind.name.lower()}")(time, pc, pc.banks[bank], bank, place)
        pc.last[kind] = time
        if result is None:
            return None
        key = (channel, bank, result, place)
        if kind is Command.WR:
            if data is not None:
                self.memory[key] = data
            return None
        return self.memory.get(key)

    def read(self, time: int, channel: int, bank: int, column: int) -> bytes:
        """RD that demands data: a column that was never written is an error."""
        data = self.command(time, channel, Command.RD, bank, column)
        if data is None:
            raise DeviceError("data", f"RD of pseudo channel {channel} bank {bank} column {column}: never written")
        return data

    def finish(self, time: int) -> None:
        """End of the run: no bank may be overdue."""
        for pc in self.channels:
            for index, bank in enumerate(pc.banks):
                self._overdue(time, bank, index)

    def refreshes(self, channel: int) -> list[int]:
        """Refreshes each bank of a pseudo channel has had."""
        return [bank.refreshes for bank in self.channels[channel].banks]

    def _bus(self, time: int, kind: Command) -> None:
        column = kind in (Command.RD, Command.WR)
        halves = HALF if column else 3 if kind is Command.ACT else 1
        if kind is not Command.PRE and time % HALF:
            raise DeviceError("edge", f"{kind.name} at half clock {time}: only PRE may use a falling edge")
        if time < (self.column_bus_free if column else self.row_bus_free):
            raise DeviceError("bus", f"{kind.name} at {time}: the {'column' if column else 'row'} bus is busy")
        if column:
            self.column_bus_free = time + halves
        else:
            self.row_bus_free = time + halves

    @staticmethod
    def _apart(name: str, time: int, since: int, clocks: int, what: str) -> None:
        if time - since < clocks * HALF:
            raise DeviceError(name, f"{what}: {(time - since) / HALF} CK, legal is at least {clocks}")

    def _overdue(self, time: int, bank: _Bank, index: int) -> None:
        limit = (1 + self.postpone) * self.timing.t_refi
        if time - bank.refreshed > limit * HALF:
            raise DeviceError(
                "tREFI", f"bank {index} not refreshed for {(time - bank.refreshed) / HALF} CK, limit {limit}"
            )

    def _act(self, time: int, pc: _PseudoChannel, bank: _Bank, index: int, row: int) -> None:
        t, group = self.timing, index // self.geometry.banks
        if bank.row is not None:
            raise DeviceError("open", f"ACT of bank {index}: row {bank.row} is open")
        self._overdue(time, bank, index)
        self._apart("tRC", time, bank.act, t.t_rc, f"ACT to ACT of bank {index}")
        self._apart("tRP", time, bank.pre, t.t_rp, f"PRE to ACT of bank {index}")
        self._apart("tRFCpb", time, bank.ref, t.t_rfc_pb, f"REFpb to ACT of bank {index}")
        self._apart("tRFC", time, pc.last[Command.REFAB], t.t_rfc, "REFab to ACT")
        self._apart("tRREFD", time, pc.last[Command.REFPB], t.t_rrefd, "REFpb to ACT of another bank")
        self._apart("tRRD_S", time, pc.last[Command.ACT], t.t_rrd_s, "ACT to ACT")
        self._apart("tRRD_L", time, pc.last_group[Command.ACT][group], t.t_rrd_l, f"ACT to ACT of group {group}")
        if len(pc.acts) == 4:
            self._apart("tFAW", time, pc.acts[0][0], t.t_faw, "fifth ACT after the first")
        pc.acts.append((time, group))
        pc.last_group[Command.ACT][group] = bank.act = time
        bank.row = row

    def _pre(self, time: int, pc: _PseudoChannel, bank: _Bank, index: int, _: int) -> None:
        t = self.timing
        self._apart("tRAS", time, bank.act, t.t_ras, f"ACT to PRE of bank {index}")
        self._apart("tRTP", time, bank.rd, t.t_rtp, f"RD to PRE of bank {index}")
        self._apart("tWR", time, bank.wr, t.t_cwl + SLOT_CK + t.t_wr, f"WR to PRE of bank {index}")
        self._apart("tPPD", time, pc.last[Command.PRE], t.t_ppd, "PRE to PRE")
        self._apart("tRFC", time, pc.last[Command.REFAB], t.t_rfc, "REFab to PRE")
        bank.pre, bank.row = time, None

    def _refpb(self, time: int, pc: _PseudoChannel, bank: _Bank, index: int, _: int) -> None:
        t = self.timing
        if bank.row is not None:
            raise DeviceError("open", f"REFpb of bank {index}: row {bank.row} is open")
        self._overdue(time, bank, index)
        if index in pc.round:
            raise DeviceError("round", f"REFpb of bank {index} again before every bank had one")
        self._apart("tRP", time, bank.pre, t.t_rp, f"PRE to REFpb of bank {index}")
        self._apart("tRC", time, bank.act, t.t_rc, f"ACT to REFpb of bank {index}")
        self._apart("tRFCpb", time, bank.ref, t.t_rfc_pb, f"REFpb to REFpb of bank {index}")
        self._apart("tRFC", time, pc.last[Command.REFAB], t.t_rfc, "REFab to REFpb")
        self._apart("tRRD_S", time, pc.last[Command.ACT], t.t_rrd_s, "ACT to REFpb")
        self._apart("tRREFD", time, pc.last[Command.REFPB], t.t_rrefd, "REFpb to REFpb")
        bank.ref = bank.refreshed = time
        bank.refreshes += 1
        pc.round.add(index)
        if len(pc.round) == len(pc.banks):
            pc.round.clear()

    def _refab(self, time: int, pc: _PseudoChannel, _: _Bank, __: int, ___: int) -> None:
        t = self.timing
        self._apart("tRFC", time, pc.last[Command.REFAB], t.t_rfc, "REFab to REFab")
        for index, bank in enumerate(pc.banks):
            if bank.row is not None:
                raise DeviceError("open", f"REFab: row {bank.row} of bank {index} is open")
            self._overdue(time, bank, index)
            self._apart("tRP", time, bank.pre, t.t_rp, f"PRE of bank {index} to REFab")
            self._apart("tRC", time, bank.act, t.t_rc, f"ACT of bank {index} to REFab")
            self._apart("tRFCpb", time, bank.ref, t.t_rfc_pb, f"REFpb of bank {index} to REFab")
            bank.refreshed = time
            bank.refreshes += 1

    def _column(self, time: int, pc: _PseudoChannel, bank: _Bank, index: int, kind: Command) -> int:
        t, group = self.timing, index // self.geometry.banks
        if bank.row is None:
            raise DeviceError("closed", f"{kind.name} of bank {index}: no row is open")
        needed = t.t_rcd_rd if kind is Command.RD else t.t_rcd_wr
        self._apart("tRCD", time, bank.act, needed, f"ACT to {kind.name} of bank {index}")
        for other, last in enumerate(pc.last_group[kind]):
            if other == group:
                self._apart("tCCD_L", time, last, t.t_ccd_l, f"{kind.name} to {kind.name} of group {group}")
            elif other // self.geometry.groups == group // self.geometry.groups:
                self._apart("tCCD_S", time, last, t.t_ccd_s, f"{kind.name} to {kind.name}")
            else:
                self._apart("tCCD_R", time, last, t.t_ccd_r, f"{kind.name} to {kind.name} of another stack id")
        pc.last_group[kind][group] = time
        return bank.row

    def _rd(self, time: int, pc: _PseudoChannel, bank: _Bank, index: int, _: int) -> int:
        t, group = self.timing, index // self.geometry.banks
        written = t.t_cwl + SLOT_CK
        self._apart("tWTR_S", time, pc.last[Command.WR], written + t.t_wtr_s, "WR to RD")
        self._apart("tWTR_L", time, pc.last_group[Command.WR][group], written + t.t_wtr_l, f"WR to RD of group {group}")
        row = self._column(time, pc, bank, index, Command.RD)
        bank.rd = time
        return row

    def _wr(self, time: int, pc: _PseudoChannel, bank: _Bank, index: int, _: int) -> int:
        self._apart("tRTW", time, pc.last[Command.RD], self.timing.t_rtw, "RD to WR")
        row = self._column(time, pc, bank, index, Command.WR)
        bank.wr = time
        return row
