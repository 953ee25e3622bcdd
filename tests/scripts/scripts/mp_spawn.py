"""Two workers of `torch.multiprocessing.spawn`; only they compile.

first: both workers compiled, the parent did not
says: (in 2 child processes)
report: compiled, children=2
"""

import torch
import torch.multiprocessing as mp


def work(index):
    f = torch.compile(lambda x: x * index, backend="eager")
    assert f(torch.ones(2)).tolist() == [index, index]


if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
    print("joined")
