"""Every module of torch's own test database: compiled forward, gradients and buffers equal eager's, in training and evaluation."""

from __future__ import annotations

import copy
from itertools import islice
from typing import Any

import pytest
import torch
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_flatten

import dynamo
from tests.inductor.sweep import DEFAULTS, SAMPLES, SEED, copied, cotangent, quiet, tensors_in

CHUNKS = 16  # modules are dealt out to this many tests per dtype, for xdist to share
# gradients of sums over many elements in another order; test_modules.py of torch allows its own comparisons as much
WIDER = {torch.float32: 1e-4, torch.float64: 1e-7}


def run(called: Any, module: torch.nn.Module, args: Any, kwargs: Any) -> list[Any]:
    """Results, gradients of inputs and parameters, buffers after the call."""
    args, kwargs = copied((args, kwargs))
    torch.manual_seed(SEED)
    out = called(*args, **kwargs)
    ends = [t for t in tensors_in(out) if t.requires_grad]
    leaves = [t for t in (*tensors_in((args, kwargs)), *module.parameters()) if t.requires_grad]
    found = torch.autograd.grad(ends, leaves, [cotangent(e) for e in ends], allow_unused=True) if ends and leaves else ()
    return [*tree_flatten(out)[0], *found, *module.buffers()]


def attempt(called: Any, module: torch.nn.Module, args: Any, kwargs: Any) -> list[Any] | Exception:
    try:
        return run(called, module, args, kwargs)
    except Exception as error:  # noqa: BLE001 what eager raises, compiled must raise
        return error


def difference(module: torch.nn.Module, args: Any, kwargs: Any, dtype: torch.dtype) -> str:
    """'' when compiled is equal to eager."""
    mine = copy.deepcopy(module)
    expected = attempt(module, module, args, kwargs)
    with dynamo.config.patch(suppress_errors=False, c_optimize=1):
        actual = attempt(dynamo.compile(mine, backend="inductor"), mine, args, kwargs)
    if isinstance(expected, Exception) or isinstance(actual, Exception):
        return "" if isinstance(expected, Exception) and isinstance(actual, type(expected)) else f"{actual!r:.300} for {expected!r:.100}"
    if len(actual) != len(expected):
        return f"{len(actual)} results for {len(expected)}"
    rtol, atol = DEFAULTS[dtype]
    for i, (a, e) in enumerate(zip(actual, expected, strict=True)):
        try:
            torch.testing.assert_close(a, e, equal_nan=True, check_stride=False, rtol=max(rtol, WIDER[dtype]), atol=atol)
        except (AssertionError, TypeError) as error:
            return f"result {i}: {' '.join(str(error).split())[:200]}"
    return ""


def wrong(info: Any, dtype: torch.dtype, training: bool) -> list[str]:
    torch.manual_seed(SEED)
    drawn = islice(info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training), SAMPLES)
    found = []
    for i, sample in enumerate(drawn):
        if sample.forward_input is None:
            continue
        module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).to(dtype)
        module.train(training)
        text = difference(module, sample.forward_input.args, sample.forward_input.kwargs, dtype)
        if text:
            found.append(f"{info.name} sample {i} {'train' if training else 'eval'}: {text}")
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_module_db(chunk: int, dtype: torch.dtype) -> None:
    found: list[str] = []
    with quiet():
        for info in module_db[chunk::CHUNKS]:
            if dtype in info.dtypes:
                found += wrong(info, dtype, True)
                if info.train_and_eval_differ:
                    found += wrong(info, dtype, False)
    assert found == []
