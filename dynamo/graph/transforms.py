"""Transforms of `torch.func` as captured graphs call them: each takes the transformed function as a graph of its own.

That graph takes the tensors given here in the same order and gives a tuple of tensors; so do these functions. On fakes and in the
ahead-of-time trace the transform itself runs over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo.fake import standins
from dynamo.torch_facts import JACOBIANS_READ_TENSORS

Tensor = torch.Tensor
Body = Callable[..., tuple[Tensor, ...]]
Dims = tuple[int | None, ...]


def _alone(fn: Callable[..., tuple[Tensor, ...]]) -> Callable[..., tuple[Tensor, ...]]:
    """Backward passes of transforms ask torch's own compiler to stay out of them, which would load it. And a graph module that is called
    prints where its code raises, which is the business of whoever catches it."""

    @wraps(fn)
    def call(body: Body, *args: Any) -> tuple[Tensor, ...]:
        with standins.without_compiler():
            return fn(body.forward if isinstance(body, GraphModule) else body, *args)

    return call


@_alone
def vmap(body: Body, settings: tuple[Dims, Dims, str, int | None], *tensors: Tensor) -> tuple[Tensor, ...]:
    """`settings`: the dimension of each tensor and of each result, what random numbers do, how many examples run at a time (None: all)."""
    in_dims, out_dims, randomness, chunk = settings
    return torch.vmap(body, in_dims, out_dims, randomness, chunk_size=chunk)(*tensors)  # type: ignore[arg-type]  # None is a dimension too


@_alone
def grad(body: Body, learned: int, *tensors: Tensor) -> tuple[Tensor, ...]:
    """Gradients of the body's first result for the first tensors, `learned` of them; then all its results."""
    grads, (value, others) = torch.func.grad_and_value(partial(_parted, body, None), tuple(range(learned)), has_aux=True)(*tensors)
    return (*grads, value, *others)


@_alone
def primal(body: Body, settings: tuple[int, int], *tensors: Tensor) -> tuple[Tensor, ...]:
    """What `vjp` gives besides a function. `settings`: how many of the first tensors it differentiates by, and how many results."""
    found, others, _ = _pulling(body, settings, tensors)
    return (*found, *others)


@_alone
def vjp(body: Body, settings: tuple[int, int, bool, bool | None], *tensors: Tensor) -> tuple[Tensor, ...]:
    """Gradients for the first tensors; after these come those of the results. `settings`: their numbers, then the grad modes that
    the function runs in and that its gradients are computed in (None: the one of now)."""
    learned, results, recording, create = settings
    cotangents, read = tensors[learned : learned + results], tensors[learned + results :]
    with torch.set_grad_enabled(recording):
        _, _, pull = _pulling(body, (learned, results), (*tensors[:learned], *read))
    return tuple(pull(cotangents, create_graph=create))


def _pulling(body: Body, settings: tuple[int, int], tensors: Sequence[Tensor]) -> tuple[Any, Any, Callable[..., Any]]:
    learned, results = settings
    read = tensors[learned:]
    made: Any = torch.func.vjp(lambda *given: _parted(body, results, *given, *read), *tensors[:learned], has_aux=True)
    found, pull, others = made
    return found, others, pull


@_alone
def push(body: Body, moved: int, *tensors: Tensor) -> tuple[Tensor, ...]:
    """What `linearize` returns a function for: tangents of the results. Those of the first tensors come after these; nothing else
    has a gradient."""
    tangents = tuple(map(_laid_out_like, tensors[:moved], tensors[moved : 2 * moved]))
    fixed = [t.detach() for t in (*tensors[:moved], *tensors[2 * moved :])]
    return tuple(torch.func.jvp(lambda *given: body(*given, *fixed[moved:]), tuple(fixed[:moved]), tangents)[1])


def _laid_out_like(t: Tensor, tangent: Tensor) -> Tensor:
    """Its graph copies tangents, which were made with other strides than the tensors."""
    if t.numel() <= 1:
        return tangent
    return tangent.clone() if t.stride() == tangent.stride() else torch.empty_like(t).copy_(tangent)


@_alone
def jvp(body: Body, settings: tuple[int, int], *tensors: Tensor) -> tuple[Tensor, ...]:
    """`settings`: how many tensors have a tangent (theirs come next), how many results have one: they, their tangents, the others."""
    moved, results = settings
    read = tensors[2 * moved :]
    all_found = torch.func.jvp(
        lambda *given: _parted(body, results, *given, *read), tensors[:moved], tensors[moved : 2 * moved], has_aux=True
    )
    return tuple(t for part in all_found for t in part)


@_alone
def jacrev(body: Body, settings: tuple[int, int, int | None], *tensors: Tensor) -> tuple[Tensor, ...]:
    """`settings`: how many of the first tensors and results there are Jacobians of, how many rows are computed at a time (None: all).
    The Jacobians of one result after those of another; then the results that have none."""
    learned, results, chunk = settings
    argnums = tuple(range(learned))
    rows, others = torch.func.jacrev(partial(_parted, body, results), argnums, has_aux=True, chunk_size=chunk)(*tensors)
    return (*(j for row in rows for j in row), *others)


@_alone
def jacfwd(body: Body, settings: tuple[int, int, str], *tensors: Tensor) -> tuple[Tensor, ...]:
    """As `jacrev`; the last of `settings` says what random numbers do."""
    learned, results, randomness = settings
    argnums = tuple(range(learned))
    rows, others = torch.func.jacfwd(partial(_parted, body, results), argnums, has_aux=True, randomness=randomness)(*tensors)
    return (*(j for row in rows for j in row), *others)


def _parted(body: Body, results: int | None, *given: Tensor) -> tuple[Tensor | tuple[Tensor, ...], tuple[Tensor, ...]]:
    """What is differentiated and what is not. None: the first result alone is."""
    found = body(*given)
    return (found[0], tuple(found[1:])) if results is None else (tuple(found[:results]), tuple(found[results:]))


ALL: tuple[Callable[..., tuple[Tensor, ...]], ...] = (vmap, grad, primal, vjp, push, jvp, jacrev, jacfwd)


def _unit_matrices(tensors: Sequence[Tensor], numels: Sequence[int], chunk_size: int | None = None) -> Iterator[tuple[Tensor, ...]]:
    """The unit matrix in blocks of rows, each cut into the columns of each tensor, with its shape."""
    total = sum(numels)
    size = min(chunk_size or total, total) or 1
    for start in range(0, total or 1, size):
        rows, first, parts = min(size, total - start), 0, []
        for t, n in zip(tensors, numels, strict=True):
            part = t.new_zeros(rows, n)
            part.diagonal(start - first).fill_(1)
            parts.append(part.view(rows, *t.shape))
            first += n
        yield tuple(parts)


if JACOBIANS_READ_TENSORS:  # which fakes don't answer: the same by numbers
    torch.func.jacrev.__globals__["_chunked_standard_basis_for_"] = _unit_matrices
