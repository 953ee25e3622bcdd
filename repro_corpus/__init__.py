"""Example scripts and failing programs with their expected verdicts."""
