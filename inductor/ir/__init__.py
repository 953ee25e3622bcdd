"""The loop IR: index expressions, expressions, nests; text form, verifier and reference interpreter."""
