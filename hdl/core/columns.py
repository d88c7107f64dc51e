"""From rows of SBUF to the columns that the tensor engine takes, with what is beside them."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal

from hdl.core.reader import Reader
from hdl.fifo import Fifo
from spec.tensor import QUAD_ROWS, SCALE, TAG_BITS, TensorConfig


def gather_stationary(
    m: Module, config: TensorConfig, engine: Any, loads: list[Reader], beside: Reader | None, kinds: Fifo
) -> None:
    """Groups of stationary columns; what a group does not get is zero.

    ``kinds`` says of each load whether every reader brings a column of a group, and whether scales or tags come along
    with the columns of the first.
    """
    first, load = loads[0].rows, config.load_columns
    whole, marked, group, single, taken = Signal(), Signal(), Signal(), Signal(), Signal()
    count = Signal(range(load))
    now = _column(config, first.payload.row, beside.rows.payload.row if beside else None)
    columns = [Signal(len(now), name=f"column_{index}") for index in range(load - 1)]
    ends = first.payload.last | (count == load - 1)
    m.d.comb += [
        Cat(whole, marked).eq(kinds.o.payload),
        group.eq(Cat(reader.rows.valid for reader in loads).all()),
        single.eq(first.valid & (~marked | (beside.rows.valid if beside else 0))),
        taken.eq(~whole & single & (~ends | engine.stationary.ready)),
        kinds.o.ready.eq(first.valid & first.ready & first.payload.last),
        engine.stationary.valid.eq(Mux(whole, group, single & ends)),
        first.ready.eq(taken | (whole & group & engine.stationary.ready)),
        *(reader.rows.ready.eq(whole & group & engine.stationary.ready) for reader in loads[1:]),
    ]
    if beside:
        m.d.comb += beside.rows.ready.eq(taken & marked)
    for index, reader in enumerate(loads):
        kept = columns[index] if index < load - 1 else 0
        own = _column(config, reader.rows.payload.row)
        alone = Mux(count == index, now, Mux(count > index, kept, 0))
        m.d.comb += engine.stationary.payload[index].as_value().eq(Mux(whole, own, alone))
    with m.If(taken):
        m.d.sync += count.eq(Mux(ends, 0, count + 1))
        for index, column in enumerate(columns):
            with m.If(count == index):
                m.d.sync += column.eq(now)


def gather_moving(
    m: Module, config: TensorConfig, engine: Any, planes: list[Reader], beside: Reader | None, shapes: Fifo
) -> None:
    """Moving columns as they come; a plane that a matmul does not have is zero.

    ``shapes`` says of each matmul which planes it has, and whether scales come along.
    """
    used, scaled, whole = Signal(len(planes)), Signal(), Signal()
    sources = [reader.rows for reader in (*planes, *([beside] if beside else []))]
    needs = [*used, scaled][: len(sources)]
    m.d.comb += [
        Cat(used, scaled).eq(shapes.o.payload),
        whole.eq(shapes.o.valid & Cat(~need | rows.valid for need, rows in zip(needs, sources, strict=True)).all()),
        engine.moving.valid.eq(whole),
        shapes.o.ready.eq(whole & engine.moving.ready & sources[0].payload.last),
        *(rows.ready.eq(whole & need & engine.moving.ready) for need, rows in zip(needs, sources, strict=True)),
    ]
    for plane, reader in enumerate(planes):
        for lane in range(config.rows):
            element = engine.moving.payload.elements[plane * config.rows + lane]
            m.d.comb += element.eq(Mux(used[plane], reader.rows.payload.row[lane], 0))
    if beside:
        scales = Cat(_scales(config, beside.rows.payload.row))
        m.d.comb += engine.moving.payload.scales.as_value().eq(scales)


def _column(config: TensorConfig, row: Any, beside: Any = None) -> Any:
    """A row of elements as a column of the stationary; scales and tags of no row are zero."""
    parts = [element[: config.operand_bits] for element in row] + _scales(config, beside)
    if config.sparsity:
        parts += [C(0, TAG_BITS) if beside is None else beside[lane][:TAG_BITS] for lane in range(config.rows)]
    return Cat(parts)


def _scales(config: TensorConfig, beside: Any) -> list[Any]:
    """Of each block of rows, in the lane of its first."""
    lanes = range(0, config.scales * QUAD_ROWS, QUAD_ROWS)
    return [C(0, SCALE.width) if beside is None else beside[lane][: SCALE.width] for lane in lanes]
