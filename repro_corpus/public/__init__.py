"""Programs written after public compiler bug reports, one module per area; `python -m repro_corpus` runs them."""
