"""Scalar engine: lanes that evaluate functions, and the control that streams rows through them."""
