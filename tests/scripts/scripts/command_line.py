"""A training script with options named as ours, which it needs itself.

run: command_line.py --json --full --backend eager --engine fast --fail-on-break --record out/run
first: the script got all of its options, and compiled with its own backend
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | --fail-on-break --record out/run
report: compiled, breaks=0
"""

import argparse
import json

import torch

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--json", action="store_true", help="print results as JSON")
parser.add_argument("--full", action="store_true")
parser.add_argument("--fail-on-break", action="store_true")
parser.add_argument("--backend", default="inductor")
parser.add_argument("--engine", choices=["fast", "slow"], default="slow")
parser.add_argument("--record")
options = parser.parse_args()

step = torch.compile(lambda w, g: w - 0.1 * g, backend=options.backend)
w = torch.ones(2)
for _ in range(3):
    w = step(w, 2 * w)
print(json.dumps({**vars(options), "w": [round(v, 4) for v in w.tolist()]}) if options.json else w)
