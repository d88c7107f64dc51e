"""The NeuronCore as numbers: values, exceptions, time."""
