"""The physics of a dynamo; nothing of a compiler."""

FIELD = 3.0
