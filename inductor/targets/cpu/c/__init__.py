"""The C printer: one translation unit per graph, with neither torch nor C++ headers."""
