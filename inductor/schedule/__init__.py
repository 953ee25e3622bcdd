"""Dependences, fusion, ordering and memory: from nests to kernels."""
