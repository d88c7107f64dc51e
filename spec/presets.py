"""Named machines. ``TRN1``, ``TRN2``, ``TRN3`` hold the published figures; ``TINY`` and ``SMALL`` are the same machine,
small enough to simulate in seconds.

Every figure of a published machine has its source here, by the dotted path of its field; a test fails where one is
missing. Source pages are those of the public ``aws-neuron/aws-neuron-sdk`` documentation (snapshot of 2026-08-21):
``arch`` = nki/guides/architecture/*_arch.rst of that generation, ``hardware`` = about-neuron/arch/neuron-hardware.
"""

import dataclasses

from spec.machine import ChipConfig, CoreConfig, MachineConfig
from spec.parameters import lookup
from spec.tensor import TensorConfig


@dataclasses.dataclass(frozen=True)
class Preset:
    """A machine and, for each published figure, where it was published."""

    machine: MachineConfig
    sources: dict[str, str]


_DESIGN = "design choice: small enough to simulate"

_COMMON_SOURCES = {
    "chip.core.tensor.rows": "arch: 128x128 processing elements",
    "chip.core.tensor.columns": "arch: 128x128 processing elements",
    "chip.core.tensor.psum_banks": "arch: 8 banks",
    "chip.core.tensor.psum_bank_bytes": "arch: 2 KiB per partition and bank",
    "chip.core.tensor.load_columns": "arch: loading costs a quarter of a matmul of the same size",
    "chip.core.fp32_passes": "arch: fp32 at a quarter of the bf16 rate",
    "chip.core.tensor_clock_ghz": "arch: engine table",
    "chip.core.vector_clock_ghz": "arch: engine table",
    "chip.core.scalar_clock_ghz": "arch: engine table",
    "chip.core.gpsimd_clock_ghz": "arch: engine table",
    "chip.core.sbuf_partition_bytes": "arch: SBUF size over 128 partitions",
    "chip.core.fp8_rate": "arch: FP8 against BF16 TFLOPS of a core",
    "chip.core.sparse_rate": "arch: sparse against dense BF16 TFLOPS of a core",
    "chip.core.dma_engines": "arch: 16 DMA engines a core",
    "chip.core.dma_gbytes": "nki-dma-overview: theoretical rate of one engine",
    "chip.cores": "arch: NeuronCores per chip",
    "chip.hbm_stacks": "hardware: HBM stacks",
    "chip.hbm_stack_gib": "hardware: capacity over stacks",
    "chip.hbm_tbytes": "hardware: HBM bandwidth",
    "chip.link_gbytes": "hardware: NeuronLink bandwidth per chip",
    "instance_chips": "hardware: instance page",
    "ultraserver_instances": "hardware: UltraServer page",
    "fabric": "hardware: NeuronLink topology",
    "efa_gbits": "hardware: instance page, over its 16 chips",
}

TINY = Preset(
    MachineConfig(
        chip=ChipConfig(
            core=CoreConfig(
                tensor=TensorConfig(rows=4, columns=4, psum_banks=2, psum_bank_bytes=64),
                sbuf_partition_bytes=1024,
                dma_engines=2,
            ),
            cores=2,
            hbm_stacks=1,
            hbm_stack_gib=0.001,
        ),
        instance_chips=4,
        ultraserver_instances=1,
    ),
    {"": _DESIGN},
)

SMALL = Preset(
    MachineConfig(
        chip=ChipConfig(
            core=CoreConfig(
                tensor=TensorConfig(rows=16, columns=16, psum_banks=4, psum_bank_bytes=256),
                sbuf_partition_bytes=8192,
                dma_engines=4,
            ),
            cores=2,
            hbm_stacks=1,
            hbm_stack_gib=0.0625,
        ),
        instance_chips=4,
        ultraserver_instances=4,
    ),
    {"": _DESIGN},
)

