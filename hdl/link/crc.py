"""Cyclic redundancy check of a whole frame in one step."""

from functools import reduce
from operator import xor

from amaranth.hdl import Cat, Const, Value

from spec.link import CRC_POLYNOMIALS


def crc(bits: Value, width: int) -> Value:
    """CRC of ``bits``, most significant first, register preset to ones; each bit is one tree of exclusive ors.

    The preset makes a frame of zeros, as a broken wire shows it, wrong.
    """
    polynomial, count = CRC_POLYNOMIALS[width], len(bits)
    top, mask = 1 << (width - 1), (1 << width) - 1

    def shift(register: int) -> int:
        return ((register << 1) ^ (polynomial if register & top else 0)) & mask

    # The register is linear in its preset and in each input bit: what one set bit leaves behind, for all of them.
    remainders, left = [], polynomial
    for _ in range(count):
        remainders.append(left)
        left = shift(left)
    preset = mask
    for _ in range(count):
        preset = shift(preset)
    terms = [[bits[i] for i, remainder in enumerate(remainders) if remainder >> bit & 1] for bit in range(width)]
    return Cat(reduce(xor, term, Const(preset >> bit & 1, 1)) for bit, term in enumerate(terms))
