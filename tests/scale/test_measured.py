import json
from pathlib import Path

import pytest

from scale.measured import FIGURES, load, parse_assumptions
from sdk.bench import BENCHES, digests
from spec.hbm_controller import HbmControllerConfig
from spec.parameters import ParameterError
from spec.results import Record, write
from verif.bench import link
from verif.hbm.traces import TRACES
from verif.link.curves import peers

ALL = {"hbm": 0.9, "link": 0.8, "hop_cycles": 3.0}


def _stored(name: str, value: float | str) -> float | str:
    """A value in the unit the bench writes."""
    return value if isinstance(value, str) else value / FIGURES[name].scale


def _bench(build: Path, **values: float | str) -> None:
    """Write the files the benches write, with the figures named."""
    for bench in {FIGURES[name].bench for name in values}:
        records = [
            Record(FIGURES[name].block, FIGURES[name].figure, _stored(name, value))
            for name, value in values.items()
            if FIGURES[name].bench == bench
        ]
        write("bench", bench, records, parameters={"config": "0123abcd"}, build=build)


def test_measured_figures_carry_the_digest_of_what_was_measured(tmp_path: Path) -> None:
    _bench(tmp_path, **ALL)
    values = load({}, tmp_path)
    assert {name: values[name].value for name in ALL} == pytest.approx(ALL)
    assert "0123abcd" in values["hbm"].source
    assert values["step_ns"].source.startswith("published")
    assert "watts" not in values


def test_an_assumption_replaces_a_measurement_and_says_so(tmp_path: Path) -> None:
    _bench(tmp_path, **ALL)
    value = load({"hbm": 0.5}, tmp_path)["hbm"]
    assert (value.value, value.source) == (0.5, "assumed")


def test_a_missing_bench_is_refused_with_its_command(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"hbm\.json: not there; run `systola bench --block hbm`, or state it"):
        load({}, tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"records": 3, "parameters": {}}', '{"records": [{}]}', "null"])
def test_a_broken_bench_is_refused_with_its_command(tmp_path: Path, text: str) -> None:
    _bench(tmp_path, **ALL)
    (tmp_path / "bench" / "hbm.json").write_text(text)
    with pytest.raises(ParameterError, match=r"hbm\.json: not a results file .*run `systola bench --block hbm`") as one:
        load({}, tmp_path)
    assert "\n" not in str(one.value)


def test_a_bench_without_the_figure_is_refused(tmp_path: Path) -> None:
    _bench(tmp_path, **ALL)
    path = tmp_path / "bench" / "link.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"records": []}))
    with pytest.raises(ParameterError, match=r"holds no '4x4 uniform, 4 channels.* of link.router; run"):
        load({}, tmp_path)


@pytest.mark.parametrize("value", [0.0, 1.01, -1.0, "n/a"])
def test_an_impossible_measurement_is_refused(tmp_path: Path, value: float | str) -> None:
    _bench(tmp_path, **ALL | {"link": value})
    with pytest.raises(ParameterError, match=r"legal is 0\.01 to 1 of peak"):
        load({}, tmp_path)


def test_assumptions_are_read() -> None:
    assert parse_assumptions("hbm=0.95,watts=500") == {"hbm": 0.95, "watts": 500.0}
    assert parse_assumptions("") == {}


@pytest.mark.parametrize("text", ["speed=1", "hbm", "hbm=fast", "hbm=2", "hbm=nan", "link=0"])
def test_an_impossible_assumption_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="legal is"):
        parse_assumptions(text)


def test_the_figures_are_those_the_benches_write() -> None:
    """Names are shared by text only, because rooms do not import each other: this holds them together."""
    assert FIGURES["hbm"].figure.split(":")[0] in TRACES
    for name in ("hbm", "link"):
        assert FIGURES[name].bench in BENCHES
    assert digests("hbm") == {"CONFIG": HbmControllerConfig().digest()}
    assert FIGURES["hop_cycles"].figure in Path(link.__file__).read_text()
    assert FIGURES["link"].figure in {f"{peer.name}: accepted at full load" for peer in peers()}
