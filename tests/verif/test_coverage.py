"""Coverage: what was met, what was not, what need not be."""

from pathlib import Path

import pytest

from tests.verif.harness_blocks import Relay, RelayConfig
from verif.harness import counts
from verif.harness.coverage import CoverGroup, Exclusion, Point, read_dat, read_exclusions, tallies
from verif.harness.model import Model
from verif.measure import EXCLUSIONS

GROUP = CoverGroup("g", {"a": (1, 2), "b": ("x", "y")}, [("a", "b")])


def test_points_and_crosses_are_met_bin_by_bin() -> None:
    before = counts.snapshot()
    GROUP.hit(a=1, b="x")
    GROUP.hit(a=2)
    hits = counts.since(before).hits
    assert GROUP.unhit(hits) == ["g.b: y", "g.a x b: 1, y", "g.a x b: 2, x", "g.a x b: 2, y"]
    assert GROUP.unhit({}) == GROUP.declared
    assert len(GROUP.declared) == 8


@pytest.mark.parametrize(("values", "legal"), [({"a": 3}, "1, 2"), ({"c": 1}, "a, b")])
def test_an_undeclared_bin_is_refused(values: dict[str, int], legal: str) -> None:
    with pytest.raises(KeyError, match=f"legal is one of {legal}"):
        GROUP.hit(**values)


def test_a_cross_of_unknown_points_is_refused() -> None:
    with pytest.raises(KeyError, match="cross of c"):
        CoverGroup("g", {"a": (1,)}, [("a", "c")])


def test_more_stimulus_covers_more_code_and_runs_add_up(tmp_path: Path) -> None:
    paths = [tmp_path / "few.dat", tmp_path / "many.dat"]
    block = Relay(RelayConfig())
    for path, count in zip(paths, (1, 200), strict=True):
        with Model(block, coverage=path) as model:
            model.run({"i": [n * 0x123456789 for n in range(count)]}, expect={"o": count})
    exclusions = read_exclusions(EXCLUSIONS)
    few, many, both = (tallies(read_dat(some), exclusions) for some in (paths[:1], paths[1:], paths))
    toggle = (block.module_name, "toggle")
    assert few[toggle].percent < many[toggle].percent <= both[toggle].percent < 100
    assert both[block.module_name, "line"].percent == 100
    assert any("trigger" in point.comment for point in both[toggle].missed)


def test_exclusions_take_points_out_and_need_a_reason(tmp_path: Path) -> None:
    points = {Point("m__3", "line", 1, 1, "if"): 0, Point("m", "line", 2, 1, "else"): 4}
    assert tallies(points)["m", "line"].percent == 50
    assert tallies(points, [Exclusion("m", "why", kind="line", comment="^if$")])["m", "line"].percent == 100
    assert tallies(points, [Exclusion("m.*", "why", kind="branch")])["m", "line"].percent == 50
    path = tmp_path / "coverage.toml"
    path.write_text('[[exclude]]\nmodule = "m"\nreason = " "\n')
    with pytest.raises(ValueError, match="exclusion of m without a reason"):
        read_exclusions(path)
