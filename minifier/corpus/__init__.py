"""The corpus of planted faults: manifests, their scripts, and what `minify` makes of them. `scripts` runs scripts, and loads torch."""

from __future__ import annotations

from minifier.corpus.manifest import Case, Expected, ManifestError, load, load_all
from minifier.corpus.running import Verdict, run_case, run_cases

__all__ = ["Case", "Expected", "ManifestError", "Verdict", "load", "load_all", "run_case", "run_cases"]
