"""Parameter objects: frozen dataclasses whose fields know their unit, their range and their source.

Every block is described by one subclass of :class:`Parameters`. A bad value is refused at construction, with one
line that names the field, the value and the legal range; both ends of an interface are built from the same object,
so they cannot disagree.

>>> @dataclasses.dataclass(frozen=True, kw_only=True)
... class FifoConfig(Parameters):
...     depth: int = parameter(8, unit="entries", low=1, high=1024, doc="entries stored")
>>> FifoConfig(depth=0)
Traceback (most recent call last):
    ...
spec.parameters.ParameterError: FifoConfig.depth = 0 entries: legal is 1 to 1024
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Self

DIGEST_LENGTH = 8
"""Hexadecimal digits of a parameter hash: 32 bits tell a few thousand configurations apart in a file name."""

LONG_TUPLE = 5
"""Elements of a tuple that a summary shows in full."""


class ParameterError(ValueError):
    """An illegal parameter, preset, format or block name. Its text is one line, fit to be shown to a user as it is."""


def parameter(
    default: Any = dataclasses.MISSING,
    *,
    doc: str,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: Iterable[Any] | None = None,
    power_of_two: bool = False,
    source: str = "design choice",
) -> Any:
    """Declare one field of a :class:`Parameters` class.

    ``low`` and ``high`` are inclusive. ``choices`` lists the legal values of a field that is not a range; for a
    tuple field, each element must be one of them. ``source`` names where the default comes from.
    """
    metadata = {
        "doc": doc,
        "unit": unit,
        "low": low,
        "high": high,
        "choices": None if choices is None else tuple(choices),
        "power_of_two": power_of_two,
        "source": source,
    }
    return dataclasses.field(default=default, metadata=metadata)


def refuse(owner: str, field: str, value: object, legal: str, unit: str = "") -> ParameterError:
    """The one form of every refusal: ``Owner.field = value unit: legal is …``. Returned, for the caller to raise."""
    return ParameterError(f"{owner}.{field} = {value!r}{' ' + unit if unit else ''}: legal is {legal}")


def lookup(kind: str, table: Mapping[str, Any], name: str) -> Any:
    """``table[name]``, or a one-line refusal that lists the legal names."""
    try:
        return table[name]
    except (KeyError, TypeError):
        raise ParameterError(f"{kind} {name!r}: legal is one of {', '.join(sorted(table))}") from None


def _legal(rule: Mapping[str, Any]) -> str:
    """The legal values of a field, in words; empty where every value is."""
    low, high = rule["low"], rule["high"]
    if rule["choices"] is not None:
        return "one of " + ", ".join(map(str, rule["choices"]))
    if low is None and high is None:
        return ""
    legal = f"at most {high}" if low is None else f"at least {low}" if high is None else f"{low} to {high}"
    return legal + (", a power of two" if rule["power_of_two"] else "")


def _is_legal(value: Any, rule: Mapping[str, Any]) -> bool:
    low, high = rule["low"], rule["high"]
    if rule["choices"] is not None:
        values = value if isinstance(value, tuple) else (value,)
        return bool(values) and all(element in rule["choices"] for element in values)
    if low is None and high is None:
        return True
    integral = all(bound is None or isinstance(bound, int) for bound in (low, high))
    if isinstance(value, bool) or not isinstance(value, int if integral else (int, float)):
        return False
    # Written so that a NaN, which compares false with everything, is refused.
    inside = (low is None or value >= low) and (high is None or value <= high)
    return inside and not (rule["power_of_two"] and int(value) & (int(value) - 1))


def _in_words(value: Any) -> str:
    """A value for a table: nested parameters in parentheses, of a long tuple the ends."""
    if isinstance(value, Parameters):
        return f"({value.summary()})"
    if isinstance(value, tuple):
        words = list(map(str, value))
        return "+".join(words if len(words) <= LONG_TUPLE else [words[0], "...", words[-1]])
    return str(value)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parameters:
    """Base of every parameter object: checked at construction, hashable, comparable, with a stable short digest."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if field.metadata:
                self._check_field(field.name, getattr(self, field.name), field.metadata)
        self.check()

    def check(self) -> None:
        """Refuse combinations of fields that are each legal alone. Subclasses override it."""

    def _check_field(self, name: str, value: Any, rule: Mapping[str, Any]) -> None:
        if not _is_legal(value, rule):
            raise refuse(type(self).__name__, name, value, _legal(rule), rule["unit"])

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed; unknown names are refused like bad values."""
        known = [field.name for field in dataclasses.fields(self)]
        for name, value in changes.items():
            if name not in known:
                raise refuse(type(self).__name__, name, value, "a field among " + ", ".join(known))
        return dataclasses.replace(self, **changes)

    def as_dict(self) -> dict[str, Any]:
        """Fields by name, nested parameter objects as dicts, tuples as lists: what JSON files carry."""
        return json.loads(json.dumps(dataclasses.asdict(self)))

    def digest(self) -> str:
        """Eight hexadecimal digits that identify class and values; the same on every machine and Python version.

        It stands in generated Verilog, program images and result files, so that none is used with the wrong machine.
        """
        text = json.dumps([type(self).__name__, self.as_dict()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]

    def summary(self) -> str:
        """The fields that differ from their defaults, as ``name=value``; what a table has room for."""
        shown = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                shown.append(f"{field.name}={_in_words(value)}")
        return " ".join(shown)

    @classmethod
    def table(cls) -> list[tuple[str, Any, str, str, str, str]]:
        """``(name, default, unit, legal, doc, source)`` of each field: what the docs pages print as a table."""
        rows = []
        for field in dataclasses.fields(cls):
            rule = field.metadata
            legal = _legal(rule) if rule else ""
            default = "" if field.default is dataclasses.MISSING else field.default
            rows.append((field.name, default, rule.get("unit", ""), legal, rule.get("doc", ""), rule.get("source", "")))
        return rows
