"""The tensor engine: a weight-stationary systolic array above an accumulating memory."""

from hdl.tensor.engine import TensorEngine

__all__ = ["TensorEngine"]
