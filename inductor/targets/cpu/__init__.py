"""Printers of the scheduled loop IR."""
