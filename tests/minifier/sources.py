"""A script with a model of the usual size, and a stand-in for torch to run it without."""

from __future__ import annotations

import builtins
from types import SimpleNamespace
from typing import Any

MODEL = '''
"""A small language model, as people write them."""

from __future__ import annotations

import argparse
import math
import os
from dataclasses import dataclass, field
from typing import Any, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F

LOG_EVERY = 50
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass
class Config:
    """Sizes of the model."""

    vocab_size: int = 1000
    block_size: int = 64
    n_layer: int = 4
    n_head: int = 4
    n_embd: int = 128
    dropout: float = 0.1
    bias: bool = True
    tie_weights: bool = True
    extra: list = field(default_factory=list)

    def validate(self) -> None:
        """Raise where sizes don't fit."""
        if self.n_embd % self.n_head != 0:
            raise ValueError(f"n_embd {self.n_embd} is not a multiple of n_head {self.n_head}")
        if self.dropout < 0 or self.dropout > 1:
            raise ValueError("dropout must be a probability")

    def describe(self) -> str:
        parts = []
        for name in ("vocab_size", "block_size", "n_layer", "n_head", "n_embd"):
            parts.append(f"{name}={getattr(self, name)}")
        return ", ".join(parts)


def gelu(x):
    """The tanh form."""
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + torch.tanh(inner))


class LayerNorm(nn.Module):
    """With an optional bias."""

    def __init__(self, ndim: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight, self.bias, 1e-5)


class SelfAttention(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.attn_dropout = nn.Dropout(config.dropout)
        self.resid_dropout = nn.Dropout(config.dropout)
        self.n_head = config.n_head
        self.n_embd = config.n_embd

    def forward(self, x, mask=None):
        B, T, C = 2, 16, self.n_embd
        qkv = self.c_attn(x)
        q = qkv[:, :, :C]
        k = qkv[:, :, C : 2 * C]
        v = qkv[:, :, 2 * C :]
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(C // self.n_head))
        if mask is not None:
            att = att.masked_fill(mask == 0, float("-inf"))
        att = F.softmax(att, dim=-1)
        att = self.attn_dropout(att)
        y = att @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


class MLP(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.c_fc = nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x):
        x = self.c_fc(x)
        x = gelu(x)
        x = self.c_proj(x)
        return self.dropout(x)


class Router(nn.Module):
    """Chooses between two ways, and keeps statistics."""

    def __init__(self, config: Config, threshold: float = 0.5) -> None:
        super().__init__()
        self.gate = nn.Linear(config.n_embd, 2, bias=False)
        self.threshold = threshold
        self.calls = 0
        self.history = []

    def forward(self, x, scale=1.0):
        self.calls += 1
        scores = self.gate(x) * scale
        weights = F.softmax(scores, dim=-1)
        for step in range(2):
            with torch.no_grad():
                try:
                    count = torch.unsupported_count(weights, step, threshold=self.threshold)
                    self.history.append(count)
                except KeyError:
                    self.history.append(None)
        return x * weights[..., :1] + x * weights[..., 1:]


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, bias=config.bias)
        self.attn = SelfAttention(config)
        self.ln_2 = LayerNorm(config.n_embd, bias=config.bias)
        self.router = Router(config, threshold=0.25)
        self.mlp = MLP(config)

    def forward(self, x, mask=None):
        h = self.ln_1(x)
        h = self.attn(h, mask=mask)
        x = x + h
        routed = self.router(self.ln_2(x), scale=0.5)
        out = self.mlp(routed)
        return x + out


class GPT(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        config.validate()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Embedding(config.block_size, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = [Block(config) for _ in range(config.n_layer)]
        self.ln_f = LayerNorm(config.n_embd, bias=config.bias)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        if config.tie_weights:
            self.wte.weight = self.lm_head.weight

    def count_parameters(self, without_embedding: bool = True) -> int:
        """How many numbers are learnt."""
        total = 0
        for p in self.parameters():
            total += p.numel()
        if without_embedding:
            total -= self.wpe.weight.numel()
        return total

    def forward(self, idx, targets: Optional[Any] = None):
        pos = torch.arange(0, 16, dtype=torch.long)
        tok = self.wte(idx)
        emb = tok + self.wpe(pos)
        x = self.drop(emb)
        for block in self.blocks:
            x = block(x)
        x = self.ln_f(x)
        logits = self.lm_head(x)
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, 1000), targets.view(-1))
        else:
            loss = None
        return logits, loss


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a model.")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--dtype", choices=sorted(DTYPES), default="float32")
    parser.add_argument("--out", default=os.path.join("out", "model"))
    return parser.parse_args([])


def main() -> None:
    args = parse()
    torch.manual_seed(1337)
    config = Config(n_layer=2)
    model = GPT(config)
    compiled = torch.compile(model, fullgraph=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95))
    for step in range(args.steps):
        idx = torch.randint(0, 1000, (2, 16))
        logits, loss = compiled(idx, idx)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % LOG_EVERY == 0:
            print(f"step {step}: loss {loss}, lr {3e-4:.2e}")


if __name__ == "__main__":
    main()
'''


class Unsupported(Exception):
    """What the stand-in raises."""


class _Anything:
    """A value that takes part in every expression."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *exception: object) -> None: ...

    def __getitem__(self, key: Any) -> Any:
        return self

    def _with(self, other: Any) -> Any:
        return self

    __add__ = __radd__ = __mul__ = __rmul__ = __sub__ = __rsub__ = __matmul__ = __rmatmul__ = __truediv__ = _with


class _Module:
    forward: Any

    def __init__(self) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def parameters(self) -> list[Any]:
        return []


def _unsupported_count(*args: Any, **kwargs: Any) -> None:
    raise Unsupported


class _Torch(_Anything):
    """Fails in `unsupported_count` while something compiled runs."""

    def __init__(self) -> None:
        self.inside = 0
        self.nn = _NN()

    def compile(self, model: Any, **options: Any) -> Any:
        def run(*args: Any, **kwargs: Any) -> Any:
            self.inside += 1
            try:
                return model(*args, **kwargs)
            finally:
                self.inside -= 1

        return run

    def unsupported_count(self, *args: Any, **kwargs: Any) -> Any:
        if self.inside:
            raise Unsupported
        return _Anything()


class _NN(_Anything):
    Module = _Module
    functional = _Anything()


def outcome_of(text: str) -> type[BaseException] | None:
    """What a script raises when it runs with the stand-in for torch."""
    torch = _Torch()
    stand_ins = {"torch": torch, "torch.nn": torch.nn, "torch.nn.functional": torch.nn.functional}

    def load(name: str, *args: Any, **kwargs: Any) -> Any:
        if name in stand_ins:
            return stand_ins[name] if args[2:3] and args[2] else torch
        return __import__(name, *args, **kwargs)

    names = vars(builtins) | {"__import__": load, "print": lambda *args, **kwargs: None}
    module = SimpleNamespace(__name__="__main__", __builtins__=names)
    try:
        exec(compile(text, "<script>", "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as e:  # noqa: BLE001  # whatever a candidate does is its outcome
        return type(e)
    return None
