"""Attention whose scores functions of the program change: an extern call that says enough for a target to make kernels of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from inductor.ir.affine import Axis, Index, of_atom
from inductor.ir.dims import Dim
from inductor.ir.expr import Expr, load
from inductor.ir.nest import Extern, Origin, View

SCORE, BEHIND = "score", "behind"  # buffers that stand for the score, and for the gradient of what becomes of it
BLOCKS = (
    "kv_num_blocks",
    "kv_indices",
    "full_kv_num_blocks",
    "full_kv_indices",
    "q_num_blocks",
    "q_indices",
    "full_q_num_blocks",
    "full_q_indices",
)


@dataclass(frozen=True)
class Formulas:
    """What becomes of one score, over the axes of its place. Loads of `SCORE`, `BEHIND`, `read0` and so on stand for what is given.

    `mask` is None where nothing is left out; `grad` is the gradient of the score. `rows`, `columns`: of a block of the mask, 0 without one;
    `there` are the tensors of the mask that the call has. `learned` are elements that `score` reads of tensors which need gradients: the
    load, the gradient of what it gives, and the number of the result that this is added to. `owner`: user lines of a value.
    """

    axes: tuple[Axis, Axis, Axis, Axis]
    score: Expr
    mask: Expr | None
    grad: Expr | None
    scale: float
    rows: int
    columns: int
    there: tuple[str, ...]
    owner: Mapping[Expr, tuple[Origin, ...]] = field(default_factory=dict, compare=False)
    learned: tuple[tuple[Expr, Expr, int], ...] = ()


@dataclass(frozen=True)
class Attention(Extern):
    """`roles`: what the call is given, by name, and `results`, in the order of `outs`."""

    formulas: Formulas | None = None

    def as_call(self) -> Extern:
        """The call alone, which no target makes kernels of."""
        return Extern(**{f.name: getattr(self, f.name) for f in fields(Extern)})

    @property
    def results(self) -> tuple[str, ...]:
        assert self.formulas is not None
        if self.formulas.learned:
            return tuple(f"learned{k}" for k in range(len(self.outs)))
        return ("query_grad", "key_grad", "value_grad") if self.formulas.grad is not None else ("out", "sums")

    @property
    def roles(self) -> dict[str, View]:
        assert self.formulas is not None
        *tensors, _, blocks, captured = self.args
        names = ("query", "key", "value") if self.results[0] == "out" else ("grad", "query", "key", "value", "sums", "delta")
        found = dict(zip(names, tensors, strict=True)) | dict(zip(self.formulas.there, blocks, strict=True))
        return found | {f"read{k}": view for k, view in enumerate(captured)}


def axes_of(batches: Dim, heads: Dim, rows: Dim, columns: Dim) -> tuple[Axis, Axis, Axis, Axis]:
    return Axis("b", batches), Axis("h", heads), Axis("q_idx", rows), Axis("kv_idx", columns)


def at_place(buffer: str, axes: tuple[Axis, ...], lengths: tuple[Dim, ...]) -> Expr:
    """The number of a place, of a buffer that has one for each."""
    return load(buffer, "f32", place(axes, lengths))


def place(axes: tuple[Axis, ...], lengths: tuple[Dim, ...]) -> Index:
    index = of_atom(axes[0])
    for axis, length in zip(axes[1:], lengths[1:], strict=True):
        index = index * length + of_atom(axis)
    return index
