"""Gradients accumulated over micro-batches, clipped, and an optimizer's step every other one.

first: the forward is one graph, used for all micro-batches
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | Classifier.forward
report: compiled, breaks=0
"""

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(10, 6)
        self.lstm = nn.GRUCell(6, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, tokens):
        state = tokens.new_zeros(tokens.shape[0], 6, dtype=torch.float32)
        for column in self.embedding(tokens).unbind(1):
            state = self.lstm(column, state)
        return self.head(state)


torch.manual_seed(0)
model = Classifier()
model.compile(backend="aot_eager")
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
tokens, labels = torch.randint(0, 10, (16, 5)), torch.randint(0, 2, (16,))
for number, (x, y) in enumerate(zip(tokens.split(4), labels.split(4), strict=True), 1):
    loss = nn.functional.cross_entropy(model(x), y) / 2
    loss.backward()
    if number % 2 == 0:
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"{loss.item():.4f} {norm.item():.4f}")
