"""Rewrites of the ATen graph before lowering: rows of (pattern, function)."""
