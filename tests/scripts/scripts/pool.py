"""A pool of processes that are spawned, each compiling the function of the file for itself.

first: what the workers compiled, though the process that was started compiles nothing
says: compiled whole
report: children=1
"""

import multiprocessing

import torch


@torch.compile(backend="eager")
def f(x):
    return x * 2 + 1


def work(size):
    return f(torch.ones(size)).sum().item()


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, [2, 2]))
