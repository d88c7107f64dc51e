"""Columns of the tensor engine, gathered from rows: which lane's byte is whose scale, which bits are whose tag."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream
from amaranth.sim import Simulator

from hdl.core.columns import gather_moving, gather_stationary
from hdl.core.layouts import row_layout
from hdl.tensor.layouts import column_layout, group_layout
from verif.core.bench import MARKED

CONFIG = MARKED.replace(
    tensor=MARKED.tensor.replace(rows=16, columns=16, load_columns=2),
    vector=MARKED.vector.replace(lanes=16),
    scalar=MARKED.scalar.replace(lanes=16),
)
TENSOR = CONFIG.tensor
RNG = np.random.default_rng(8)


def of(shape: Any) -> Any:
    return stream.Signature(shape).create()


def reader() -> Any:
    return SimpleNamespace(rows=of(data.StructLayout({"row": row_layout(CONFIG), "last": 1})))


async def offer(ctx: Any, reader_: Any, row: list[int], last: int = 1) -> None:
    ctx.set(reader_.rows.payload, {"row": row, "last": last})
    ctx.set(reader_.rows.valid, 1)


def words() -> list[int]:
    return [int(word) for word in RNG.integers(0, 1 << 32, CONFIG.partitions)]


def test_each_lane_of_eight_gives_a_moving_column_its_scale() -> None:
    m = Module()
    engine: Any = SimpleNamespace(moving=of(column_layout(TENSOR)))
    shapes: Any = SimpleNamespace(o=of(TENSOR.planes + 1))
    planes, beside = [reader() for _ in range(TENSOR.planes)], reader()
    gather_moving(m, TENSOR, engine, planes, beside, shapes)

    async def bench(ctx: Any) -> None:
        elements, scales = words(), words()
        ctx.set(shapes.o.payload, 1 | 1 << TENSOR.planes)
        ctx.set(shapes.o.valid, 1)
        await offer(ctx, planes[0], elements)
        assert not ctx.get(engine.moving.valid)
        await offer(ctx, beside, scales)
        assert ctx.get(engine.moving.valid)
        found = ctx.get(engine.moving.payload)
        assert list(found.scales) == [scales[0] & 0xFF, scales[8] & 0xFF]
        assert list(found.elements) == elements + [0] * (TENSOR.planes - 1) * TENSOR.rows

    run(m, bench)


def test_a_stationary_gets_scales_of_each_lane_of_eight_and_tags_of_every_lane() -> None:
    m = Module()
    engine: Any = SimpleNamespace(stationary=of(group_layout(TENSOR)))
    kinds: Any = SimpleNamespace(o=of(2))
    loads, beside = [reader() for _ in range(TENSOR.load_columns)], reader()
    gather_stationary(m, TENSOR, engine, loads, beside, kinds)

    async def bench(ctx: Any) -> None:
        columns, marks = [words() for _ in range(2)], [words() for _ in range(2)]
        ctx.set(kinds.o.payload, 0b10)
        ctx.set(engine.stationary.ready, 1)
        for number in range(2):
            await offer(ctx, loads[0], columns[number], number)
            assert not ctx.get(loads[0].rows.ready)
            await offer(ctx, beside, marks[number])
            assert ctx.get(loads[0].rows.ready)
            assert ctx.get(engine.stationary.valid) == number
            if number:
                break
            await ctx.tick()
            ctx.set(beside.rows.valid, 0)
        for found, elements, row in zip(ctx.get(engine.stationary.payload), columns, marks, strict=True):
            assert list(found.elements) == elements
            assert list(found.scales) == [row[0] & 0xFF, row[8] & 0xFF]
            assert list(found.tags) == [word & 0xF for word in row]

    run(m, bench)


def run(m: Module, bench: Any) -> None:
    m.d.sync += Signal().eq(1)  # so that there is a clock even where nothing is kept
    simulator: Any = Simulator(m)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
