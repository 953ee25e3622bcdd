"""Pools of processes, spawned and forked from a server, with an initialiser and jobs that are dataclasses of the script.

first: the workers compiled
says: in 4 child processes
report: children=2
"""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import torch


@dataclass
class Job:
    size: int


scale = 0


def begin(number):
    global scale
    scale = number


@torch.compile(backend="eager", dynamic=False)
def work(x):
    return x.sum() * 2


def run(job):
    return Job(int(work(torch.ones(job.size)).item() * scale))


if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        for size in (1, 2):
            with ProcessPoolExecutor(1, multiprocessing.get_context(method), begin, (10,)) as pool:
                print(method, pool.submit(run, Job(size)).result())
