"""Test plans: ``verif/**/plan.toml`` lists what must be verified, and what verifies it.

A plan names its block and its features::

    block = "fifo"

    [[feature]]
    name = "order"
    text = "payloads leave in the order in which they came"
    tests = ["verif/fifo.py::check", "tests/verif/test_formal.py::test_every_proof_holds"]
    cover = ["stall: half"]

A plan of several blocks names the block in each feature instead. A test is ``file::function``. ``cover`` names bins of
the bench's cover group. A feature without a test, a test that does not exist and a bin that was never declared are
errors; that the tests pass is what running them shows.
"""

import ast
import dataclasses
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

from hdl.catalog import BLOCKS
from verif.harness.bench import Bench


@dataclasses.dataclass(frozen=True)
class Feature:
    """One line of a plan."""

    block: str
    name: str
    text: str
    tests: tuple[str, ...]
    cover: tuple[str, ...] = ()


def read_plan(path: Path) -> list[Feature]:
    """The features of one plan; an unknown key is refused with the file's name."""
    content = tomllib.loads(path.read_text())
    features = []
    for entry in content.get("feature", []):
        try:
            tests, cover = tuple(entry.pop("tests")), tuple(entry.pop("cover", ()))
            block = entry.pop("block", None) or content["block"]
            features.append(Feature(block=block, tests=tests, cover=cover, **entry))
        except (KeyError, TypeError) as error:
            raise ValueError(f"{path}: feature {entry.get('name', '?')}: {error}") from None
    return features


def read_plans(root: Path) -> list[Feature]:
    """The features of every plan below ``root/verif``."""
    return [feature for path in sorted((root / "verif").rglob("plan.toml")) for feature in read_plan(path)]


def problems(features: Iterable[Feature], benches: Sequence[Bench], root: Path) -> list[str]:
    """What is wrong with a plan, one line each; none if every feature is verified by something that exists."""
    covers = {bench.name: bench.cover for bench in benches}
    found = []
    for feature in features:
        label = f"{feature.block}, {feature.name}"
        if not feature.tests:
            found.append(f"{label}: no test")
        found += [f"{label}: {test} does not exist" for test in feature.tests if not _exists(test, root)]
        group = covers.get(feature.block)
        for entry in feature.cover:
            if group is None or f"{group.name}.{entry}" not in group.declared:
                found.append(f"{label}: cover bin {entry!r} is not declared")
    return found


def unplanned(features: Iterable[Feature], benches: Sequence[Bench]) -> list[str]:
    """Benches of catalogued blocks that no plan mentions; benches of applications need none."""
    planned = {feature.block for feature in features}
    return [bench.name for bench in benches if bench.name in BLOCKS and bench.name not in planned]


def _exists(test: str, root: Path) -> bool:
    name, _, function = test.partition("::")
    path = root / name
    if not function or not path.is_file():
        return False
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return any(isinstance(node, kinds) and node.name == function for node in ast.parse(path.read_text()).body)
