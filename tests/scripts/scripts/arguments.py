"""A script whose options have the names of ours.

run: arguments.py --json --graph 0/0 --engine v8 --full -o out
first: the script got all of its options, and so do the commands that come next
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | dynamo-debug graphs arguments.py --json --graph 0/0 --engine v8 --full -o out
report: compiled
"""

import argparse

import torch

parser = argparse.ArgumentParser()
for name in ("--json", "--full"):
    parser.add_argument(name, action="store_true")
for name in ("--graph", "--engine", "--stage", "--code"):
    parser.add_argument(name)
parser.add_argument("-o")
print(sorted(vars(parser.parse_args()).items()))
print(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item())
