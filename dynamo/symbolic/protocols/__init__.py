"""CPython's algorithms over values: attributes, calls, operators, iteration, hashing, and real objects into values and back."""
