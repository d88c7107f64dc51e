"""The traces every figure is measured on: what DMA engines and kernels ask of one HBM channel (1 GiB).

A trace is a sequence of requests ``(write, address, bytes, stream)``; sizes are multiples of 64 B. They are
deterministic (own generator, fixed seeds), so other simulators were given the same ones: ``peers.csv`` holds what they
reached.
"""

import csv
import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from spec.hbm import LINE_BYTES
from spec.parameters import lookup

SPAN = 1 << 30
"""Bytes of the channel."""

PEERS = Path(__file__).with_name("peers.csv")

DEFAULT_BYTES = 4 << 20
"""Bytes moved by a trace when nothing else is said (a quarter of it by the strides)."""

_MASK = (1 << 64) - 1


class Request(NamedTuple):
    """One request; ``stream`` names the requester."""

    write: bool
    address: int
    size: int
    stream: int


Requests = Iterator[Request]


class _Random:
    """xorshift64*: the same numbers in any language."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, limit: int) -> int:
        state = self.state
        state ^= state >> 12
        state ^= state << 25 & _MASK
        state ^= state >> 27
        self.state = state
        return ((state * 0x2545F4914F6CDD1D & _MASK) >> 20) % limit


def _sequential(total: int, write: bool) -> Requests:
    for address in range(0, total, LINE_BYTES):
        yield Request(write, address, LINE_BYTES, 0)


def _triad(total: int, chunk: int) -> Requests:
    """Two read streams and a write stream, ``chunk`` bytes of each in turn."""
    for offset in range(0, total // 3, chunk):
        for stream, base in enumerate((0, 1 << 28, 1 << 29)):
            for inner in range(0, chunk, LINE_BYTES):
                yield Request(stream == 2, base + offset + inner, LINE_BYTES, stream)


def _mixed(total: int) -> Requests:
    """One walk; each line is a write with probability 1/3."""
    random = _Random(77)
    for address in range(0, total, LINE_BYTES):
        yield Request(random.below(3) == 0, address, LINE_BYTES, 0)


def _stride(total: int, stride: int) -> Requests:
    """64 B reads of a quarter of ``total`` at a fixed distance; after 256 MiB from the start again, 64 B further."""
    address = offset = 0
    for _ in range(total // 4 // LINE_BYTES):
        yield Request(False, (address + offset) % SPAN, LINE_BYTES, 0)
        address += stride
        if address >= 1 << 28:
            address, offset = 0, offset + LINE_BYTES


def _random(total: int, size: int, writes: bool = False) -> Requests:
    """Aligned bursts of ``size`` at uniform places; with ``writes`` one in three is a write."""
    random = _Random(1234 + size)
    for _ in range(total // size):
        write = writes and random.below(3) == 0
        yield Request(write, random.below(SPAN // size) * size, size, 0)


def _dma(total: int, chunk: int, aligned: bool, writers: int = 0) -> Requests:
    """Sixteen sequential streams, ``chunk`` bytes of each in turn, from random or from power-of-two bases."""
    streams, random = 16, _Random(5)
    bases = [index * (SPAN // streams) if aligned else random.below(SPAN // 4096) * 4096 for index in range(streams)]
    for offset in range(0, total // streams, chunk):
        for stream, base in enumerate(bases):
            yield Request(stream >= streams - writers, (base + offset) % SPAN, chunk, stream)


A, B, C = 0, 1 << 28, 1 << 29
PITCH_A, PITCH_B = 8192, 22016  # bytes of a row of A [*, 4096] and of B, C [*, 11008] in bf16


def _gemm(total: int) -> Requests:
    """Tiles of C += A B: 128 rows x 256 B of A and 128 x 1 KiB of B a step, after 32 steps 128 x 1 KiB of C."""
    done = tile = 0
    while done < total:
        for step in range(32):
            for row in range(128):
                yield Request(False, A + row * PITCH_A + step * 256, 256, 0)
            for row in range(128):
                yield Request(False, B + (step * 128 + row) * PITCH_B + tile * 1024, 1024, 1)
            done += 128 * (256 + 1024)
            if done >= total:
                return
        for row in range(128):
            yield Request(True, C + row * PITCH_B + tile * 1024, 1024, 2)
        done += 128 * 1024
        tile += 1


def _gemm_interleaved(total: int) -> Requests:
    """The same tiles with their rows interleaved by several DMA queues, a tile of C written every fourth step."""
    done = step = 0
    while done < total:
        for row in range(128):
            yield Request(False, A + row * PITCH_A + step % 32 * 256, 256, 0)
            yield Request(False, B + (step % 32 * 128 + row) * PITCH_B + step // 32 * 1024, 1024, 1)
            done += 1280
            if step % 4 == 3:
                yield Request(True, C + step // 4 * 1024 % PITCH_B + row * PITCH_B, 1024, 2)
                done += 1024
        step += 1


TRACES: dict[str, Callable[[int], Requests]] = {
    "seq_read": lambda total: _sequential(total, False),
    "seq_write": lambda total: _sequential(total, True),
    **{f"triad_{chunk}": functools.partial(_triad, chunk=chunk) for chunk in (64, 512, 4096)},
    "rwmix_seq": _mixed,
    **{f"stride_{1 << bit}": functools.partial(_stride, stride=1 << bit) for bit in range(7, 22)},
    **{f"rand_{size}": functools.partial(_random, size=size) for size in (64, 256, 512, 1024)},
    **{f"rand_{size}_rw": functools.partial(_random, size=size, writes=True) for size in (64, 512)},
    "gather_2048": functools.partial(_random, size=2048),
    **{f"dma16_{chunk}_rand": functools.partial(_dma, chunk=chunk, aligned=False) for chunk in (64, 512, 2048)},
    **{f"dma16_{chunk}_pow2": functools.partial(_dma, chunk=chunk, aligned=True) for chunk in (64, 512, 2048)},
    **{f"dma16_{chunk}_rw": functools.partial(_dma, chunk=chunk, aligned=False, writers=5) for chunk in (512, 2048)},
    "gemm_tile": _gemm,
    "gemm_tile_rw": _gemm_interleaved,
}
"""Name of each trace, and its requests for a number of bytes."""


@functools.lru_cache(maxsize=64)
def lines(name: str, total: int = DEFAULT_BYTES) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Byte address of each 64 B line of a trace, and 1 where it is written."""
    addresses, writes = [], []
    for request in lookup("trace", TRACES, name)(total):
        count = request.size // LINE_BYTES
        addresses.append(request.address + LINE_BYTES * np.arange(count, dtype=np.int64))
        writes.append(np.full(count, request.write, np.int64))
    return np.concatenate(addresses), np.concatenate(writes)


class Peer(NamedTuple):
    """One published or measured figure of another controller on one of the traces."""

    name: str
    standard: str
    trace: str
    queue: int
    utilisation: float


@functools.cache
def peers() -> list[Peer]:
    """Every peer row at saturation that refreshes (a bus that never refreshes is not a peer)."""
    with PEERS.open() as file:
        return [
            Peer(row["peer"], row["standard"], row["trace"], int(row["queue"]), float(row["utilisation"]))
            for row in csv.DictReader(file)
            if float(row["load"]) == 1.0 and row["refresh"].lower() not in ("none", "norefresh")
        ]


def best_peer(trace: str, standard: str | None = None, queue: int | None = None) -> Peer | None:
    """The best of a standard (any by default) with at most ``queue`` entries (any by default)."""
    fitting = [
        peer
        for peer in peers()
        if peer.trace == trace and standard in (None, peer.standard) and (queue is None or peer.queue <= queue)
    ]
    return max(fitting, key=lambda peer: peer.utilisation, default=None)
