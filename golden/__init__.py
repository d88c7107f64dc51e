"""The machine as numbers: numpy values, bit-exact, and cycle counts, exact. Knows nothing of hdl."""
