"""SECDED of ``spec.ecc`` on Python integers: independent of the hardware, bit by bit from the columns."""

from spec.ecc import SecdedConfig


def encode(config: SecdedConfig, word: int) -> int:
    """Codeword of a data word."""
    checks = 0
    for bit in range(config.data):
        if word >> bit & 1:
            checks ^= config.columns[bit]
    return word | checks << config.data


def decode(config: SecdedConfig, codeword: int) -> tuple[int, bool, bool]:
    """Data word, whether one bit was corrected, whether the word is lost (two bits wrong, or more that show)."""
    syndrome = 0
    for bit in range(config.width):
        if codeword >> bit & 1:
            syndrome ^= config.columns[bit]
    word = codeword & ((1 << config.data) - 1)
    if syndrome == 0:
        return word, False, False
    if syndrome in config.columns:
        wrong = config.columns.index(syndrome)
        return (word ^ (1 << wrong) if wrong < config.data else word), True, False
    return word, False, True
