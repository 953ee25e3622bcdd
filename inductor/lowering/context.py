"""What lowering rows are written with: a context that turns element-wise and reducing descriptions into nests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from dynamo.ops.facts import acts, dtype_of, is_random
from inductor.ir import types
from inductor.ir.affine import ZERO, Axis, Index, of_atom
from inductor.ir.dims import Dim, Shape, as_shape, contiguous_strides, is_dense, is_one, numel
from inductor.ir.expr import Expr, cast, const, holds, reduce, widen
from inductor.ir.nest import Buffer, Extern, Nest, Origin, Program, Store, View
from inductor.lowering.contract import contract
from inductor.lowering.tensor import Tensor, dim_indices, of_strides

Body = Callable[[tuple[Index, ...]], Expr]
Operand = Any  # Tensor or Python number
Scalar = (bool, int, float)


class Decline(Exception):
    """A row cannot handle this call; the graph walker makes an extern call of it instead."""


class Context:
    """State of lowering one graph. `meta` is the fake value of the node being lowered."""

    def __init__(self, device: str = "cpu") -> None:
        self.program = Program(device=device)
        self.origins: tuple[Origin, ...] = ()
        self.meta: Any = None
        self.draws = False  # whether kernels may draw random numbers as eager's do
        self._count = 0
        self._last_random = ""
        self._last_acting = ""
        self.begin: Dim = 0  # where the first operand of the node starts in its storage, as `as_strided` counts
        self.materialised: dict[tuple[Tensor, Shape], Tensor] = {}

    # ---- buffers ----

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count - 1}"

    def buffer(self, shape: Shape, dtype: torch.dtype, strides: Shape, kind: str = "temp") -> Tensor:
        name = self.fresh("b")
        self.program.buffers[name] = Buffer(name, dtype, shape, strides, kind, self.program.device)
        return of_strides(name, shape, strides, dtype)

    def meta_strides(self, shape: Shape) -> Shape | None:
        """Strides of the node's fake value when it has this shape and fills its storage."""
        meta = self.meta
        if not isinstance(meta, torch.Tensor) or as_shape(meta.shape) != shape:
            return None
        strides = as_shape(meta.stride())
        return strides if is_dense(shape, strides) else None

    def strides_like(self, shape: Shape, operands: Sequence[Operand]) -> Shape:
        """Dense strides in the dim order of the first operand of that shape, else contiguous."""
        for operand in operands:
            if isinstance(operand, Tensor) and operand.shape == shape:
                view = operand.view()
                if view is not None and is_dense(view.shape, view.strides):
                    return view.strides
        return contiguous_strides(shape)

    # ---- nests ----

    def emit(self, axes: tuple[Axis, ...], stores: tuple[Store, ...]) -> None:
        self.program.steps.append(Nest(self.fresh("n"), axes, stores, self.origins))

    def fill(self, out: Tensor, body: Body, mode: str = "set") -> None:
        """Store `body(indices)` to every element of `out`, looping in the order `out` is laid out."""
        axes, where = loop_axes(out)
        value = contract(to_storage(body(where), out.type))
        self.emit(axes, (Store(out.buffer, out.at(where), value, mode),))

    def make(self, shape: Shape, dtype: torch.dtype, body: Body, strides: Shape | None = None) -> Tensor:
        """A new tensor from a description of its elements."""
        chosen = strides or self.meta_strides(shape) or contiguous_strides(shape)
        out = self.buffer(shape, dtype, chosen)
        self.fill(out, body)
        return out

    def map(self, fn: Callable[..., Expr], operands: Sequence[Operand], dtype: torch.dtype, compute: torch.dtype | None = None) -> Tensor:
        """Element-wise `fn` over broadcast operands, each cast to the compute type of `compute` (default: of `dtype`)."""
        type_name = types.compute(types.of_torch(compute or dtype))
        shape = broadcast_shape([o.shape for o in operands if isinstance(o, Tensor)])
        strides = self.meta_strides(shape) or self.strides_like(shape, operands)
        return self.make(shape, dtype, lambda where: fn(*(element(o, where, type_name) for o in operands)), strides)

    def reduce(
        self,
        kind: str,
        x: Tensor,
        dims: Sequence[int],
        keepdim: bool,
        dtype: torch.dtype,
        compute: torch.dtype | None = None,
        pre: Callable[[Expr], Expr] | None = None,
        post: Callable[[Expr], Expr] | None = None,
    ) -> Tensor:
        """Reduce `pre(x)` over dims, then apply `post`. `compute` is the type to accumulate in (default: of `dtype`)."""
        reduced = normal_dims(dims, x.ndim)
        type_name = types.compute(types.of_torch(compute or dtype))
        kept_shape = tuple(1 if k in reduced else n for k, n in enumerate(x.shape))
        order = sorted(reduced, key=lambda k: -abs(_stride_of(x, k)))
        if kind.startswith("arg"):
            order = sorted(reduced)
        axes = {k: Axis(f"r{position}", x.shape[k]) for position, k in enumerate(order)}

        def body(where: tuple[Index, ...]) -> Expr:
            full = [of_atom(axes[k]) if k in reduced else where[k] for k in range(x.ndim)]
            value = cast(x.load(full), type_name)
            value = reduce(kind, pre(value) if pre else value, tuple(axes[k] for k in order))
            return post(value) if post else value

        if not reduced:
            raise Decline
        wanted = kept_shape if keepdim else tuple(n for k, n in enumerate(x.shape) if k not in reduced)
        if keepdim:
            return self.make(wanted, dtype, body)
        kept = [k for k in range(x.ndim) if k not in reduced]

        def squeezed(where: tuple[Index, ...]) -> Expr:
            full = [ZERO] * x.ndim
            for position, k in enumerate(kept):
                full[k] = where[position]
            return body(tuple(full))

        return self.make(wanted, dtype, squeezed)

    def copy(self, x: Tensor, strides: Shape | None = None) -> Tensor:
        """A new buffer with the elements of `x`. Where all places of a dim are one in the buffer, they are one element of `x` too."""
        wanted = strides or contiguous_strides(x.shape)
        once = tuple(n if stride else min(n, 1) for n, stride in zip(x.shape, wanted, strict=True))
        if once == x.shape:
            return self.make(x.shape, x.dtype, x.load, wanted)
        where = [at if stride else ZERO for at, stride in zip(dim_indices(x.shape), wanted, strict=True)]
        return self.make(once, x.dtype, x.load, wanted).remap(x.shape, where)

    def dense(self, x: Tensor) -> Tensor:
        """`x` as a strided tensor; copied when its map is not affine."""
        if x.view() is not None:
            return x
        key = (x, x.shape)
        if key not in self.materialised:
            self.materialised[key] = self.copy(x)
        return self.materialised[key]

    def extern(self, target: Any, args: Sequence[Any], kwargs: Mapping[str, Any], meta: Any) -> Any:
        """Call an ATen operator on materialised tensors; returns a Tensor, or a tuple of them, or None for other results."""
        single = not isinstance(meta, (tuple, list))
        metas = [meta] if single else list(meta)
        outs = [self.extern_result(m) for m in metas]
        name, after = self.fresh("e"), ""
        if is_random(target):
            after, self._last_random = self._last_random, name
        elif acts(target):
            after, self._last_acting = self._last_acting, name
        step = Extern(
            name,
            target,
            tuple(self.to_views(a) for a in args),
            {k: self.to_views(v) for k, v in kwargs.items()},
            tuple(o.buffer if o is not None else None for o in outs),
            single,
            self.origins,
            after,
            dtype_of(meta),
            len({a.dtype for a in args if isinstance(a, Tensor)}) > 1,
        )
        self.program.steps.append(step)
        return outs[0] if single else tuple(outs)

    def extern_result(self, meta: Any) -> Tensor | None:
        if not isinstance(meta, torch.Tensor):
            return None
        out = self.buffer(as_shape(meta.shape), meta.dtype, as_shape(meta.stride()), "extern")
        if self.program.device != "cpu" and str(meta.device) != self.program.device:
            buffers = self.program.buffers
            buffers[out.buffer] = replace(buffers[out.buffer], device=str(meta.device))
        return out

    def to_views(self, tree: Any) -> Any:
        """Tensors in an argument tree become views of buffers."""
        if isinstance(tree, Tensor):
            return self._whole(self.dense(tree).view())
        if isinstance(tree, (list, tuple)):
            return type(tree)(self.to_views(t) for t in tree)
        return tree

    def _whole(self, view: View | None) -> View | None:
        """A buffer as a whole has its own strides also in dims of size 1, of which maps have none: results of ATen are laid out by them."""
        if view is None:
            return None
        held = self.program.buffers[view.buffer]
        pairs = zip(view.shape, view.strides, held.strides, strict=False)
        is_whole = view.shape == held.shape and view.offset == 0 and all(s == t or is_one(n) for n, s, t in pairs)
        return replace(view, strides=held.strides) if is_whole else view


