"""Systems of chips in numpy."""
