"""The figures published for the machine, recomputed from its description.

A claim states a value and where it was published; what stands beside it is computed from ``spec.presets`` alone, never
typed in. A deviation above :data:`TOLERANCE` must carry its explanation, or the claim fails.
"""

import dataclasses
from collections.abc import Callable
from functools import cached_property

from scale.peak import chip_pflops, dense_tflops, hbm_gib
from scale.serving import LATENCY_MS, serving_gain
from spec.machine import MachineConfig
from spec.presets import machine_named
from spec.results import Record

TOLERANCE = 0.02
"""Relative deviation above which a claim needs an explanation: published figures carry two or three digits."""

_TRN1, _TRN2, _TRN3 = machine_named("TRN1"), machine_named("TRN2"), machine_named("TRN3")
_CORE_PEAK = (
    "the published chip figure is above eight times the published core figure (79, 158, 316 TFLOPS), which is "
    "exactly the array's rate; the array is what this computes"
)
_POWER = 1.1
"""Power of a Trn3 UltraServer over that of a Trn2 UltraServer. No power is published: this is the ratio of the two
published gains, 4.4x in performance and 4x in performance per watt, and every claim that uses it says so."""
_ASSUMED_POWER = f"assumption: a Trn3 UltraServer draws {_POWER} x the power of a Trn2 UltraServer"
_SERVING = (
    f"time model, decode within {LATENCY_MS} ms a token, Trn2 in bf16, Trn3 in MXFP8; "
    "assumption: HBM at 95 %, links at 90 %"
)
_UNSTATED = (
    "formats, latency and batch of the published gain are not stated: with Trn2 in FP8 instead of bf16 the model stays "
    "below 3x, so the stated value lies between"
)
_GIB = "144 x 144 GiB are 20,736 GiB or 22.3 TB; the published figure divides GiB by 1000 and calls the result TB"


@dataclasses.dataclass(frozen=True)
class Claim:
    """One published figure: ``compute()`` returns it in ``unit``; ``inputs`` says from what."""

    machine: str
    what: str
    stated: float
    unit: str
    compute: Callable[[], float]
    inputs: str
    explanation: str = ""

    @cached_property
    def computed(self) -> float:
        """The figure as this description gives it."""
        return self.compute()

    @property
    def deviation(self) -> float:
        """Relative difference between computed and stated."""
        return self.computed / self.stated - 1

    @property
    def holds(self) -> bool:
        """Whether the claim is reproduced, or its deviation explained."""
        return abs(self.deviation) <= TOLERANCE or bool(self.explanation)


def _chips(machine: MachineConfig) -> int:
    return machine.ultraserver_chips


def _performance(machine: MachineConfig) -> float:
    """PFLOPS of an UltraServer in dense FP8."""
    return chip_pflops(machine.chip, machine.chip.core.fp8_rate) * _chips(machine)


