"""An argument that the script's own parser refuses.

run: usage_error.py --epochs many
exit: 2
first: the script ended before anything was compiled, at its own parser
says: the script ended itself with exit code 2 at usage_error.py:17; nothing was compiled
report: nothing
every run
"""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
options = parser.parse_args()
print(torch.compile(lambda x: x + 1)(torch.ones(options.epochs)))
