"""NeuronLink as numbers: the cycle-exact network, the link layer and the switch."""
