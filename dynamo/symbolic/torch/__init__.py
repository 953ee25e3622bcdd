"""Rows for torch and NumPy: what calls become, tensors, modules, global modes, regions of a graph."""
