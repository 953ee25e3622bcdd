"""a forward pre-hook of a layer registered after the first call is ignored."""

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
fast = torch.compile(model)
x = torch.ones(1, 2)
fast(x)
model[0].register_forward_pre_hook(lambda m, args: (args[0] * 3,))
torch.testing.assert_close(fast(x), model(x))
