"""What a program can have written while it runs: `tree` for folders of files, `logs` for lines on stderr."""

from dynamo.trace import logs, tree

__all__ = ["logs", "tree"]
