"""The way of a miss: from a call that fits no entry to a new entry."""
