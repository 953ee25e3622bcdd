"""The sanitizer, and faults that are planted for it."""
