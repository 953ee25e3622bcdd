"""The recompilation profiler: what made code compile again, which edit stops that, and whether it does.

record of a run -> clusters (by cause and place) -> fixes (edits of the program) -> runs of the edited program -> report
"""
