"""Scalar engine: functions by piecewise polynomials, activation, and their costs."""
