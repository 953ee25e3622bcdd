"""State of each kind of value: no algorithm over values, and nothing of the attempt that they belong to."""
