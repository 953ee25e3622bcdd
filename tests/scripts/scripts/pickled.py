"""Classes and functions of the script pickled to worker processes, started both ways.

first: both workers compiled, each anew for the second size
says: double pickled.py:19 | in 2 child processes
report: children=1
"""

import multiprocessing
import pickle

import torch


class Batch:
    def __init__(self, x):
        self.x = x


@torch.compile(backend="eager")
def double(x):
    return x * 2


def work(batch):
    return double(batch.x).tolist()


if __name__ == "__main__":
    print(type(pickle.loads(pickle.dumps(Batch(1)))).__module__, pickle.loads(pickle.dumps(work)) is work)
    for method in ("spawn", "fork"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(work, [Batch(torch.ones(1)), Batch(torch.ones(3))]))
