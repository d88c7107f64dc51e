"""Efficiencies the time model needs: measured by a bench, published, or assumed by the user; never fitted.

A bench writes ``build/bench/<name>.json`` with the digest of what it measured. :func:`load` takes the figure from
there; ``assume`` replaces a figure by the user's, and each table then says so. What is missing or broken is refused in
one line that names the command which makes it.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

from spec import results
from spec.parameters import ParameterError


@dataclasses.dataclass(frozen=True)
class Value:
    """One figure and where it comes from."""

    value: float
    unit: str
    source: str


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure the model asks for: legal range, and the bench record or the published default it comes from."""

    unit: str
    low: float
    high: float
    doc: str
    bench: str = ""
    block: str = ""
    figure: str = ""
    scale: float = 1.0
    """The record's unit in units of this figure."""
    published: float | None = None
    source: str = ""


FIGURES: dict[str, Figure] = {
    "hbm": Figure(
        "of peak",
        0.01,
        1.0,
        "HBM bandwidth reached by DMA streams, refresh included",
        bench="hbm",
        block="hbm",
        figure="dma16_2048_rand: bus utilisation",
        scale=0.01,
    ),
    "link": Figure(
        "of peak",
        0.01,
        1.0,
        "NeuronLink bandwidth reached by long packets",
        bench="link",
        block="link.router",
        figure="4x4 uniform, 4 channels, 8-flit packets: accepted at full load",
    ),
    "hop_cycles": Figure(
        "cycles",
        0.0,
        1e6,
        "router and link at zero load, cycles a hop",
        bench="link",
        block="link.router",
        figure="latency of a hop at zero load, link included",
    ),
    "local_links": Figure(
        "links",
        0.25,
        64.0,
        "links of full width a chip can feed, and drain, at once",
        published=5.0,
        source="published: DMA of a chip moves 3.5 TB/s, more than all its links",
    ),
    "fabric_ghz": Figure("GHz", 0.001, 100.0, "clock of the router", published=1.0, source="design choice"),
    "step_ns": Figure(
        "ns",
        0.0,
        1e9,
        "semaphore to start of a DMA transfer, once a step of a collective",
        published=1300.0,
        source="published: aws-neuron-sdk, DMA bandwidth guide",
    ),
    "efa_us": Figure(
        "us",
        0.0,
        1e6,
        "one EFA transfer, HBM to HBM",
        published=15.0,
        source="published as at least 15 us: aws-neuron-sdk, internode-collective-comm",
    ),
    "efa": Figure("of peak", 0.01, 1.0, "EFA bandwidth reached", published=1.0, source="published as non-blocking"),
    "watts": Figure("W", 0.0, 1e6, "power of one chip with its share of the server"),
    "usd_hour": Figure("USD/h", 0.0, 1e6, "price of one chip and hour"),
}
"""What the model asks for, by the name ``--assume`` takes. Without bench and default a figure is optional."""


def parse_assumptions(text: str) -> dict[str, float]:
    """``hbm=0.95,link=0.9`` as numbers within their ranges; anything else is refused."""
    assumed: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        name, _, number = part.partition("=")
        if name not in FIGURES:
            raise ParameterError(f"assume {name!r}: legal is one of {', '.join(FIGURES)}")
        try:
            assumed[name] = float(number)
        except ValueError:
            raise ParameterError(f"assume {part!r}: legal is {name}=number") from None
        low, high, unit = FIGURES[name].low, FIGURES[name].high, FIGURES[name].unit
        if not low <= assumed[name] <= high:
            raise ParameterError(f"assume {name} = {number} {unit}: legal is {low:g} to {high:g}")
    return assumed


def load(assumed: Mapping[str, float], build: Path | None = None) -> dict[str, Value]:
    """Every figure by name: assumed, else measured, else published; optional ones that are none of these are absent."""
    values: dict[str, Value] = {}
    for name, figure in FIGURES.items():
        if name in assumed:
            values[name] = Value(assumed[name], figure.unit, "assumed")
        elif figure.bench:
            values[name] = _measured(name, figure, (build or results.BUILD) / "bench" / f"{figure.bench}.json")
        elif figure.published is not None:
            values[name] = Value(figure.published, figure.unit, figure.source)
    return values


def _measured(name: str, figure: Figure, path: Path) -> Value:
    """The figure from a bench's file, with the digests of what the bench measured."""
    remedy = f"run `systola bench --block {figure.bench}`, or state it with `--assume {name}=...`"
    try:
        content = json.loads(path.read_text())
        records = {(record["block"], record["figure"]): record["value"] for record in content["records"]}
        digests = ", ".join(f"{key} {digest}" for key, digest in content["parameters"].items())
    except FileNotFoundError:
        raise ParameterError(f"{path}: not there; {remedy}") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ParameterError(f"{path}: not a results file ({type(error).__name__}: {error}); {remedy}") from None
    if (figure.block, figure.figure) not in records:
        raise ParameterError(f"{path}: holds no {figure.figure!r} of {figure.block}; {remedy}")
    value = records[figure.block, figure.figure]
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not figure.low <= value * figure.scale <= figure.high
    ):
        legal = f"{figure.low:g} to {figure.high:g} {figure.unit}"
        raise ParameterError(f"{path}: {figure.figure!r} = {value!r}: legal is {legal}; {remedy}")
    return Value(value * figure.scale, figure.unit, f"measured: {path.name}, {digests or 'no digest'}")
