"""A DataLoader with two workers that compile a transform, and a model compiled in the main process.

first: the model's graph, and the transform's in each worker
says: (in 2 child processes) | Linear.forward | transform
report: compiled, children=2
"""

import torch
from torch.utils.data import DataLoader, Dataset


@torch.compile(backend="eager")
def transform(x):
    return (x - 1) / 2


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return transform(torch.tensor([float(i)]))


if __name__ == "__main__":
    model = torch.compile(torch.nn.Linear(1, 1), backend="eager")
    with torch.no_grad():
        model.weight.fill_(2.0)
        model.bias.fill_(1.0)
        for batch in DataLoader(Numbers(), batch_size=4, num_workers=2):
            print(model(batch).flatten().tolist())
