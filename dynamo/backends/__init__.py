"""Backends: what a captured graph is handed to."""

from __future__ import annotations

from dynamo.backends.registry import list_backends, lookup_backend, register_backend

__all__ = ["list_backends", "lookup_backend", "register_backend"]
