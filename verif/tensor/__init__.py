"""Benches of the tensor engine, and the driver they share."""
