"""Benches of the HBM controller: traces, peers, and replay of RTL beside golden."""
