"""What can be seen of a run of a program, as plain facts, and how two runs differ.

Observed are the result (values, dtypes, shapes, strides, offsets, aliasing, gradients, types of containers), the exception, printed
text, warnings of the program's own lines, and torch's global state afterwards.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from dynamo import internal_errors
from dynamo.surroundings.modes import surroundings
from repro_corpus.program import Compile, Program

_OURS = re.compile(r"\[DD\d+\]")


@dataclass
class Observation:
    """`facts` maps a path in the result to a plain fact or a detached tensor. `internal` are failures of the compiler's own."""

    facts: dict[str, Any] = field(default_factory=dict)
    internal: list[str] = field(default_factory=list)


def observe(program: Program, compile: Compile) -> Observation:
    """Run once from the same random state, and collect what is to be seen."""
    seen = Observation()
    seed(0)
    random.seed(0)
    before = surroundings()
    internal_errors.forget()
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            result = program.run(compile)
        except Exception as e:  # noqa: BLE001  # what the program raises is an observation like any other
            seen.facts["raised"] = type(e).__qualname__
            seen.facts["raised: message"] = str(e)
        else:
            _Collector(seen.facts).collect(result, "result")
    seen.facts["printed"] = printed.getvalue()
    texts = [f"{w.category.__name__}: {w.message}" for w in caught if w.filename == program.run.__code__.co_filename]
    seen.facts["warnings"] = [t for t in texts if not _OURS.search(t)]
    seen.internal = [f"[{i}] {kind} at {place} (x{count})" for (i, kind, place), count in internal_errors.internal_errors().items()]
    after = surroundings()
    seen.facts["state afterwards"] = {k: v for k, v in after.items() if before[k] != v}
    return seen


def seed(number: int) -> None:
    """`torch.manual_seed`, which keeps a stack trace for each kind of accelerator that there is none of."""
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(number)


def collect(seen: Observation, result: Any) -> None:
    """Add the facts of a result that was computed elsewhere."""
    _Collector(seen.facts).collect(result, "result")


