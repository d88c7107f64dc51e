"""Layers of two networks as matrix products, for the cost figures."""

import dataclasses
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True)
class Layer:
    """A product ``[n, k] x [k, m]``: m output features, n positions, k summed over."""

    name: str
    k: int
    m: int
    n: int


GPT2_BLOCK = (
    Layer("scores", 64, 1024, 1024),
    Layer("context", 1024, 64, 1024),
    Layer("query, key, value", 1600, 4800, 1024),
    Layer("projection", 1600, 1600, 1024),
    Layer("feed forward 1", 1600, 3072, 1024),
    Layer("feed forward 2", 3072, 1600, 1024),
)
"""The six products that SCALE-Sim 3 ships as topologies/GEMM_mnk/gpt2.csv: 1,024 tokens."""

_STAGES = ((64, 256, 56, 3), (128, 512, 28, 4), (256, 1024, 14, 6), (512, 2048, 7, 3))
"""ResNet-50 (He et al., 2015): width, output channels, output side, blocks of each stage."""


def resnet50() -> Iterator[Layer]:
    """Its 53 convolutions and the classifier for one image of 224x224, as products over output pixels."""
    yield Layer("conv1", 7 * 7 * 3, 64, 112 * 112)
    channels = 64
    for stage, (width, out, side, blocks) in enumerate(_STAGES, start=2):
        pixels = side * side
        for block in range(blocks):
            name = f"conv{stage}_{block + 1}"
            # The first block of a stage halves the image in its 3x3 convolution; its 1x1 before sees the larger one.
            before = pixels * (4 if block == 0 and stage > 2 else 1)
            yield Layer(f"{name} 1x1 reduce", channels, width, before)
            yield Layer(f"{name} 3x3", 9 * width, width, pixels)
            yield Layer(f"{name} 1x1 expand", width, out, pixels)
            if block == 0:
                yield Layer(f"{name} 1x1 shortcut", channels, out, pixels)
            channels = out
    yield Layer("classifier", 2048, 1000, 1)
