"""A script that starts itself again with other settings, as launchers do.

first: what was compiled after it began anew
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles (in 1 child process) | ✓ double begins_anew.py:16
report: compiled, children=1
every run
"""

import os
import sys


def main():
    import torch

    @torch.compile(backend="eager")
    def double(x):
        return x * 2

    print("again", double(torch.ones(2)).tolist())


if os.environ.get("SETTING") != "on":
    os.environ["SETTING"] = "on"
    print("first", flush=True)
    os.execv(sys.executable, sys.orig_argv)
main()
