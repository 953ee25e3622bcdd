"""A command line with sub-commands, and a second one that is wrong: argparse ends the script.

exit: 2
first: it ended with 2; what was compiled until then
says: ended itself with exit code 2 at sub_commands.py:24 | 1 function
report: compiled
"""

import argparse

import torch


@torch.compile(backend="eager")
def f(x):
    return x * 2 + 1


parser = argparse.ArgumentParser()
commands = parser.add_subparsers(dest="command", required=True)
commands.add_parser("train").add_argument("--steps", type=int, default=1)
for step in range(parser.parse_args(["train", "--steps", "2"]).steps):
    print(step, f(torch.ones(1)).item(), parser.prog, flush=True)
parser.parse_args(["nonsense"])
