"""Benches of NeuronLink."""
