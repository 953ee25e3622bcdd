"""State of one attempt to capture a frame: the graph so far, guards, identities, effects, and the interpreted frames."""
