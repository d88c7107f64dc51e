"""Proof that gates and numbers agree: cocotb benches, formal properties, coverage, mutation."""