TRN1 = Preset(
    MachineConfig(
        chip=ChipConfig(
            core=CoreConfig(
                tensor=TensorConfig(
                    formats=("bf16", "fp16", "tf32", "fp32", "fp8_e4m3", "fp8_e5m2", "fp8_e3m4"),
                    tiles=2,
                ),
                tensor_clock_ghz=2.8,
                vector_clock_ghz=1.12,
                scalar_clock_ghz=1.4,
                gpsimd_clock_ghz=1.4,
                sbuf_partition_bytes=192 * 1024,
                fp8_rate=1,
                sparse_rate=1,
            ),
            cores=2,
            hbm_stacks=2,
            hbm_stack_gib=16,
            hbm_tbytes=0.82,
            link_gbytes=384,
        ),
        instance_chips=16,
        ultraserver_instances=1,
        efa_gbits=50,
    ),
    _COMMON_SOURCES
    | {
        "chip.core.tensor.formats": "arch: data types of the tensor engine",
        "chip.core.tensor.tiles": "nki.isa.nc_matmul: two tiles of 64 rows from this generation on",
    },
)

TRN2 = Preset(
    MachineConfig(
        chip=ChipConfig(
            core=CoreConfig(
                tensor=TensorConfig(
                    formats=("bf16", "fp16", "tf32", "fp32", "fp8_e4m3", "fp8_e5m2", "fp8_e3m4"),
                    double_row=True,
                    transpose=True,
                    sparsity=True,
                    tiles=4,
                ),
            ),
        ),
    ),
    _COMMON_SOURCES
    | {
        "chip.core.tensor.formats": "arch: data types of the tensor engine",
        "chip.core.tensor.double_row": "arch: FP8 performance mode",
        "chip.core.tensor.transpose": "arch: transpose mode",
        "chip.core.tensor.sparsity": "arch: structured sparsity",
        "chip.core.tensor.tiles": "nki.isa.nc_matmul: four tiles of 32 rows from this generation on",
    },
)

TRN3 = Preset(
    MachineConfig(
        chip=ChipConfig(
            core=CoreConfig(
                tensor=TensorConfig(
                    formats=(
                        "bf16",
                        "fp16",
                        "tf32",
                        "fp32",
                        "fp8_e4m3",
                        "fp8_e4m3fn",
                        "fp8_e5m2",
                        "fp8_e3m4",
                        "fp4_e2m1",
                    ),
                    double_row=True,
                    microscaling=True,
                    transpose=True,
                    sparsity=True,
                    tiles=4,
                    bf16_results=True,
                    whole_psum=True,
                ),
                vector_clock_ghz=1.2,
                sbuf_partition_bytes=256 * 1024,
                fp8_rate=4,
                dma_gbytes=38.4,
            ),
            hbm_stack_gib=36,
            hbm_tbytes=4.9,
            link_gbytes=2560,
        ),
        instance_chips=4,
        ultraserver_instances=36,
        fabric="switch",
    ),
    _COMMON_SOURCES
    | {
        "chip.core.tensor.formats": "arch: data types of the tensor engine",
        "chip.core.tensor.double_row": "arch: FP8 performance mode",
        "chip.core.tensor.transpose": "arch: transpose mode",
        "chip.core.tensor.sparsity": "arch: structured sparsity",
        "chip.core.tensor.tiles": "nki.isa.nc_matmul: four tiles of 32 rows from this generation on",
        "chip.core.tensor.microscaling": "arch: MXFP8 and MXFP4",
        "chip.core.tensor.bf16_results": "arch: BF16 results in PSUM",
        "chip.core.tensor.whole_psum": "arch: one matmul fills up to all of PSUM",
        "efa_gbits": "hardware: 28.8 Tbit/s of a Gen2 UltraServer over its 144 chips",
    },
)

PRESETS: dict[str, Preset] = {"TINY": TINY, "SMALL": SMALL, "TRN1": TRN1, "TRN2": TRN2, "TRN3": TRN3}


def machine_named(name: str) -> MachineConfig:
    """The machine of the preset called ``name``; an unknown name is refused with the list of known ones."""
    machine: MachineConfig = lookup("preset", PRESETS, name).machine
    return machine
