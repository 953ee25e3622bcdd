"""Reducing Python source: syntax trees as states, and the edits that make them smaller. Knows nothing of torch."""

from __future__ import annotations
