"""Proof of the scalar engine: references, generated tables, benches."""
