import torch


def table(x):
    return (x * 2).sum()


CONSTANT = table(torch.ones(3)).item()
