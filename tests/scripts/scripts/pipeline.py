"""A pipeline of generators: reading, augmenting with compiled code, batching, and a model at its end.

first: what is compiled is what the generators call
says: augment | score
report: compiled
"""

import itertools

import torch


def read(count):
    for n in range(count):
        yield torch.arange(float(n), n + 4)


@torch.compile(backend="eager")
def augment(x):
    def views():
        yield x
        yield x.flip(0)
        yield -x

    return torch.stack(list(views()))


def batched(items, size):
    items = iter(items)
    while batch := list(itertools.islice(items, size)):
        yield torch.cat(batch)


@torch.compile(backend="eager", dynamic=True)
def score(batch):
    return batch.softmax(-1).max(-1).values.mean()


for batch in batched((augment(x) for x in read(5)), 2):
    print(tuple(batch.shape), f"{score(batch).item():.4f}")
