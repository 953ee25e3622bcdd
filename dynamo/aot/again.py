"""Differentiating a compiled graph in eager, where its compiled backward can't serve.

A compiled backward records no history and hides its operations. Where either is wanted (`create_graph=True`, a mode or a transform of
the program around the backward pass) the captured graph runs again in eager on the inputs that the forward has saved, and
autograd differentiates that. Eager's own rules for second derivatives hold then, those of `autograd.Function`s in the graph included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.autograd.forward_ad
from torch.fx import GraphModule, Interpreter
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves

from dynamo.aot.facts import Facts
from dynamo.modes import open_blocks, snapshot

Tensor = torch.Tensor
_BATCHED_GRADIENTS: Any = torch._C._parse_dispatch_key("VmapMode")  # `autograd.grad(..., is_grads_batched=True)` has a vmap of its own


def is_wanted() -> bool:
    """Whether somebody must see the operations of the backward pass that is about to run."""
    return (
        torch.is_grad_enabled()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._are_functorch_transforms_active()
        or torch._C._dispatch_tls_is_dispatch_key_included(_BATCHED_GRADIENTS)
        or getattr(torch.autograd.forward_ad, "_current_level", -1) >= 0
    )


class Again:
    """One captured graph, and how its inputs are found among the primals of the compiled one.

    `inputs` are examples of the graph's arguments; nothing of them is kept but what written ones look like. Modes are those of now.
    """

    def __init__(self, gm: GraphModule, facts: Facts, held: Sequence[Tensor], inputs: Sequence[Any]) -> None:
        self.gm = gm
        self.facts = facts
        self.held = held
        self.at_entry = snapshot()
        self.written = frozenset(facts.written)
        self.reason = _obstacle(facts)
        ids = [id(i) for i in inputs]
        arguments = {index: p for p, (kind, index) in enumerate(facts.primals) if kind == "argument"}
        holds = {id(held[index]): p for p, (kind, index) in enumerate(facts.primals) if kind == "held"}
        self.arguments: list[Any] = []  # per argument of the graph: its primal, or the constant
        for i, value in enumerate(inputs):
            place = arguments.get(ids.index(ids[i]), holds.get(ids[i]))
            if isinstance(value, Tensor) and place is None:
                self.reason = "an argument has no place of its own among its inputs"
            self.arguments.append(place if isinstance(value, Tensor) else [value])
        self.layouts = {p: _layout(inputs[facts.primals[p][1]]) for p in self.written if facts.primals[p][0] == "argument"}

    def extras(self) -> list[int]:
        """The primals that the forward must keep besides those that the compiled backward reads."""
        if self.reason:
            return []
        return [p for p in range(len(self.facts.primals)) if p not in self.facts.saved_primals and p not in self.written]

    def gradients(self, saved: dict[int, Tensor], grads: Sequence[Any], random_state: Tensor | None) -> list[Any]:
        """The gradient of each primal (None where there is none), with history if gradients are enabled."""
        create = torch.is_grad_enabled()
        primals = {p: self._unwritten(p) for p in self.written} | saved
        wanted = list(self.facts.wanted)
        with self._as_at_entry(random_state):
            with torch.enable_grad():
                for p in wanted:
                    primals[p] = primals[p].view_as(primals[p])  # the graph may also get what was computed from it: each stands for itself
            ends = self._ends(self._run(primals))
        pairs = [(end, grad) for end, grad in zip(ends, grads, strict=True) if end is not None and grad is not None]
        found: Sequence[Any] = [None] * len(wanted)
        if pairs:
            with torch.enable_grad():
                found = torch.autograd.grad(
                    [end for end, _ in pairs], [primals[p] for p in wanted], [g for _, g in pairs], create_graph=create, allow_unused=True
                )
        out: list[Any] = [None] * len(self.facts.primals)
        for p, g in zip(wanted, found, strict=True):
            out[p] = g
        return out

    def _unwritten(self, primal: int) -> Tensor:
        """In place of a tensor that the graph writes before anything reads it."""
        kind, index = self.facts.primals[primal]
        if kind == "held":
            return self.held[index].detach().clone()
        shape, strides, dtype, device = self.layouts[primal]
        return torch.empty_strided(shape, strides, dtype=dtype, device=device).zero_()

    def _run(self, primals: dict[int, Tensor]) -> list[Any]:
        held = {id(self.held[i]): primals[p] for p, (kind, i) in enumerate(self.facts.primals) if kind == "held"}
        args = [a[0] if isinstance(a, list) else primals[a] for a in self.arguments]
        out = _Substituting(self.gm, held).run(*args)
        return list(tree_leaves(out))

    def _ends(self, outputs: list[Any]) -> list[Tensor | None]:
        """Per result of the compiled graph, the tensor that has its history."""
        ends: list[Tensor | None] = [None] * self.facts.results
        for value, output in zip(outputs, self.facts.outputs, strict=True):
            if output.kind == "graph" and isinstance(value, Tensor) and value.requires_grad and ends[output.index] is None:
                ends[output.index] = value if not output.steps else value._base
        return ends

    @contextmanager
    def _as_at_entry(self, random_state: Tensor | None) -> Iterator[None]:
        now, state = snapshot(), torch.get_rng_state() if random_state is not None else None
        with _disable_current_modes():
            try:
                self.at_entry(open_blocks())
                if random_state is not None:
                    torch.set_rng_state(random_state)
                yield
            finally:
                now()
                if state is not None:
                    torch.set_rng_state(state)


class _Substituting(Interpreter):
    """Runs a graph with other tensors in place of those it holds."""

    def __init__(self, gm: GraphModule, held: dict[int, Tensor]) -> None:
        super().__init__(gm)
        self.held = held

    def fetch_attr(self, target: str) -> Any:
        value = super().fetch_attr(target)
        return self.held.get(id(value), value) if isinstance(value, Tensor) else value


def _layout(t: Tensor) -> tuple[Any, ...]:
    return tuple(t.shape), t.stride(), t.dtype, t.device


def _obstacle(facts: Facts) -> str:
    if facts.returned:
        return "it changes a tensor that needs a gradient"
    if facts.members or facts.relaid or any(kind == "base" for kind, _ in facts.primals):
        return "it changes tensors that share memory, or their shape"
    if facts.read_before_written:
        return "it changes a tensor after reading it"
    return ""