def element(operand: Operand, where: tuple[Index, ...], type_name: str) -> Expr:
    if isinstance(operand, Tensor):
        return cast(operand.broadcast_load(where), type_name)
    return const(operand, type_name)


def to_storage(value: Expr, type_name: str) -> Expr:
    """Convert a computed value to the type it is stored in, by way of the type it would be computed in."""
    return cast(cast(value, types.compute(type_name)), type_name) if value.type != type_name else value


def as_stored(value: Expr, dtype: torch.dtype) -> Expr:
    """A computed value after it has been stored in a tensor of `dtype` and loaded again."""
    kind = types.of_torch(dtype)
    return widen(to_storage(value, kind)) if types.is_half(kind) and not holds(value, kind) else value


def loop_axes(out: Tensor) -> tuple[tuple[Axis, ...], tuple[Index, ...]]:
    """Loops over a tensor from its largest stride to its smallest, and the tensor's indices in terms of them."""
    order = sorted(range(out.ndim), key=lambda k: (-abs(_stride_of(out, k)), k))
    by_dim = {k: Axis(f"i{position}", out.shape[k]) for position, k in enumerate(order)}
    axes = tuple(by_dim[k] for k in order if not is_one(out.shape[k]))
    return axes, tuple(of_atom(by_dim[k]) for k in range(out.ndim))


