"""Names of what `minify` makes in its folder. What has one of them is replaced by it."""

from __future__ import annotations

REPRO, ISSUE, BUNDLE, TEST, MANIFEST = "repro.py", "issue.md", "repro.ddbg", "test_repro.py", "repro.json"
TRIAL, REFUSED, SOURCE, SHOWN = "trial", "not_reproducing", "source", "source-shown"
FILES = (REPRO, ISSUE, BUNDLE, TEST, MANIFEST)
MADE = (*FILES, TRIAL, REFUSED, SOURCE, SHOWN)
MARKS = (MANIFEST, "recorded-*", "ladder-*", "graph-*/journal.sqlite", f"{SOURCE}/journal.sqlite")  # globs: a run was here before
