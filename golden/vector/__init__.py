"""Vector engine: operations, instructions and their costs."""