def _trn2() -> list[Claim]:
    chip, core = _TRN2.chip, _TRN2.chip.core
    sparse, fp8 = core.sparse_rate, core.fp8_rate
    array = "rows x columns x 2 x clock"
    return [
        Claim("Trn2", "NeuronCores per chip", 8, "", lambda: chip.cores, "chip.cores"),
        Claim("Trn2", "NeuronCores per instance", 128, "", lambda: chip.cores * _TRN2.instance_chips, "x 16 chips"),
        Claim("Trn2", "NeuronCores per UltraServer", 512, "", lambda: chip.cores * _chips(_TRN2), "x 64 chips"),
        Claim("Trn2", "chips per UltraServer", 64, "", lambda: _chips(_TRN2), "instances x 16 chips"),
        Claim("Trn2", "dense BF16, core", 79, "TFLOPS", lambda: dense_tflops(core), array),
        Claim("Trn2", "dense FP8, core", 158, "TFLOPS", lambda: dense_tflops(core, fp8), f"{array} x fp8_rate"),
        Claim(
            "Trn2", "FP32, core", 20, "TFLOPS", lambda: dense_tflops(core, 1 / core.fp32_passes), f"{array} / 4 passes"
        ),
        Claim("Trn2", "sparse, core", 316, "TFLOPS", lambda: dense_tflops(core, sparse), f"{array} x sparse_rate"),
        Claim("Trn2", "dense FP8, chip", 1.3, "PFLOPS", lambda: chip_pflops(chip, fp8), "cores x array", _CORE_PEAK),
        Claim(
            "Trn2",
            "dense FP8, instance",
            20.8,
            "PFLOPS",
            lambda: chip_pflops(chip, fp8) * _TRN2.instance_chips,
            "x 16 chips",
            _CORE_PEAK,
        ),
        Claim(
            "Trn2",
            "dense FP8, UltraServer",
            83.2,
            "PFLOPS",
            lambda: chip_pflops(chip, fp8) * _chips(_TRN2),
            "x 64 chips",
            _CORE_PEAK,
        ),
        Claim(
            "Trn2",
            "sparse, chip",
            2.563,
            "PFLOPS",
            lambda: chip_pflops(chip, sparse),
            "cores x sparse array",
        ),
        Claim(
            "Trn2",
            "sparse FP8, chip",
            5.2,
            "PFLOPS",
            lambda: chip_pflops(chip, fp8 * sparse),
            "cores x array x fp8_rate x sparse_rate",
            _CORE_PEAK,
        ),
        Claim(
            "Trn2",
            "sparse FP8, UltraServer",
            332,
            "PFLOPS",
            lambda: chip_pflops(chip, fp8 * sparse) * _chips(_TRN2),
            "x 64 chips",
            _CORE_PEAK,
        ),
        Claim("Trn2", "HBM, chip", 96, "GiB", lambda: hbm_gib(chip), "stacks x GiB"),
        Claim("Trn2", "HBM, instance", 1.5, "TiB", lambda: hbm_gib(chip) * _TRN2.instance_chips / 1024, "x 16 chips"),
        Claim("Trn2", "HBM, UltraServer", 6, "TiB", lambda: hbm_gib(chip) * _chips(_TRN2) / 1024, "x 64 chips"),
        Claim(
            "Trn2", "HBM bandwidth, instance", 46, "TB/s", lambda: chip.hbm_tbytes * _TRN2.instance_chips, "x 16 chips"
        ),
        Claim("Trn2", "HBM bandwidth, UltraServer", 185, "TB/s", lambda: chip.hbm_tbytes * _chips(_TRN2), "x 64 chips"),
        Claim(
            "Trn2",
            "NeuronLink inside an instance, chip",
            1,
            "TB/s",
            lambda: _TRN2.chip.link_gbytes * 4 / 5 / 1e3,
            "four of its five full widths; the Z ring has the fifth",
            "1,024 GB/s, stated in TB",
        ),
        Claim(
            "Trn2", "EFA, instance", 3.2, "Tbit/s", lambda: _TRN2.efa_gbits * _TRN2.instance_chips / 1e3, "x 16 chips"
        ),
        Claim(
            "Trn2",
            "speed against Trn1, chip",
            4,
            "x",
            lambda: chip_pflops(chip, 1) / chip_pflops(_TRN1.chip, 1),
            "dense BF16 of both",
            "arrays alone give 3.4x in BF16 and 6.9x in FP8; the round figure lies between",
        ),
        Claim(
            "Trn2",
            "memory bandwidth against Trn1, chip",
            4,
            "x",
            lambda: chip.hbm_tbytes / _TRN1.chip.hbm_tbytes,
            "HBM bandwidth of both",
            "2.9 over 0.82 TB/s is 3.5x; the announcement rounds up",
        ),
        Claim(
            "Trn2",
            "memory capacity against Trn1, chip",
            3,
            "x",
            lambda: hbm_gib(chip) / hbm_gib(_TRN1.chip),
            "GiB of both",
        ),
    ]


