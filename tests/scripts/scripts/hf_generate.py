"""Text generation with a GPT-2 of transformers, its model compiled by one line.

first: the growing cache makes it compile for every token
says: GPT2LMHeadModel.forward is compiled 6 times, 4 of them because past_key_values.layers[0].keys.size(2) changes | = 5, 6, 7, 8, 9
report: compiled
"""

import sys

import torch

sys.modules["torchvision"] = None  # not needed for text, and not every build of it fits every torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(vocab_size=40, n_positions=32, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=39, pad_token_id=0)
model = GPT2LMHeadModel(config).eval()
prompt = torch.tensor([[3, 1, 4, 1, 5]])
expected = model.generate(prompt, max_new_tokens=6, do_sample=False, attention_mask=torch.ones_like(prompt))
model.forward = torch.compile(model.forward, backend="aot_eager")
found = model.generate(prompt, max_new_tokens=6, do_sample=False, attention_mask=torch.ones_like(prompt))
print(found.tolist(), torch.equal(found, expected))
