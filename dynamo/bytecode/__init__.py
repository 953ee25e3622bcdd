"""Code objects as data: decode, analyse, assemble. Standard library only; no other package of ours is imported."""
