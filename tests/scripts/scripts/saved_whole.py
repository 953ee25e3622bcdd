"""A compiled module pickled as a whole: it is a compiled module again where it is loaded.

first: each module that is loaded compiles anew
says: 1 function, 3 graphs
report: compiled, breaks=0
"""

import io
import pickle

import torch
from torch import nn

torch.manual_seed(0)
model = torch.compile(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), backend="eager")
x = torch.ones(1, 3)
y = model(x)
file = io.BytesIO()
torch.save(model, file)
file.seek(0)
for loaded in (torch.load(file, weights_only=False), pickle.loads(pickle.dumps(model))):
    print(type(loaded).__name__, list(loaded.state_dict())[:1], torch.equal(loaded(x), y))
    print(isinstance(loaded, torch._dynamo.OptimizedModule), type(loaded._orig_mod).__name__)
try:
    torch.compile(torch.jit.script(nn.Linear(2, 2)), backend="eager")(torch.ones(1, 2))
except RuntimeError as e:
    print(str(e).partition(" directly")[0])
