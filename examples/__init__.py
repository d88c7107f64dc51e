"""Real programs, each readable in a few minutes; the first line of `make sim` runs one of them."""
