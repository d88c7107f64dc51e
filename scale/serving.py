"""Serving at equal latency: how many tokens a chip makes when no token may take longer than stated."""

import functools

from scale.fabric import Fabric, machine_scope
from scale.measured import load
from scale.step import Step
from spec.models import model_named
from spec.parallelism import ParallelConfig, WorkloadConfig

LATENCY_MS = 10
"""The latency both machines are held to: a hundred tokens a second for each user."""

CONTEXT = 8192
"""Tokens each sequence attends to."""

ASSUMED = {"hbm": 0.95, "link": 0.9, "hop_cycles": 3.0}
"""Design targets of the HBM controller and the router; stated wherever a figure rests on them."""


@functools.cache
def tokens_of_a_chip(preset: str, model: str, layout: str, weight_bytes: int, latency_ms: float) -> float:
    """Tokens a second and chip of the largest power-of-two batch a rank whose step takes at most ``latency_ms``.

    Zero where even one sequence a rank takes longer.
    """
    machine, scope = machine_scope(preset)
    fabric, parallel = Fabric(machine, scope, load(ASSUMED)), ParallelConfig.parse(layout)
    best, each = 0.0, 1
    while True:
        workload = WorkloadConfig(
            kind="decode", batch=each * parallel.dp, sequence=CONTEXT, weight_bytes=weight_bytes
        )  # fmt: skip
        result = Step(fabric, model_named(model), parallel, workload).run()
        if result.seconds * 1e3 > latency_ms:
            return best
        best, each = result.tokens / result.seconds / result.chips, 2 * each


def serving_gain(trn2_bytes: int = 2) -> float:
    """GPT-OSS 120B on a chip of a Trn3 UltraServer against one of a Trn2 UltraServer, each in its own format.

    Trainium-2 has no MX formats, so it computes in bf16 (with one byte, in FP8); Trainium-3 in MXFP8.
    """
    before = tokens_of_a_chip("trn2-ultraserver", "gpt-oss-120b", "dp=64,ep=64", trn2_bytes, LATENCY_MS)
    after = tokens_of_a_chip("trn3-ultraserver", "gpt-oss-120b", "dp=144,ep=16", 1, LATENCY_MS)
    return after / before
