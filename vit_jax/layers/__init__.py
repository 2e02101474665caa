"""Layers, one concept a file: pure functions, and linen modules around them.

Letters of shape suffixes: B batch, N tokens (queries), M tokens (keys), D width,
H heads, K width of one head, T the three of query, key and value, F MLP width,
V classes, Y X rows and columns, C channels, P patch side, W windows.
"""
