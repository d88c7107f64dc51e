"""Values as packed words of the internal form, built without the decoder."""

import numpy as np
from numpy.typing import NDArray

from hdl.numerics.layouts import ZERO_EXPONENT, Operand
from verif.harness.packing import pack_array


def operand_fields(values: NDArray[np.float64]) -> dict[str, NDArray[np.int64]]:
    """Fields of :class:`hdl.numerics.layouts.Operand` for float64 ``values`` of at most 12 significant bits."""
    finite = np.isfinite(values) & (values != 0)
    fraction, exponent = np.frexp(np.where(finite, np.abs(values), 0.5))
    significand = np.where(finite, np.ldexp(fraction, 12), 0).astype(np.int64)
    return {
        "significand": significand,
        "exponent": np.where(finite, exponent.astype(np.int64) - 1, ZERO_EXPONENT),
        "sign": np.signbit(values).astype(np.int64),
        "infinite": np.isinf(values).astype(np.int64),
        "nan": np.isnan(values).astype(np.int64),
    }


def operand_words(values: NDArray[np.float64]) -> NDArray[np.uint32]:
    """The same as one word each."""
    words: NDArray[np.uint32] = pack_array(Operand, operand_fields(values))[:, 0]
    return words
