"""A repro as one file (`.ddbg`): a zip of plain files with a manifest. Opening one executes nothing."""

from __future__ import annotations

from minifier.bundle.format import Bundle, BundleError, fits, pack, read, unpack
from minifier.bundle.manifest import MANIFEST, Manifest, of_folder

__all__ = ["MANIFEST", "Bundle", "BundleError", "Manifest", "fits", "of_folder", "pack", "read", "unpack"]
