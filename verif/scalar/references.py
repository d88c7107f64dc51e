"""The scalar engine's functions in float64, written independently of their polynomials.

Relative error below 2**-45 wherever the fp32 result is normal, so that errors measured against them are errors of the
polynomials. ``tests/scalar`` checks that bound against mpmath.
"""

from collections.abc import Callable

import mpmath
import numpy as np
import numpy.typing as npt
from scipy import special

from spec.functions import function_named

Array = npt.NDArray[np.float64]

SQRT_HALF = np.sqrt(0.5)
DENSITY = 1 / np.sqrt(2 * np.pi)
GELU_SLOPE = np.sqrt(2 / np.pi)
ROOT_TERMS = 18
ROOT_RADIUS = 0.06


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x < 0, small, 1.0) / (1 + small)


def _gelu_tanh(x: Array) -> Array:
    return x * _sigmoid(2 * GELU_SLOPE * (x + 0.044715 * x * x * x))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _mish(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    up = (1 + 2 * small) / (1 + 2 * small + 2 * small * small)  # x >= 0, numerator and denominator times small**2
    down = small * (small + 2) / (small * (small + 2) + 2)
    return x * np.where(x < 0, down, up)


def _gelu_dx(x: Array) -> Array:
    return _with_root("gelu_dx", x, special.erfc(-x * SQRT_HALF) / 2 + x * DENSITY * np.exp(-x * x / 2))


def _silu_dx(x: Array) -> Array:
    return _with_root("silu_dx", x, _sigmoid(x) * (1 + x * _sigmoid(-x)))


REFERENCES: dict[str, Callable[[Array], Array]] = {
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "gelu": lambda x: x * special.erfc(-x * SQRT_HALF) / 2,
    "gelu_apprx_tanh": _gelu_tanh,
    "silu": lambda x: x * _sigmoid(x),
    "softplus": _softplus,
    "mish": _mish,
    "erf": special.erf,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sin": np.sin,
    "arctan": np.arctan,
    "gelu_dx": _gelu_dx,
    "silu_dx": _silu_dx,
    "erf_dx": lambda x: 2 / np.sqrt(np.pi) * np.exp(-x * x),
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "relu": lambda x: np.where(x > 0, x, 0 * np.abs(x)),
    "abs": np.abs,
    "sign": np.sign,
}


def reference(name: str, x: npt.ArrayLike) -> Array:
    """``name`` of ``x`` in float64. Infinities are the caller's business."""
    with np.errstate(all="ignore"):
        return REFERENCES[name](np.asarray(x, np.float64))


def exact(name: str, x: float) -> mpmath.mpf:
    """``name`` of one number by its formula, to mpmath's working precision."""
    return formula(function_named(name).formula)(mpmath.mpf(float(x)))


def formula(text: str) -> Callable[[mpmath.mpf], mpmath.mpf]:
    """A formula of ``spec/functions.py`` as a function."""
    names = {name: getattr(mpmath, name) for name in ("exp", "log", "log1p", "tanh", "erf", "erfc", "sqrt", "sin")}
    names |= {"atan": mpmath.atan, "pi": mpmath.pi, "mpf": mpmath.mpf, "findroot": mpmath.findroot}
    code = compile(text, text, "eval")
    return lambda x: eval(code, {"__builtins__": {}}, {**names, "x": x})


def root_of(name: str) -> mpmath.mpf | None:
    """The root of a function away from 0."""
    entry = function_named(name)
    if not entry.root:
        return None
    names = {"pi": mpmath.pi, "mpf": mpmath.mpf, "findroot": mpmath.findroot, "f": formula(entry.formula)}
    return +mpmath.mpf(eval(entry.root, {"__builtins__": {}}, names))


_SERIES: dict[str, tuple[float, float, list[float]]] = {}


def _with_root(name: str, x: Array, value: Array) -> Array:
    """``value``, but near the function's root, where its closed form cancels, the Taylor series there."""
    if name not in _SERIES:
        with mpmath.workdps(60):
            root = root_of(name)
            assert root is not None
            terms = mpmath.taylor(formula(function_named(name).formula), root, ROOT_TERMS)
            high = float(root)
            _SERIES[name] = high, float(root - high), [0.0, *map(float, terms[1:])]
    high, low, terms = _SERIES[name]
    distance = (x - high) - low
    near = np.abs(distance) < ROOT_RADIUS
    if near.any():
        value = np.where(near, 0, value)
        value[near] = np.polynomial.polynomial.polyval(distance[near], terms)
    return value


def ulp_error(result: npt.NDArray[np.float32], truth: Array) -> Array:
    """Distance in units of the last place that fp32 has at the truth; 0 where both are the same infinity or NaN."""
    with np.errstate(all="ignore"):
        _, exponent = np.frexp(truth)
        spacing = np.ldexp(1.0, np.maximum(exponent - 24, -149))
        error = np.abs(result.astype(np.float64) - truth) / spacing
        overflow = np.abs(truth) >= 2.0**128 - 2.0**103  # what rounds to infinity
        error = np.where(overflow & (result == np.copysign(np.inf, truth)), 0.0, error)
        return np.where(np.isnan(truth) & np.isnan(result), 0.0, error)
