"""Numerics against golden: vectors of every corner class, and drivers that put millions of them through compiled models."""
