"""What needs an NVIDIA GPU: `make test-gpu`, or `bash tests/gpu/visit.sh OUT` on a machine lent for minutes."""
