"""A module of a package, started with `-m`, whose options have the names of ours.

run: -m package.train --json --full --backend gloo
first: one graph, of package/model.py
says: -m package.train finished | compiled whole: 1 function, 1 graph, no breaks, no recompiles | model.py:4
report: compiled, breaks=0, frame=step
"""

import argparse
import sys

import torch

from .model import fast

parser = argparse.ArgumentParser()
parser.add_argument("--json", action="store_true")
parser.add_argument("--full", action="store_true")
parser.add_argument("--backend", default="nccl")
given = parser.parse_args()
print(given.json, given.full, given.backend, sys.argv[0].endswith("train.py"), __name__, __package__, __spec__.name)
print(fast(torch.zeros(2)).tolist())
