"""A service that answers from several threads with one compiled model.

first: one compile, although four threads called it
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | 1 compile
report: compiled, breaks=0
"""

from concurrent.futures import ThreadPoolExecutor

import torch

torch.manual_seed(0)
model = torch.compile(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Sigmoid()), backend="eager")


@torch.no_grad()
def answer(number):
    return number, model(torch.full((1, 3), float(number))).sum().item()


answer(0)
with ThreadPoolExecutor(4) as pool:
    for number, value in pool.map(answer, range(8)):
        print(number, f"{value:.4f}")
