"""Cases with a planted fault: a script that a user could have written, and a manifest of what should be found. See `docs/corpus.md`."""
