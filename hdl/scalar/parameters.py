"""Constants of the function in hand, chosen once for all lanes and given to them at the right stage."""

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module, Signal

from hdl.scalar.delay import delay
from hdl.scalar.layouts import FinishControl, OutputControl, ReduceControl, TailControl
from hdl.scalar.rom import Constants, rom_of
from spec.functions import TAILS
from spec.scalar import ScalarConfig


def drive_lane_controls(m: Module, config: ScalarConfig, token: Any, lanes: Sequence[Any]) -> None:
    """Delay the token and drive each control of every lane from its own stage."""
    constants = rom_of(config.functions).constants
    prepared = config.prepare_latency
    last = prepared + config.polynomial_latency
    done = config.latency - 2
    function = token.function
    at_reduce = delay(m, function, prepared, "function_at_reduce")
    at_tail = delay(m, at_reduce, 1, "function_at_tail")
    at_root = delay(m, at_tail, 1, "function_at_root")
    at_finish = delay(m, at_root, config.polynomial_latency - 2, "function_at_finish")

    reduce = Signal(ReduceControl)
    tail = Signal(TailControl)
    root = Signal(32)
    finish = Signal(FinishControl)
    output = Signal(OutputControl)
    gauss = list(TAILS).index("gauss")
    _choose(m, at_reduce, constants, reduce, lambda entry: _reduce(entry, gauss))
    _choose(m, at_tail, constants, tail, lambda entry: {"multiplier": entry.multiplier, "offset": entry.offset})
    with m.Switch(at_root):
        for code, entry in enumerate(constants):
            if entry.root:
                with m.Case(code):
                    m.d.comb += root.eq(entry.root)
    _choose(m, at_finish, constants, finish, _finish)
    m.d.comb += finish.alpha.eq(delay(m, token.alpha, last, "alpha"))
    late = {
        name: delay(m, getattr(token, name), done, f"{name}_late", reset=name == "row")
        for name in ("row", "format", "raw", "saturate", "reset", "reduce", "read")
    }
    m.d.comb += output.valid.eq(late.pop("row"))
    m.d.comb += [getattr(output, name).eq(value) for name, value in late.items()]
    for lane in lanes:
        m.d.comb += [
            lane.reduce.eq(reduce),
            lane.tail.eq(tail),
            lane.root.as_value().eq(root),
            lane.finish.eq(finish),
            lane.outgoing.eq(output),
        ]


def _reduce(entry: Constants, gauss: int) -> dict[str, Any]:
    return {
        "reduction": entry.reduction,
        "two_sided": entry.two_sided,
        "first": entry.first,
        "last": entry.last,
        "level": entry.level,
        "gauss": entry.factor == gauss,
        "negative_is_nan": entry.negative_is_nan,
        "limit": entry.limit,
    }


def _finish(entry: Constants) -> dict[str, Any]:
    return {
        "odd": entry.odd,
        "factor": entry.factor,
        "at_infinity": entry.at_infinity,
        "at_zero": entry.at_zero,
    }


def _choose(m: Module, code: Any, constants: Sequence[Constants], target: Any, fields: Any) -> None:
    """Assign the fields of the function that ``code`` names."""
    with m.Switch(code):
        for index, entry in enumerate(constants):
            with m.Case(index):
                for name, value in fields(entry).items():
                    field = target[name]
                    if isinstance(value, tuple):
                        for position, element in enumerate(value):
                            part = field[position]
                            m.d.comb += (part.as_value() if hasattr(part, "as_value") else part).eq(element)
                    else:
                        m.d.comb += field.eq(value)
