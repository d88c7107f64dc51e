"""The functions of the scalar engine as data: what each is, where it is defined, and how it is evaluated.

``verif/scalar/generate_tables.py`` turns every entry with a formula into a table of ``spec/function_tables``;
golden and hardware read the tables. Adding a function is adding one entry here and running ``make tables``.

Evaluation, the same for every tabulated function (all arithmetic fp32, one rounding per operation)::

    v, n      = reduce(x)                           # explicit and exact, see REDUCTIONS
    segment   = table[side][exponent of v][leading mantissa bits of v]
    t         = v - origin                          # exact: the origin shares the leading bits of v
    p         = ((c3 * t + c2) * t + c1) * t + lo   # Horner
    g         = base + p                            # base is hi, +-v or +-t: see BASES
    y         = g * T(z) * 2**(n + shift)           # T only in segments with an exponential tail, see TAILS

so a result carries the last rounding and little else: ``p`` is small beside ``base``.
"""

import dataclasses
import math

from spec.parameters import lookup

REDUCTIONS = {
    "none": "v = |x|, n = 0",
    "reciprocal": "v = significand in [1, 2), n = -exponent",
    "sqrt": "v = significand in [1, 4), n = floor(exponent / 2)",
    "rsqrt": "v = significand in [1, 4), n = -floor(exponent / 2)",
    "log": "v = significand in [0.75, 1.5); the exponent e adds e * ln 2 from a table (side 1), side 0 has e = 0",
}
"""How an argument becomes the variable of the polynomial: bits are moved, nothing is rounded."""

ORIGINS = ("centre", "root", "zero")
"""Where a segment's polynomial is expanded: its middle, the function's root (as fp32), or 0."""

BASES = ("hi", "v", "t", "log")
"""The large term: the constant ``hi``; ``v`` or ``t`` with the sign of ``hi``; or ``e * ln 2``, ``hi``
taking the place of ``lo``."""

TAILS = {
    "none": "T = 1",
    "exp": "T(z) = exp(rate * x), z = rate * x * log2(e) in fixed point",
    "argument": "T = v",
    "slope": "T = the instruction's alpha for negative arguments, 1 for others",
    "gauss": "T(z) = scale * exp(-rate * x * x), z = -rate * x * x * log2(e) + log2(scale) in fixed point",
}
"""The second factor. Exponential ones keep results relatively exact down to the smallest subnormal."""

