"""Measurements side by side with the compiler inside torch."""
