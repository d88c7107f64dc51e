"""NeuronLink: router, link layer, torus and switch."""
