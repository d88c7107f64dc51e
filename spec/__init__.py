"""The machine as data: parameters, number formats, instruction set, topology, presets. Standard library only."""
