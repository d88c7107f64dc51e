"""Chips and systems of chips as gates."""
