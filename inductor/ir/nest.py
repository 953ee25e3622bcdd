"""Statements of the loop IR: buffers, nests of loops that store expressions, extern calls, and the program they form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from dynamo.ops.facts import may_raise
from dynamo.surroundings.locks import cached_property
from inductor.ir import types
from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import Dim, Shape, span, volume
from inductor.ir.expr import Change, Expr, moved, rebuild, rewrite, walk

BACKWARD = " (backward)"


@dataclass(frozen=True)
class Origin:
    """The user line a node came from, and the ATen op it stood for. A gradient belongs to the forward line it is the gradient of."""

    op: str
    file: str = ""
    line: int = 0
    is_backward: bool = False

    def __str__(self) -> str:
        place = f" {self.file}:{self.line}" if self.file else ""
        return f"{self.op}{place}{BACKWARD if self.is_backward else ''}"


@dataclass(frozen=True)
class Buffer:
    """Strided storage. `kind`: input, const, temp (made by nests), extern (made by an ATen call) or object (not a tensor)."""

    name: str
    dtype: torch.dtype
    shape: Shape
    strides: Shape
    kind: str
    device: str = "cpu"

    @property
    def type(self) -> str:
        """Element type of the IR; KeyError for dtypes that only extern calls touch."""
        return types.of_torch(self.dtype)

    def is_laid_out_as(self, other: Buffer) -> bool:
        return (self.shape, self.strides) == (other.shape, other.strides)

    @cached_property
    def size(self) -> Dim:
        """Elements of storage."""
        return span(self.shape, self.strides)

    @property
    def nbytes(self) -> Dim:
        return self.size * self.dtype.itemsize


@dataclass(frozen=True)
class Store:
    """`buffer[index] = value`, or `+=` when mode is "add". `$k` axes of the index stand for `indirect[k]`."""

    buffer: str
    index: Index
    value: Expr
    mode: str = "set"
    indirect: tuple[Expr, ...] = ()

    def rewrite(self, change: Change, known: dict[Expr, Expr]) -> Store:
        """The store of what `ir.expr.rewrite` makes of its expressions."""
        return self._at(self.index, change, known)

    def substitute(self, mapping: Mapping[Axis, Index], known: dict[Expr, Expr]) -> Store:
        return self._at(self.index.substitute(mapping), moved(mapping), known)

    def _at(self, index: Index, change: Change, known: dict[Expr, Expr]) -> Store:
        value, *indirect = rewrite(self.roots(), change, known)
        return Store(self.buffer, index, value, self.mode, tuple(indirect))

    def roots(self) -> tuple[Expr, ...]:
        return (self.value, *self.indirect)


@dataclass(frozen=True)
class Nest:
    """Loops over `axes`; the body runs once per point. Reductions inside run over their own axes."""

    name: str
    axes: tuple[Axis, ...]
    stores: tuple[Store, ...]
    origins: tuple[Origin, ...] = ()

    @cached_property
    def _nodes(self) -> tuple[Expr, ...]:
        return tuple(walk(*(root for store in self.stores for root in store.roots())))

    def exprs(self) -> Iterator[Expr]:
        """Every distinct expression node, operands first."""
        return iter(self._nodes)

    @cached_property
    def checks(self) -> bool:
        """Whether an index that the program computes may be refused here."""
        return any(e.op == "check" for e in self.exprs())

    @cached_property
    def _loads(self) -> tuple[Expr, ...]:
        return tuple([e for e in self._nodes if e.op == "load"])

    def loads(self) -> Iterator[Expr]:
        return iter(self._loads)

    @cached_property
    def reduced(self) -> tuple[Axis, ...]:
        """Axes that reductions of this nest run over, in first-use order."""
        found: dict[Axis, None] = {}
        for node in self.exprs():
            if node.op == "reduce":
                found.update(dict.fromkeys(node.attr[1]))
        return tuple(found)

    @cached_property
    def is_pointwise(self) -> bool:
        return not any(e.op in ("reduce", "scan") for e in self.exprs())

    @cached_property
    def scanned(self) -> frozenset[Axis]:
        return frozenset(e.attr[1] for e in self.exprs() if e.op == "scan")

    @property
    def has_plain_stores(self) -> bool:
        return all(s.mode == "set" and not s.indirect for s in self.stores)

    def rewrite(self, change: Change, known: dict[Expr, Expr] | None = None) -> Nest:
        """The nest with what `ir.expr.rewrite` makes of its expressions."""
        known = {} if known is None else known
        return Nest(self.name, self.axes, tuple([s.rewrite(change, known) for s in self.stores]), self.origins)

    def substitute(self, mapping: Mapping[Axis, Index], axes: tuple[Axis, ...]) -> Nest:
        known: dict[Expr, Expr] = {}
        return Nest(self.name, axes, tuple([s.substitute(mapping, known) for s in self.stores]), self.origins)

    @cached_property
    def _reads(self) -> frozenset[str]:
        found = {e.attr[0] for e in self.loads()}
        found.update(s.buffer for s in self.stores if s.mode != "set" or s.indirect)
        return frozenset(found)

    def reads(self) -> frozenset[str]:
        return self._reads

    @cached_property
    def _writes(self) -> frozenset[str]:
        return frozenset(s.buffer for s in self.stores)

    def writes(self) -> frozenset[str]:
        return self._writes

    @cached_property
    def points(self) -> int:
        """How many times the innermost expression is evaluated; a guess where sizes are known only when the kernel runs."""
        return volume(a.extent for a in self.axes + self.reduced)


@dataclass(frozen=True)
class View:
    """A strided look at a buffer: what extern calls take as a tensor argument, and what a graph output can be."""

    buffer: str
    shape: Shape
    strides: Shape
    offset: Dim


@dataclass(frozen=True)
class Extern:
    """A call of an ATen operator. `View`s inside args/kwargs are tensors; `outs` are the buffers of the results, in order."""

    name: str
    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outs: tuple[str | None, ...]
    single: bool  # the op returns one tensor, not a tuple
    origins: tuple[Origin, ...] = ()
    after: str = ""  # the extern call that must run before this one although no data says so (random numbers, effects)
    dtype: torch.dtype | None = None  # of the first result
    mixes: bool = False  # its tensors have several types

    @cached_property
    def _reads(self) -> frozenset[str]:
        return frozenset(v.buffer for v in views_of((self.args, dict(self.kwargs))))

    @cached_property
    def may_raise(self) -> bool:
        """Whether the operator refuses some values."""
        return may_raise(self.target, self.dtype, self.mixes)

    def reads(self) -> frozenset[str]:
        return self._reads

    @cached_property
    def _writes(self) -> frozenset[str]:
        return frozenset(o for o in self.outs if o is not None)

    def writes(self) -> frozenset[str]:
        return self._writes


@dataclass(frozen=True)
class Batch:
    """One nest for many rows of buffers: the step of a foreach operator, whose size does not depend on the length of its lists.

    The nest is written for the first row. In another row each buffer stands for the one at its position, and the nest's
    only loop, if it has one, has that row's extent. Rows are independent: none reads what another writes.
    """

    nest: Nest
    rows: tuple[tuple[str, ...], ...]
    extents: tuple[Dim, ...]

    @property
    def name(self) -> str:
        return self.nest.name

    @property
    def origins(self) -> tuple[Origin, ...]:
        return self.nest.origins

    @cached_property
    def _reads(self) -> frozenset[str]:
        return self._all(self.nest.reads())

    def reads(self) -> frozenset[str]:
        return self._reads

    @cached_property
    def _writes(self) -> frozenset[str]:
        return self._all(self.nest.writes())

    def writes(self) -> frozenset[str]:
        return self._writes

    def _all(self, buffers: frozenset[str]) -> frozenset[str]:
        positions = [k for k, buffer in enumerate(self.rows[0]) if buffer in buffers]
        return frozenset(row[k] for row in self.rows for k in positions)

    def unrolled(self) -> Iterator[Nest]:
        """Every row as a nest of its own."""
        for number, (row, extent) in enumerate(zip(self.rows, self.extents, strict=True)):
            names = dict(zip(self.rows[0], row, strict=True))
            axes = tuple(Axis(a.name, extent) for a in self.nest.axes)
            places = {old: of_atom(new) for old, new in zip(self.nest.axes, axes, strict=True)}
            row_nest = self.nest.substitute(places, axes).rewrite(renamed(names))
            stores = tuple(replace(s, buffer=names[s.buffer]) for s in row_nest.stores)
            yield Nest(f"{self.name}_{number}", axes, stores, self.origins)


def renamed(names: Mapping[str, str]) -> Change:
    """The change that loads from other buffers."""

    def change(node: Expr, args: tuple[Expr, ...]) -> Expr:
        return rebuild(node, args, (names[node.attr[0]], node.attr[1]) if node.op == "load" else node.attr)

    return change


Step = Nest | Extern | Batch
Opaque = Extern | Batch  # steps that nothing is fused into


def views_of(tree: Any) -> Iterator[View]:
    """All views inside nested tuples, lists and dicts."""
    if isinstance(tree, View):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for item in tree:
            yield from views_of(item)
    elif isinstance(tree, dict):
        for item in tree.values():
            yield from views_of(item)


@dataclass
class Program:
    """What lowering makes of a graph: buffers by name and steps in order. `outputs` are views, or plain Python values."""

    buffers: dict[str, Buffer] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    sizes: tuple[tuple[str, int], ...] = ()  # (input, dim) of each size that kernels are told, in the order of the buffer `dims.SIZES`
    mutated: set[str] = field(default_factory=set)  # inputs that a nest stores into, after everything that reads them
    device: str = "cpu"  # where all its tensors are

    def output_buffers(self) -> frozenset[str]:
        return frozenset(o.buffer for o in self.outputs if isinstance(o, View))
