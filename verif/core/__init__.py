"""Benches of the NeuronCore."""
