"""Torch's own compiler: its names served by ours, and itself watched. The only package that may import it."""
