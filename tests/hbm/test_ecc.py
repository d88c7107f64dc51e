from itertools import combinations
from typing import Any

import numpy as np
import pytest
from amaranth.hdl import Module
from amaranth.sim import Simulator

from golden.ecc import decode, encode
from hdl.ecc import SecdedDecoder, SecdedEncoder
from spec.ecc import SecdedConfig
from spec.parameters import ParameterError

CONFIGS = [SecdedConfig(), SecdedConfig(data=32, check_bits=7), SecdedConfig(data=1, check_bits=3)]


def errors(config: SecdedConfig) -> list[int]:
    """No error, every single one, every double one."""
    single = [1 << bit for bit in range(config.width)]
    return [0, *single, *(a | b for a, b in combinations(single, 2))]


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_every_single_error_is_corrected_and_every_double_one_reported(config: SecdedConfig) -> None:
    rng = np.random.default_rng(1)
    for word in (0, (1 << config.data) - 1, *(int.from_bytes(rng.bytes(32)) % (1 << config.data) for _ in range(3))):
        for error in errors(config):
            data, corrected, lost = decode(config, encode(config, word) ^ error)
            weight = error.bit_count()
            assert (corrected, lost) == (weight == 1, weight == 2)
            assert weight == 2 or data == word


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_hardware_does_what_golden_does_for_every_error_of_up_to_two_bits(config: SecdedConfig) -> None:
    m = Module()
    encoder: Any = SecdedEncoder(config)
    decoder: Any = SecdedDecoder(config)
    m.submodules.encoder, m.submodules.decoder = encoder, decoder
    rng = np.random.default_rng(2)

    async def bench(ctx: Any) -> None:
        for error in errors(config):
            word = int.from_bytes(rng.bytes(32)) % (1 << config.data)
            ctx.set(encoder.data, word)
            codeword = ctx.get(encoder.codeword)
            assert codeword == encode(config, word)
            ctx.set(decoder.codeword, codeword ^ error)
            found = ctx.get(decoder.data), bool(ctx.get(decoder.corrected)), bool(ctx.get(decoder.lost))
            assert found == decode(config, codeword ^ error)

    simulator: Any = Simulator(m)
    simulator.add_testbench(bench)
    simulator.run()


def test_a_word_too_long_for_its_check_bits_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"SecdedConfig\.data = 121 bits: legal is at most 120"):
        SecdedConfig(data=121)
