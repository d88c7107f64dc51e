"""Properties of blocks, and the registry of proofs that ``make formal`` runs."""
