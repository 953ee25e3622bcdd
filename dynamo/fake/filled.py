"""Layouts of what a kernel returns, found by running it: for operators of torch's own that have neither a rule nor a meta kernel.

The kernel gets tensors of zeros, of the arguments' layouts and on their device (`torch._subclasses.FakeTensor` does the same). What it
returns is looked at and dropped. Where an argument holds whole numbers or truth values the layout may come from them, as the number of rows
does that a table of offsets counts: then ones must give the same. On a GPU that isn't asked, since an index that is out of range is an
error of the device there, from which a process does not recover.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dynamo.fake.errors import NoMeta
from dynamo.fake.tensor import META, FakeTensor, is_phantom
from dynamo.ops.facts import facts_of

OWN = ("aten", "prims")  # a kernel of somebody else may do anything when it is called


def layouts_of(missing: NoMeta, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Meta tensors laid out as the results of `missing.op` are, in its own structure. Raises `missing` where that can't be found."""
    func = missing.op
    facts = facts_of(func)
    fakes = [t for t in _leaves((*args, *kwargs.values())) if type(t) is FakeTensor]
    if func.namespace not in OWN or facts.random or facts.writes or facts.views or facts.acts or not fakes:
        raise missing
    if any(is_phantom(t.fake_device) for t in fakes):
        raise missing
    counts = any(not (t.dtype.is_floating_point or t.dtype.is_complex) for t in fakes)
    if counts and any(t.fake_device.type != "cpu" for t in fakes):
        raise missing
    try:
        with _disable_current_modes(), torch.no_grad():
            found = [func(*_filled(args, value), **_filled(kwargs, value)) for value in ((0, 1) if counts else (0,))]
    except Exception as error:  # zeros may be what this kernel refuses, or the device has no room: nothing is known then
        raise missing from error
    if not all(isinstance(t, torch.Tensor) and t.layout is torch.strided and not t.is_quantized for t in _leaves(found)):
        raise missing  # also for numbers and truth values, which zeros do not tell
    layouts = [_layouts(out) for out in found]
    if len(layouts) == 2 and _described(layouts[0]) != _described(layouts[1]):
        raise missing
    return layouts[0]


def _leaves(value: Any) -> list[Any]:
    return [leaf for v in value for leaf in _leaves(v)] if isinstance(value, (list, tuple)) else [value]


def _filled(value: Any, by: int) -> Any:
    if type(value) is FakeTensor:
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.fake_device).fill_(by)
    if isinstance(value, (list, tuple)):
        return type(value)(_filled(v, by) for v in value)
    return {k: _filled(v, by) for k, v in value.items()} if isinstance(value, dict) else value


def _layouts(out: Any) -> Any:
    if isinstance(out, torch.Tensor):
        return torch.empty_strided(out.shape, out.stride(), dtype=out.dtype, device=META)
    return tuple(_layouts(o) for o in out)


def _described(out: Any) -> list[Any]:
    return [(t.shape, t.stride(), t.dtype) for t in _leaves(out)]
