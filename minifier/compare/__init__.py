"""Comparing numbers of two runs of one program: what rounding explains, and what it does not."""
