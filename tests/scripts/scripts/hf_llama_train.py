"""A small Llama of transformers, fine-tuned for two steps.

first: the loss is part of the one graph
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles | LlamaForCausalLM.forward
report: compiled, breaks=0
"""

import sys

import torch

sys.modules["torchvision"] = None  # not needed for text, and not every build of it fits every torch
from transformers import LlamaConfig, LlamaForCausalLM

torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32
)
model = LlamaForCausalLM(config)
step = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
tokens = torch.randint(0, 32, (2, 12))
for _ in range(2):
    loss = step(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{loss.item():.3f}")
