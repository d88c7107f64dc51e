import dataclasses

import pytest

from spec.parameters import ParameterError, Parameters, parameter
from spec.tensor import TensorConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example(Parameters):
    depth: int = parameter(8, unit="entries", low=1, high=64, power_of_two=True, doc="entries")
    load: float = parameter(0.5, low=0.0, high=1.0, doc="load")
    kinds: tuple[str, ...] = parameter(("a",), choices=("a", "b"), doc="kinds")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": 0}, "Example.depth = 0 entries: legal is 1 to 64, a power of two"),
        ({"depth": -4}, "Example.depth = -4 entries: legal is 1 to 64, a power of two"),
        ({"depth": 3}, "Example.depth = 3 entries: legal is 1 to 64, a power of two"),
        ({"depth": 2.0}, "Example.depth = 2.0 entries: legal is 1 to 64, a power of two"),
        ({"depth": True}, "Example.depth = True entries: legal is 1 to 64, a power of two"),
        ({"load": 1.5}, "Example.load = 1.5: legal is 0.0 to 1.0"),
        ({"load": float("nan")}, "Example.load = nan: legal is 0.0 to 1.0"),
        ({"load": "much"}, "Example.load = 'much': legal is 0.0 to 1.0"),
        ({"kinds": ()}, "Example.kinds = (): legal is one of a, b"),
        ({"kinds": ("a", "c")}, "Example.kinds = ('a', 'c'): legal is one of a, b"),
        ({"width": 3}, "Example.width = 3: legal is a field among depth, load, kinds"),
    ],
)
def test_a_bad_value_is_refused_in_one_line(change: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError) as refused:
        Example().replace(**change)
    assert str(refused.value) == message


def test_digest_tells_values_and_classes_apart() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Other(Example):
        pass

    digests = {Example().digest(), Example(depth=16).digest(), Example(load=0.25).digest(), Other().digest()}
    assert len(digests) == 4


def test_digest_is_the_same_in_every_process() -> None:
    """A literal, because that is the promise: files written years apart agree."""
    assert Example().digest() == "62afbfb0"


def test_summary_names_what_differs_from_the_defaults() -> None:
    assert Example().summary() == ""
    assert Example(depth=16, kinds=("a", "b")).summary() == "depth=16 kinds=a+b"


def test_summary_puts_nested_parameters_in_parentheses_and_shortens_tuples() -> None:
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Outer(Parameters):
        inner: Example = Example()
        sizes: tuple[int, ...] = ()

    assert Outer(inner=Example(depth=2), sizes=tuple(range(9))).summary() == "inner=(depth=2) sizes=0+...+8"


def test_table_lists_every_field_with_its_rule() -> None:
    rows = Example.table()
    assert [row[0] for row in rows] == ["depth", "load", "kinds"]
    assert rows[0] == ("depth", 8, "entries", "1 to 64, a power of two", "entries", "design choice")


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(TensorConfig)])
def test_every_field_of_the_tensor_engine_is_documented(name: str) -> None:
    rule = next(field.metadata for field in dataclasses.fields(TensorConfig) if field.name == name)
    assert rule["doc"]
    assert rule["source"]


def test_loading_more_columns_than_there_are_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"TensorConfig.load_columns = 4: legal is 1 to columns = 2"):
        TensorConfig(rows=2, columns=2)
