"""Makes failing programs small."""
