"""Tests of the compiler behind the ATen graph."""
