"""Whole networks, composed of layers by name."""