def _trn3() -> list[Claim]:
    chip, core = _TRN3.chip, _TRN3.chip.core
    return [
        Claim("Trn3", "chips per UltraServer", 144, "", lambda: _chips(_TRN3), "36 servers x 4 chips"),
        Claim("Trn3", "dense BF16, core", 79, "TFLOPS", lambda: dense_tflops(core), "rows x columns x 2 x clock"),
        Claim("Trn3", "MXFP8, core", 315, "TFLOPS", lambda: dense_tflops(core, core.fp8_rate), "array x fp8_rate"),
        Claim("Trn3", "MXFP8, chip", 2.52, "PFLOPS", lambda: chip_pflops(chip, core.fp8_rate), "cores x array"),
        Claim(
            "Trn3",
            "FP8, UltraServer",
            362,
            "PFLOPS",
            lambda: chip_pflops(chip, core.fp8_rate) * _chips(_TRN3),
            "x 144 chips",
        ),
        Claim("Trn3", "HBM, chip", 144, "GiB", lambda: hbm_gib(chip), "stacks x GiB"),
        Claim(
            "Trn3",
            "HBM, UltraServer",
            20.7,
            "TB",
            lambda: hbm_gib(chip) * _chips(_TRN3) * 2**30 / 1e12,
            "x 144 chips",
            _GIB,
        ),
        Claim(
            "Trn3", "HBM bandwidth, UltraServer", 706, "TB/s", lambda: chip.hbm_tbytes * _chips(_TRN3), "x 144 chips"
        ),
        Claim(
            "Trn3",
            "performance against the Trn2 UltraServer",
            4.4,
            "x",
            lambda: (
                chip_pflops(chip, core.fp8_rate)
                * _chips(_TRN3)
                / (chip_pflops(_TRN2.chip, _TRN2.chip.core.fp8_rate) * _chips(_TRN2))
            ),
            "dense FP8 of both",
            _CORE_PEAK,
        ),
        Claim(
            "Trn3",
            "memory bandwidth against the Trn2 UltraServer",
            3.9,
            "x",
            lambda: chip.hbm_tbytes * _chips(_TRN3) / (_TRN2.chip.hbm_tbytes * _chips(_TRN2)),
            "HBM of both",
            "705.6 over 185.6 TB/s is 3.8x; 3.9x follows from 181 TB/s, which no page states",
        ),
        Claim(
            "Trn3",
            "inter-chip bandwidth against Trn2, chip",
            2,
            "x",
            lambda: chip.link_gbytes / _TRN2.chip.link_gbytes,
            "links of both",
        ),
        Claim(
            "Trn3",
            "performance per watt against the Trn2 UltraServer",
            4,
            "x",
            lambda: _performance(_TRN3) / _performance(_TRN2) / _POWER,
            f"dense FP8 of both; {_ASSUMED_POWER}",
            _CORE_PEAK,
        ),
        Claim("Trn3", "GPT-OSS 120B serving against Trn2, tokens a chip", 3, "x", serving_gain, _SERVING, _UNSTATED),
        Claim(
            "Trn3",
            "GPT-OSS 120B serving against Trn2, tokens a megawatt",
            5,
            "x",
            lambda: serving_gain() * _chips(_TRN3) / _chips(_TRN2) / _POWER,
            f"{_SERVING}; {_ASSUMED_POWER}",
            _UNSTATED + "; the UltraServer's 144 chips for 64 and the assumed power follow on top",
        ),
    ]


CLAIMS: tuple[Claim, ...] = (*_trn2(), *_trn3())


def records() -> list[Record]:
    """Each claim as a record: computed value, stated value as reference."""
    return [
        Record(
            block=claim.machine,
            figure=claim.what,
            value=round(claim.computed, 6),
            unit=claim.unit,
            reference=f"{claim.stated:g} stated; {claim.deviation:+.1%}; from {claim.inputs}"
            + (f"; {claim.explanation}" if abs(claim.deviation) > TOLERANCE else ""),
        )
        for claim in CLAIMS
    ]
