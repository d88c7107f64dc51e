"""The whole machine as one parameter object: what a preset names."""

import dataclasses

from spec.parameters import Parameters, parameter
from spec.tensor import TensorConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class CoreConfig(Parameters):
    """One NeuronCore: clocks, memories and the shapes of its engines. ``tensor`` holds the array."""

    tensor: TensorConfig
    tensor_clock_ghz: float = parameter(2.4, unit="GHz", low=0.001, high=10.0, doc="clock of the tensor engine")
    vector_clock_ghz: float = parameter(0.96, unit="GHz", low=0.001, high=10.0, doc="clock of the vector engine")
    scalar_clock_ghz: float = parameter(1.2, unit="GHz", low=0.001, high=10.0, doc="clock of the scalar engine")
    gpsimd_clock_ghz: float = parameter(1.2, unit="GHz", low=0.001, high=10.0, doc="clock of the GPSIMD engine")
    sbuf_partition_bytes: int = parameter(
        224 * 1024, unit="bytes/partition", low=256, high=1 << 20, doc="state buffer per partition"
    )
    fp8_rate: int = parameter(2, unit="products/element/cycle", low=1, high=4, doc="FP8 products a cycle")
    sparse_rate: int = parameter(4, unit="x dense", low=1, high=4, doc="speed-up of structured sparsity")
    fp32_passes: int = parameter(4, unit="passes", low=1, high=4, doc="array passes of an fp32 matmul")
    dma_engines: int = parameter(16, unit="engines", low=1, high=64, doc="DMA engines of one core")
    dma_gbytes: float = parameter(27.2, unit="GB/s", low=0.001, high=1000.0, doc="wire rate of one DMA engine")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ChipConfig(Parameters):
    """One chip: cores, memory stacks and links."""

    core: CoreConfig
    cores: int = parameter(8, unit="NeuronCores", low=1, high=64, doc="cores of one chip")
    hbm_stacks: int = parameter(4, unit="stacks", low=1, high=16, doc="HBM stacks")
    hbm_stack_gib: float = parameter(24, unit="GiB", low=0.001, high=1024.0, doc="capacity of one stack")
    hbm_tbytes: float = parameter(2.9, unit="TB/s", low=0.001, high=100.0, doc="bandwidth of all stacks together")
    link_gbytes: float = parameter(1280, unit="GB/s", low=0.0, high=100_000.0, doc="NeuronLink, all links of a chip")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MachineConfig(Parameters):
    """Chips composed into an instance and an UltraServer."""

    chip: ChipConfig
    instance_chips: int = parameter(16, unit="chips", low=1, high=1024, doc="chips of one instance (or server)")
    ultraserver_instances: int = parameter(4, unit="instances", low=1, high=1024, doc="instances of one UltraServer")
    fabric: str = parameter("torus", choices=("torus", "switch"), doc="what joins the chips of an UltraServer")
    efa_gbits: float = parameter(200, unit="Gbit/s", low=0.0, high=1e6, doc="EFA network, share of one chip")

    @property
    def tensor(self) -> TensorConfig:
        """Parameters of the tensor engine."""
        return self.chip.core.tensor

    @property
    def ultraserver_chips(self) -> int:
        """Chips of one UltraServer."""
        return self.instance_chips * self.ultraserver_instances
