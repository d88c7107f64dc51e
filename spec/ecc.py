"""SECDED code (Hsiao): corrects one wrong bit of a word and detects two.

The check matrix has one column of odd weight for each bit of the codeword; all differ. One wrong bit gives its column
as syndrome, two give the sum of two columns: not zero, and of even weight, so never mistaken for one.
"""

import dataclasses
import functools
import itertools

from spec.parameters import Parameters, parameter, refuse


@dataclasses.dataclass(frozen=True, kw_only=True)
class SecdedConfig(Parameters):
    """Code for words of ``data`` bits; a codeword is the data in the low bits, the check bits above."""

    data: int = parameter(64, unit="bits", low=1, high=247, doc="data bits of one word", source="JESD238: 64 + 8 bits")
    check_bits: int = parameter(8, unit="bits", low=3, high=9, doc="check bits of one word")

    def check(self) -> None:
        """Refuse words with more bits than the check bits can tell apart."""
        limit = 2 ** (self.check_bits - 1) - self.check_bits
        if self.data > limit:
            raise refuse(
                "SecdedConfig", "data", self.data, f"at most {limit} with {self.check_bits} check bits", "bits"
            )

    @property
    def width(self) -> int:
        """Bits of a codeword."""
        return self.data + self.check_bits

    @functools.cached_property
    def columns(self) -> tuple[int, ...]:
        """Syndrome of each codeword bit: odd weights from three up for data, then the check bits' unit vectors."""
        odd = range(3, self.check_bits + 1, 2)
        choices = (c for weight in odd for c in itertools.combinations(range(self.check_bits), weight))
        columns = itertools.islice((sum(1 << bit for bit in choice) for choice in choices), self.data)
        return (*columns, *(1 << bit for bit in range(self.check_bits)))

    @functools.cached_property
    def masks(self) -> tuple[int, ...]:
        """For each check bit the codeword bits it is the parity of, itself included."""
        return tuple(
            sum(1 << bit for bit, column in enumerate(self.columns) if column >> check & 1)
            for check in range(self.check_bits)
        )
