"""Numerics against golden: vectors of every corner class, put by the million through compiled models."""
