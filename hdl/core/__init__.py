"""The NeuronCore as hardware."""
