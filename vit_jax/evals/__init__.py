"""Evaluations: arrays in, figures out."""
