"""What the blocks of the HBM controller hand to each other."""

from amaranth.lib import data, enum

from spec.ecc import SecdedConfig
from spec.hbm import ACCESS_BYTES, LINE_ACCESSES
from spec.hbm_controller import HbmControllerConfig


class RowKind(enum.Enum, shape=2):
    """Commands of the row bus."""

    NONE = 0
    ACT = 1
    PRE = 2
    REF = 3


def bits(count: int) -> int:
    """Width of an index into ``count`` things."""
    return max((count - 1).bit_length(), 1)


class Layouts:
    """Payload layouts of one configuration.

    ``place``    bank (stack id and group included), row, and column of the line's first access
    ``request``  a line: write or read, its place, and a tag that comes back with its column commands
    ``column``   column command: ``last`` marks the second access of a line, ``enable`` a command at all; ``row`` is
               the open row it falls into, for whoever answers
    ``used``     what the bank machines need to know of it
    ``row``      row command; ``row`` counts for ACT only
    ``target``   a row of a bank
    """

    def __init__(self, config: HbmControllerConfig) -> None:
        g = config.geometry
        self.tag_bits = max(config.tag_bits + 1, bits(config.write_lines + 1))  # the top bit marks reads of a scrub
        fields = {"bank": bits(g.all_banks), "row": bits(g.rows), "column": bits(g.columns)}
        self.place = data.StructLayout(fields)
        self.request = data.StructLayout({"write": 1, "place": self.place, "tag": self.tag_bits})
        self.column = data.StructLayout(
            {
                "enable": 1,
                "write": 1,
                "bank": fields["bank"],
                "row": fields["row"],
                "column": fields["column"],
                "tag": self.tag_bits,
                "last": 1,
            }
        )
        self.used = data.StructLayout({"enable": 1, "write": 1, "bank": fields["bank"]})
        self.row = data.StructLayout({"kind": RowKind, "bank": fields["bank"], "row": fields["row"]})
        self.target = data.StructLayout({"bank": fields["bank"], "row": fields["row"]})


SECDED = SecdedConfig()
WORDS = ACCESS_BYTES * 8 // SECDED.data
"""SECDED words of one access."""


class ControllerLayouts(Layouts):
    """Adds what carries data.

    ``access``  what the device stores of 32 B: data words with their check bits
    ``plain``   data words of a line, by access
    ``inject``  an error to plant: ``mask`` is XORed to codeword ``word`` of the line
    ``stored``  a line as the controller takes it; ``answer`` and ``response``: an access of a read
    """

    def __init__(self, config: HbmControllerConfig) -> None:
        super().__init__(config)
        self.tag = config.tag_bits
        self.access = data.ArrayLayout(SECDED.width, WORDS)
        self.words = data.ArrayLayout(SECDED.data, WORDS)
        self.plain = data.ArrayLayout(self.words, LINE_ACCESSES)
        self.inject = data.StructLayout({"word": bits(LINE_ACCESSES * WORDS), "mask": SECDED.width})
        self.stored = data.StructLayout(
            {"write": 1, "place": self.place, "tag": self.tag, "data": self.plain, "inject": self.inject}
        )
        verdict = {"data": self.words, "corrected": 1, "lost": 1, "last": 1}
        self.answer = data.StructLayout({"valid": 1, **verdict})
        self.response = data.StructLayout({"tag": self.tag, "place": self.place, **verdict})
