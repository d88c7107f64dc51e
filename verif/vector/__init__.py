"""Proof of the vector engine: programs and bench."""
