"""The machine as gates: Amaranth components. Knows nothing of golden, numpy or a preset's name."""