class _Collector:
    """Flattens a result into facts; memory seen twice is named by the path that showed it first."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.storages: dict[int, str] = {}
        self.objects: dict[int, str] = {}
        self.keep: list[Any] = []

    def collect(self, value: Any, path: str) -> None:
        self.facts[f"{path}: type"] = type(value).__qualname__
        if isinstance(value, torch.Tensor):
            self.tensor(value, path)
        elif isinstance(value, Mapping):
            self.facts[f"{path}: keys"] = [repr(k) for k in value]
            for key, item in value.items():
                self.collect(item, f"{path}[{key!r}]")
        elif isinstance(value, Sequence) and not isinstance(value, (str, bytes, range)):
            self.facts[f"{path}: length"] = len(value)
            for index, item in enumerate(value):
                self.collect(item, f"{path}[{index}]")
        elif isinstance(value, float):
            self.facts[path] = torch.tensor(value, dtype=torch.float64)
        elif isinstance(value, type):
            self.facts[path] = value.__qualname__
        elif isinstance(value, BaseException):
            self.facts[f"{path}: message"] = str(value)
        elif type(value).__repr__ is object.__repr__:
            for name, item in vars(value).items() if hasattr(value, "__dict__") else ():
                self.collect(item, f"{path}.{name}")
        else:
            self.facts[path] = repr(value)

    def tensor(self, t: torch.Tensor, path: str) -> None:
        if id(t) in self.objects:
            self.facts[f"{path}: is"] = self.objects[id(t)]
            return
        self.objects[id(t)] = path
        self.keep.append(t)
        for name in ("dtype", "shape", "device", "layout", "requires_grad", "is_leaf"):
            try:
                self.facts[f"{path}: {name}"] = getattr(t, name)
            except RuntimeError as e:  # autograd refuses to make the history of a view, as it says
                self.facts[f"{path}: {name}"] = str(e)
                return
        self.facts[f"{path}: inference"] = t.is_inference()
        self.facts[f"{path}: conj, neg"] = (t.is_conj(), t.is_neg())
        if t.layout == torch.strided and not torch.utils._python_dispatch.is_traceable_wrapper_subclass(t):
            sizes = zip(t.stride(), t.shape, strict=True)
            self.facts[f"{path}: strides"] = [s for s, n in sizes if n > 1] if t.numel() else None
            storage = t.untyped_storage()._cdata if t.numel() else id(t)
            first = self.storages.setdefault(storage, path)
            self.facts[f"{path}: memory of"] = (first, t.storage_offset() if first != path else 0)
        with torch.no_grad():
            self.facts[f"{path}: values"] = t.detach().to_dense().as_subclass(torch.Tensor).clone()
        if t.is_leaf and t.requires_grad:
            self.collect(t.grad, f"{path}.grad")


def differences(expected: Observation, found: Observation, tolerance: tuple[float, float] | None) -> list[str]:
    """One line per fact that differs; a failure of the compiler's own is one too, whatever came out."""
    lines = [f"internal error: {text}" for text in found.internal]
    ends = ("raised", "printed", "warnings", "state afterwards")
    keys = [*expected.facts, *(k for k in found.facts if k not in expected.facts)]
    only_one_raises = ("raised" in expected.facts) != ("raised" in found.facts)
    for key in keys:
        if key == "raised: message" or (only_one_raises and key not in ends):
            continue
        e, f = (side.facts.get(key, "nothing") for side in (expected, found))
        if key == "raised" and e != f:
            e, f = (f"{v}: {side.facts.get('raised: message')}" for v, side in ((e, expected), (f, found)))
            lines.append(f"raised: {f} instead of {e}")
        elif isinstance(e, torch.Tensor) and isinstance(f, torch.Tensor):
            lines += [f"{key}: {text}" for text in _values(e, f, tolerance)]
        elif type(e) is not type(f) or e != f:
            lines.append(f"{key}: {f} instead of {e}")
    return lines


def undeclared(program: Program, expected: Observation) -> list[str]:
    """What is raised in eager without being declared, or declared without being raised: a mistake in a program hides all it should show."""
    raised = f"{expected.facts['raised']}: {expected.facts['raised: message']}" if "raised" in expected.facts else ""
    if not program.raises:
        return [f"eager raises {raised}: declare it (`raises=`) or mend the program"] if raised else []
    return [] if program.raises in raised else [f"eager is declared to raise {program.raises}, it raises {raised or 'nothing'}"]


# rtol, atol; other dtypes are compared exactly. Those of torch.testing, whose own comparison imports half of torch and sympy first.
_TOLERANCES: dict[torch.dtype, tuple[float, float]] = {
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float32: (1.3e-6, 1e-5),
    torch.float64: (1e-7, 1e-7),
    torch.complex32: (1e-3, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}


def _values(e: torch.Tensor, f: torch.Tensor, tolerance: tuple[float, float] | None) -> Iterator[str]:
    if e.dtype != f.dtype or e.shape != f.shape:
        return  # a fact of its own
    inexact = e.is_floating_point() or e.is_complex()
    rtol, atol = (tolerance or _TOLERANCES.get(e.dtype, (0.0, 0.0))) if inexact else (0.0, 0.0)
    with torch.no_grad():
        if e.dtype in _NARROW:
            e, f = e.float(), f.float()
        near = torch.isclose(f, e, rtol=rtol, atol=atol, equal_nan=True)
        if bool(near.all()):
            return
        at = (~near).nonzero()[0].tolist()
        worst = (f - e).abs()[~near].max().item() if inexact else ""
        yield f"{int((~near).sum())} of {near.numel()} differ, first at {at}, by up to {worst}"
        yield f"{f.flatten()[:8]} instead of {e.flatten()[:8]}"


# Types that torch can only convert.
_NARROW = frozenset(d for d in vars(torch).values() if isinstance(d, torch.dtype) and d.is_floating_point and d.itemsize == 1)
