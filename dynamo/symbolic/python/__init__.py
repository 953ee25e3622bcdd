"""Rows for plain Python: what its functions, types and standard library do with values."""
