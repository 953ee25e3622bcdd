"""ATen graph in, fast callable out."""
