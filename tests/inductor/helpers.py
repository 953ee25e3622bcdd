"""Compile a Python function for a test: trace it to ATen, compile, compare with eager and with the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from dynamo.trace import session
from dynamo.trace.events import CodeGenerated
from inductor.compile import compile_graph
from inductor.ir import interp
from inductor.lowering.graph import lower_graph


def trace(fn: Callable[..., Any], args: Sequence[Any]) -> GraphModule:
    """ATen graph of `fn`; every tensor among `args` is an input."""
    return make_fx(fn, tracing_mode="fake")(*args)


def compiled(fn: Callable[..., Any], args: Sequence[Any]) -> Callable[..., Any]:
    run = compile_graph(trace(fn, args), args)
    return lambda *a: run(list(a))


def texts(fn: Callable[..., Any], args: Sequence[Any]) -> dict[str, str]:
    """What each stage printed while compiling: by stage name."""
    gm = trace(fn, args)
    with session() as store:
        compile_graph(gm, args)
    return {e.stage: e.code for e in store.of(CodeGenerated) if e.name.endswith((".lowered", ".scheduled", ".c"))}


def interpreted(fn: Callable[..., Any], args: Sequence[Any]) -> list[Any]:
    program, _ = lower_graph(trace(fn, args))
    return interp.run(program, args)[0]


def flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def assert_same(found: Any, expected: Any, rtol: float | None = None, atol: float | None = None, *, strides: bool = True) -> None:
    """Equal values, dtypes, shapes and strides."""
    for f, e in zip(flat(found), flat(expected), strict=True):
        if isinstance(e, torch.Tensor):
            torch.testing.assert_close(f, e, rtol=rtol, atol=atol, equal_nan=True, check_stride=strides and e.numel() > 0)
        else:
            assert f == e


def check(fn: Callable[..., Any], *args: Any, rtol: float | None = None, atol: float | None = None) -> None:
    """Compiled and interpreted results equal eager's; inputs are left alone."""
    before = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
    expected = fn(*args)
    assert_same(compiled(fn, args)(*args), expected, rtol, atol)
    assert_same(interpreted(fn, args), flat(expected), rtol, atol, strides=False)  # the interpreter hands out copies
    assert_same(list(args), before)
