"""Parameters of the tensor engine: the systolic array, its stationary loader and its PSUM."""

import dataclasses

from spec.formats import FLOATS, FP32, SIGNIFICAND_BITS
from spec.parameters import Parameters, parameter, refuse


@dataclasses.dataclass(frozen=True, kw_only=True)
class TensorConfig(Parameters):
    """A weight-stationary array of ``rows`` x ``columns`` processing elements above a banked accumulator memory.

    ``rows`` is the contraction dimension K (SBUF partitions), ``columns`` the output dimension M (PSUM partitions).
    """

    rows: int = parameter(
        128,
        unit="processing elements",
        low=2,
        high=512,
        doc="height of the array, K of one pass",
        source="aws-neuron-sdk, trainium2_arch: 128x128",
    )
    columns: int = parameter(
        128,
        unit="processing elements",
        low=2,
        high=512,
        doc="width of the array, M of one pass",
        source="aws-neuron-sdk, trainium2_arch: 128x128",
    )
    formats: tuple[str, ...] = parameter(
        ("bf16", "fp16"),
        choices=[name for name, entry in FLOATS.items() if entry.mantissa_bits < SIGNIFICAND_BITS],
        doc="operand formats the edge decoders accept: those whose significand fits the internal form",
    )
    load_columns: int = parameter(
        4,
        unit="columns/cycle",
        low=1,
        high=16,
        doc="stationary columns loaded a cycle",
        source="aws-neuron-sdk, trainium_inferentia2_arch: a load costs a quarter of a matmul of the same size",
    )
    multiply_stages: int = parameter(1, unit="cycles", low=1, high=4, doc="pipeline registers of the exact product")
    add_stages: int = parameter(2, unit="cycles", low=1, high=6, doc="pipeline registers of the add, the skew of a row")
    psum_banks: int = parameter(
        8,
        unit="banks",
        low=1,
        high=64,
        doc="accumulator banks per partition",
        source="aws-neuron-sdk, trainium_inferentia2_arch",
    )
    psum_bank_bytes: int = parameter(
        2048,
        unit="bytes/partition",
        low=16,
        high=1 << 16,
        power_of_two=True,
        doc="size of one bank",
        source="aws-neuron-sdk, trainium_inferentia2_arch: 2 KiB = 512 fp32",
    )

    def check(self) -> None:
        """Refuse loads wider than the array."""
        if self.load_columns > self.columns:
            raise refuse("TensorConfig", "load_columns", self.load_columns, f"1 to columns = {self.columns}")

    @property
    def bank_depth(self) -> int:
        """fp32 values one bank holds per partition: the most columns one matmul can move."""
        return self.psum_bank_bytes * 8 // FP32.width

    @property
    def load_cycles(self) -> int:
        """Cycles one stationary load takes."""
        return -(-self.columns // self.load_columns)
