"""A program whose root logger writes everything to stdout: nothing of a compiler's own log gets in between.

first: one graph
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles
report: compiled, breaks=0
"""

import logging
import sys

import torch

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(name)s: %(message)s")


@torch.compile(backend="eager")
def step(x):
    return x * 2


logging.getLogger().info("start")
logging.getLogger("mine").warning("step gives %s", step(torch.ones(1)).item())
print([type(h).__name__ for h in logging.getLogger().handlers], logging.getLogger().level)
