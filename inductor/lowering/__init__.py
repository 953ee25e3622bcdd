"""ATen ops to loop IR: one file per op family, one row per op."""
