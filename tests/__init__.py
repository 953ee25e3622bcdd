"""Tests mirror the packages. Every directory is a package, so that test files may share a name."""
