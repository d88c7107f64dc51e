"""Systems of chips against golden."""
