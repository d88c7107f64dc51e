"""Arithmetic that nobody here wrote, as functions on arrays of codes: Berkeley SoftFloat, ml_dtypes, gfloat."""

import dataclasses
from collections.abc import Callable
from typing import Any

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import softfloatpy
from numpy.typing import NDArray

from golden.numerics import canonical
from spec.formats import FLOATS

U32 = NDArray[np.uint32]

ML_DTYPES: dict[str, Any] = {
    "fp32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "fp16": np.float16,
    "fp8_e4m3": ml_dtypes.float8_e4m3,
    "fp8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
    "fp8_e3m4": ml_dtypes.float8_e3m4,
    "fp4_e2m1": ml_dtypes.float4_e2m1fn,
    "e8m0": ml_dtypes.float8_e8m0fnu,
}
"""numpy types of every format that has one; tf32 has none."""


def _gfloat(name: str) -> gfloat.FormatInfo:
    """An IEEE-like format for gfloat, which ships only the standard ones."""
    entry = FLOATS[name]
    return dataclasses.replace(
        gfloat.formats.format_info_binary16,
        name=name,
        k=entry.width,
        precision=entry.mantissa_bits + 1,
        bias=entry.bias,
        num_high_nans=(1 << entry.mantissa_bits) - 1,
    )


GFLOAT: dict[str, gfloat.FormatInfo] = {
    "fp32": gfloat.formats.format_info_binary32,
    "tf32": _gfloat("tf32"),
    "bf16": gfloat.formats.format_info_bfloat16,
    "fp16": gfloat.formats.format_info_binary16,
    "fp8_e4m3": _gfloat("fp8_e4m3"),
    "fp8_e4m3fn": gfloat.formats.format_info_ocp_e4m3,
    "fp8_e5m2": gfloat.formats.format_info_ocp_e5m2,
    "fp8_e3m4": _gfloat("fp8_e3m4"),
    "fp4_e2m1": gfloat.formats.format_info_ocp_e2m1,
}
"""Descriptions of every format with a sign, for gfloat."""


def same(actual: Any, expected: Any) -> int:
    """How many codes of fp32 differ, all NaNs taken for the same: references keep payloads, this machine does not."""
    return int(np.sum(_canonical(np.asarray(actual)) != _canonical(np.asarray(expected))))


def _canonical(codes: U32) -> U32:
    return canonical(codes.astype(np.uint32).view(np.float32)).view(np.uint32)


def softfloat(operation: Callable[..., Any], *operands: U32) -> U32:
    """``operation`` of softfloatpy on fp32 codes, element by element."""
    columns = [_objects(codes) for codes in operands]
    raw = b"".join(operation(*row).to_bytes() for row in zip(*columns, strict=True))
    return np.frombuffer(raw, ">u4").astype(np.uint32)


def softfloat_relation(operation: Callable[..., bool], a: U32, b: U32) -> NDArray[np.bool_]:
    """A comparison of softfloatpy on fp32 codes, element by element."""
    return np.array([operation(*row) for row in zip(_objects(a), _objects(b), strict=True)], bool)


def _objects(codes: U32) -> list[Any]:
    raw = codes.astype(">u4").tobytes()
    return [softfloatpy.Float32.from_bytes(raw[index : index + 4]) for index in range(0, len(raw), 4)]
