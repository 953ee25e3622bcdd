"""Reducing FX graphs: graphs as plain data, the edits that make them smaller, and the way from and to torch."""

from __future__ import annotations
