"""The other process of `test_save_load`: loads a graph, calls it on saved inputs, saves results. One request per line."""

from __future__ import annotations

import importlib
import json
import sys

import torch

import dynamo
from tests.models import torchvision_ops


def main() -> None:
    torch.set_num_threads(1)
    torchvision_ops.declare()
    for line in sys.stdin:
        try:
            answer(*json.loads(line))
        except Exception as e:  # noqa: BLE001  # told to the test, whatever it is
            print(f"{type(e).__name__}: {e}".splitlines()[0], flush=True)
        else:
            print("done", flush=True)


def answer(graph: str, inputs: str, outputs: str, modules: list[str]) -> None:
    classes = [c for name in modules for c in vars(importlib.import_module(name)).values() if isinstance(c, type)]
    loaded = dynamo.export.load(graph, classes=classes)
    calls = torch.load(inputs, weights_only=False)
    results = []
    for args, kwargs in calls:
        torch.manual_seed(0)
        results.append((loaded(*args, **kwargs), (args, kwargs)))
    torch.save(results, outputs)


if __name__ == "__main__":
    main()
