"""What capturing costs: real models, warm and in a new process, and importing the package."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

import dynamo
from tests.benchmarks.measuring import Result, in_new_process, once

RESNET = """
from torchvision.models import resnet18
model = resnet18().eval()
inputs = {"x": torch.randn(1, 3, 32, 32)}
"""
BERT = """
from transformers import BertConfig, BertModel
model = BertModel(BertConfig(hidden_size=64, num_attention_heads=4, intermediate_size=128, vocab_size=99)).eval()
inputs = {"input_ids": torch.arange(16).unsqueeze(0), "attention_mask": torch.ones(1, 16, dtype=torch.int64)}
"""
MODELS = {"resnet18": RESNET, "bert, 12 layers": BERT}
PREPARE = "from tests.models import torchvision_ops\ntorchvision_ops.declare()\n"
OURS = "import dynamo\ncompiled = dynamo.compile(model, backend='eager')\n"
PEER = "compiled = torch.compile(model, backend='eager', dynamic=False)\n"


def warm(rounds: int) -> list[Result]:
    """Compile and first call, after both compilers have compiled the model once."""
    results = []
    for name, program in MODELS.items():
        names: dict[str, Any] = {"torch": torch}
        exec(PREPARE + program, names)
        model, inputs = names["model"], names["inputs"]

        def ours(model: Any = model, inputs: Any = inputs) -> float:
            dynamo.reset()
            return _first_call(lambda: dynamo.compile(model, backend="eager"), inputs)

        def peer(model: Any = model, inputs: Any = inputs) -> float:
            torch._dynamo.reset()
            return _first_call(lambda: torch.compile(model, backend="eager", dynamic=False), inputs)

        once([ours, peer], 1)
        times = once([ours, peer], max(3, rounds // 3))
        results.append(Result(f"capture of {name}, warm", times[0] * 1e3, times[1] * 1e3, "ms", 0.5))
    return results


def _first_call(compile: Callable[[], Callable[..., Any]], inputs: dict[str, Any]) -> float:
    with torch.no_grad():
        began = time.perf_counter()
        compile()(**inputs)
        return time.perf_counter() - began


def cold(rounds: int) -> list[Result]:
    """The first capture of a process, with the imports it causes."""
    results = []
    for name, model in MODELS.items():
        both = []
        for compile in (OURS, PEER):
            measured = f"import time, torch\n{PREPARE}{model}\nwith torch.no_grad():\n    model(**inputs)\n    t = time.perf_counter()\n"
            measured += "".join(f"    {line}\n" for line in (compile + "compiled(**inputs)").splitlines())
            both.append(lambda text=measured + "print(time.perf_counter() - t)\n": in_new_process(text))
        times = once(both, max(2, rounds // 5))
        results.append(Result(f"capture of {name}, new process", times[0] * 1e3, times[1] * 1e3, "ms"))
    return results


def importing(rounds: int) -> list[Result]:
    """`import dynamo` where torch is imported already, beside `import torch._dynamo`."""
    programs = [
        f"import torch, time\nt = time.perf_counter()\nimport {name}\nprint(time.perf_counter() - t)"
        for name in ("dynamo.public.api, dynamo.compile.misses", "dynamo", "torch._dynamo")
    ]
    whole, light, peer = once([lambda text=text: in_new_process(text) for text in programs], max(3, rounds // 3))
    return [
        Result("import dynamo", light, peer, "s", 0.15, of_peer=False),
        Result("import dynamo with its compiler", whole, peer, "s", 0.15, of_peer=False),
    ]