TAIL_FRACTION_BITS = 31
"""Bits below the point of ``z``: the integer part is an exponent, 7 bits choose an entry of the table of ``2**f``,
24 bits are its polynomial's variable, an exact fp32."""
TAIL_INDEX_BITS = 7
TAIL_OPERAND_BITS = 38
"""Bits of ``|x|`` or ``x * x`` (truncated) and of the constant ``rate * log2(e)`` in the product that gives ``z``."""
TAIL_CONSTANT_FRACTION = TAIL_OPERAND_BITS - 1
TAIL_LIMIT = 300
"""``|z|`` of an argument beyond every representable result."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Function:
    """One function. ``formula`` is an expression of ``x`` in mpmath's names; empty for those made of bits alone.

    ``at_infinity``: values at +inf and -inf; ``at_zero``: at +0 and -0; ``negative``: the value of every negative
    argument, if it is one. Where the formula gives NaN at an infinity (``inf * 0``), the limit stands.
    """

    name: str
    formula: str = ""
    symmetry: str = "none"
    reduction: str = "none"
    tail: str = "none"
    tail_rate: float = 1.0
    tail_scale: str = "1"
    shift: int = 0
    root: str = ""
    """Formula of a root other than 0, where relative accuracy needs an expansion of its own."""
    limit: float = math.inf
    """Largest magnitude of the stated domain; beyond it the result is NaN."""
    at_infinity: tuple[float, float]
    at_zero: tuple[float, float]
    negative: float | None = None

    @property
    def tabulated(self) -> bool:
        """Whether the function needs a table."""
        return bool(self.formula)


_INF, _NAN = math.inf, math.nan
_SIGMOID = "(1 / (1 + exp(-x)))"

_FUNCTIONS = (
    Function(name="copy", symmetry="odd", at_infinity=(_INF, -_INF), at_zero=(0.0, -0.0)),
    Function(name="square", symmetry="even", tail="argument", at_infinity=(_INF, _INF), at_zero=(0.0, 0.0)),
    Function(name="relu", at_infinity=(_INF, 0.0), at_zero=(0.0, 0.0)),
    Function(name="prelu", tail="slope", at_infinity=(_INF, -_INF), at_zero=(0.0, -0.0)),
    Function(name="abs", symmetry="even", at_infinity=(_INF, _INF), at_zero=(0.0, 0.0)),
    Function(name="sign", symmetry="odd", at_infinity=(1.0, -1.0), at_zero=(0.0, 0.0)),
    Function(name="sigmoid", formula=_SIGMOID, tail="exp", at_infinity=(1.0, 0.0), at_zero=(0.5, 0.5)),
    Function(name="tanh", formula="tanh(x)", symmetry="odd", at_infinity=(1.0, -1.0), at_zero=(0.0, -0.0)),
    Function(
        name="gelu",
        formula="x * erfc(-x / sqrt(2)) / 2",
        tail="gauss",
        tail_rate=0.5,
        shift=-1,
        at_infinity=(_INF, -0.0),
        at_zero=(0.0, -0.0),
    ),
    Function(
        name="gelu_apprx_tanh",
        formula="x / (1 + exp(-2 * sqrt(2 / pi) * (x + mpf('0.044715') * x**3)))",
        tail="gauss",
        tail_rate=1.0625,
        shift=-1,
        at_infinity=(_INF, -0.0),
        at_zero=(0.0, -0.0),
    ),
    Function(
        name="silu",
        formula=f"x * {_SIGMOID}",
        tail="exp",
        shift=-1,
        at_infinity=(_INF, -0.0),
        at_zero=(0.0, -0.0),
    ),
    Function(
        name="softplus",
        formula="log1p(exp(x))",
        tail="exp",
        at_infinity=(_INF, 0.0),
        at_zero=(math.log(2), math.log(2)),
    ),
    Function(
        name="mish",
        formula="x * tanh(log1p(exp(x)))",
        tail="exp",
        shift=-1,
        at_infinity=(_INF, -0.0),
        at_zero=(0.0, -0.0),
    ),
    Function(name="erf", formula="erf(x)", symmetry="odd", at_infinity=(1.0, -1.0), at_zero=(0.0, -0.0)),
    Function(name="exp", formula="exp(x)", tail="exp", at_infinity=(_INF, 0.0), at_zero=(1.0, 1.0)),
    Function(
        name="log",
        formula="log(x)",
        reduction="log",
        root="mpf(1)",
        at_infinity=(_INF, _NAN),
        at_zero=(-_INF, -_INF),
        negative=_NAN,
    ),
    Function(
        name="sqrt",
        formula="sqrt(x)",
        reduction="sqrt",
        at_infinity=(_INF, _NAN),
        at_zero=(0.0, -0.0),
        negative=_NAN,
    ),
    Function(
        name="rsqrt",
        formula="1 / sqrt(x)",
        reduction="rsqrt",
        at_infinity=(0.0, _NAN),
        at_zero=(_INF, -_INF),
        negative=_NAN,
    ),
    Function(
        name="reciprocal",
        formula="1 / x",
        symmetry="odd",
        reduction="reciprocal",
        at_infinity=(0.0, -0.0),
        at_zero=(_INF, -_INF),
    ),
    Function(
        name="sin",
        formula="sin(x)",
        symmetry="odd",
        root="pi",
        limit=3.1415927410125732,  # the fp32 next to pi, above it
        at_infinity=(_NAN, _NAN),
        at_zero=(0.0, -0.0),
    ),
    Function(
        name="arctan",
        formula="atan(x)",
        symmetry="odd",
        at_infinity=(math.pi / 2, -math.pi / 2),
        at_zero=(0.0, -0.0),
    ),
    Function(
        name="gelu_dx",
        formula="erfc(-x / sqrt(2)) / 2 + x * exp(-x * x / 2) / sqrt(2 * pi)",
        tail="gauss",
        tail_rate=0.5,
        shift=-1,
        root="findroot(f, mpf('-0.75'))",
        at_infinity=(1.0, -0.0),
        at_zero=(0.5, 0.5),
    ),
    Function(
        name="silu_dx",
        formula=f"{_SIGMOID} * (1 + x * (1 / (1 + exp(x))))",
        tail="exp",
        shift=-2,
        root="findroot(f, mpf('-1.278'))",
        at_infinity=(1.0, -0.0),
        at_zero=(0.5, 0.5),
    ),
    Function(
        name="erf_dx",
        formula="2 / sqrt(pi) * exp(-x * x)",
        symmetry="even",
        tail="gauss",
        tail_scale="2 / sqrt(pi)",
        at_infinity=(0.0, 0.0),
        at_zero=(2 / math.sqrt(math.pi), 2 / math.sqrt(math.pi)),
    ),
)

FUNCTIONS: dict[str, Function] = {entry.name: entry for entry in _FUNCTIONS}
TABULATED: tuple[str, ...] = tuple(entry.name for entry in _FUNCTIONS if entry.tabulated)


def function_named(name: str) -> Function:
    """The function called ``name``; an unknown name is refused with the list of known ones."""
    return lookup("function", FUNCTIONS, name)