def _stride_of(x: Tensor, k: int) -> Dim:
    return x.index.coef(Axis(f"d{k}", x.shape[k]))


def normal_dims(dims: Sequence[int] | int | None, ndim: int) -> list[int]:
    """Dims as non-negative sorted numbers; None and [] mean all of them."""
    if dims is None:
        return list(range(ndim))
    listed = [dims] if isinstance(dims, int) else list(dims)
    return sorted({d % ndim if ndim else 0 for d in listed}) if listed and ndim else list(range(ndim))


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    rank = max((len(s) for s in shapes), default=0)
    out: list[Dim] = [1] * rank
    for shape in shapes:
        for position, extent in enumerate(shape, rank - len(shape)):
            if not is_one(extent):
                out[position] = extent
    return tuple(out)


_DUMMIES: dict[tuple[torch.dtype, bool], torch.Tensor] = {}


def _dummy(operand: Operand) -> Any:
    if not isinstance(operand, Tensor):
        return operand
    key = (operand.dtype, operand.ndim == 0)
    if key not in _DUMMIES:
        _DUMMIES[key] = torch.zeros(() if key[1] else (1,), dtype=operand.dtype)
    return _DUMMIES[key]


def promote(*operands: Operand) -> torch.dtype:
    """ATen's result type of tensors and Python numbers."""
    if len(operands) == 1:
        return operands[0].dtype if isinstance(operands[0], Tensor) else torch.result_type(operands[0], operands[0])
    result = torch.result_type(_dummy(operands[0]), _dummy(operands[1]))
    if len(operands) > 2:
        # Three operands: tensors with dims decide before 0-dim ones, which torch.result_type of all pairs shows.
        for left in operands:
            for right in operands:
                result = torch.promote_types(result, torch.result_type(_dummy(left), _dummy(right)))
    return result


def total(shape: Sequence[Dim]) -> Dim:
    return numel(shape)
