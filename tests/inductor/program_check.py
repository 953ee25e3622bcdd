"""Runs a generated program in eager and in every compiled form, and compares all that a caller can see.

How far two correct results may lie apart is measured, not guessed: eager runs again a few times with every inexact operator's result
moved by a few units in the last place. An element that such noise moves by d may differ by a small multiple of d; one that it moves from
finite to infinite, or an integer that it changes, is not compared. So chains without rounding are compared exactly.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

import dynamo
from dynamo import config, decisions
from dynamo.aot import aot_module
from dynamo.trace import session
from dynamo.trace.events import Note
from inductor.compile import as_tuple
from inductor.errors import Unsupported
from inductor.ir import interp
from inductor.ir.nest import View
from inductor.ir.verify import verify
from inductor.lowering.graph import lower_graph
from inductor.passes.rewrite import rewrite
from inductor.schedule.check import verify_plan
from inductor.schedule.plan import schedule
from inductor.targets import registry
from minifier.compare.modes import EagerMode
from minifier.fuzz.draw.tensor_programs import Program

aten = torch.ops.aten
# Operators without rounding: data moves, comparisons, selections.
EXACT = frozenset(
    """
    abs alias all amax amin aminmax any arange argmax argmin as_strided bitwise_and bitwise_not bitwise_or bitwise_xor cat ceil
    clamp clamp_max clamp_min clone constant_pad_nd contiguous copy copy_ copysign count_nonzero cummax cummin detach diag_embed
    diagonal embedding empty empty_like empty_strided eq expand eye fill fill_ fill_diagonal flip floor fmax fmin full full_like
    gather ge gt heaviside hstack index index_copy index_fill index_put index_select isfinite isinf isnan le lift_fresh logical_and
    logical_not logical_or logical_xor lt masked_fill max maximum min minimum nan_to_num narrow ne neg new_empty new_empty_strided
    new_full new_ones new_zeros nextafter ones ones_like permute positive relu repeat reshape resize_ roll rot90 round scatter
    scalar_tensor select sgn sign signbit slice sort split squeeze stack t tile to _to_copy transpose tril triu trunc unbind unfold
    unsqueeze view where zero zero_ zeros zeros_like _unsafe_view _reshape_alias set_ slice_scatter select_scatter select_backward
    slice_backward threshold_backward threshold hardtanh hardtanh_backward _local_scalar_dense reflection_pad1d replication_pad1d
    reflection_pad2d reflection_pad3d replication_pad2d replication_pad3d
    bitwise_left_shift bitwise_right_shift __lshift__ __rshift__ is_same_size equal value_selecting_reduction_backward
    """.split()
)
# Their loops of vectors and of single elements differ where the argument is NaN (`test_program_check.py`), and no tag says pointwise.
TWO_LOOPS = frozenset(f"{f}_backward" for f in "elu hardshrink hardswish hardtanh logit softshrink".split())
# One rounding, the same in every correct implementation unless it is fused with another.
ARITHMETIC = frozenset("add sub mul rsub square floor_divide remainder fmod frac".split())
# No rounding at all, but in the remainders that the divisor is added to: those whose sign isn't that of the dividend.
RESTS: dict[str, Callable[..., torch.Tensor]] = {"frac": torch.frac, "fmod": torch.fmod, "remainder": torch.fmod}
# 1.0 is where they come near enough to it, and how near that is differs between implementations; of zero they are 0.5, 0 or 1 exactly.
SATURATING = frozenset("tanh sigmoid erf cos cosh exp exp2".split())
# In a row of nearly equal values, `x * scale - mean * scale` leaves the roundings of two large products where `(x - mean) * scale` is zero;
# so do deviations from a mean that is rounded.
NORMALISATIONS = frozenset(
    "native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit std var std_mean var_mean".split(),
)

# Of these eager adds the numbers to a running mean, which is rounded each time, also where their sum is exact.
RUNNING_MEANS = frozenset("var_mean std_mean".split())

# These do not change by a number that is added to all of a row, but for how its mean is rounded.
SHIFTED = frozenset("native_layer_norm native_group_norm".split())

# Which of two zeros is the extreme is left to the loop that eager runs.
# In eager not with positions (`max(dim)`), in compiled code there too: docs/differences.md.
EXTREMES = frozenset("amax amin clamp clamp_max clamp_min fmax fmin max maximum min minimum".split())
# Eager's loop of vectors has a formula for erf that is right within an eps of 1, not of the result.
NEAR_ONE = frozenset(["erf"])
# In another order a sum of large numbers of both signs keeps other digits of the small ones.
SUMS = frozenset("sum nansum mean".split())
# Of complex ones each part is a sum of two products of rows, which the kernel of a conjugate adds in an order of its own.
MATRIX_PRODUCTS = frozenset("mm bmm mv dot".split())

# Of these eager computes the mean one number after the other, or all at once by their sum; of equal numbers either may leave a rounding.
DEVIATIONS = frozenset("var var_mean std std_mean".split())

INTEGERS = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32, torch.float64: torch.int64}


class Noise(EagerMode):
    """Moves the results of inexact operators by up to `units` in the last place.

    Eager's element-wise kernels run two loops, of vectors and of single elements (tails, strided memory), which may treat NaN otherwise.
    Which of them an element meets is noise too: of these calls some are given strided memory, and some dense. So is the sign of a NaN.
    """

    def __init__(self, seed: int, units: float) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.units = units

    def run(self, op: Any, args: Any, kwargs: Any) -> Any:
        name = op._schema.name.removeprefix("aten::")
        is_exact = name in EXACT or name.removesuffix("_") in EXACT or torch.Tag.inplace_view in op.tags or op.is_view
        saturated = args[0] != 0 if name.removesuffix("_") in SATURATING else None
        rest = RESTS[name.removesuffix("_")](torch.as_tensor(args[0]), *args[1:2]) if name.removesuffix("_") in RESTS else None
        result = op(*args, **kwargs)
        has_loops = name in TWO_LOOPS or (not is_exact and torch.Tag.pointwise in op.tags)
        if has_loops and not op._schema.is_mutable and torch.rand((), generator=self.generator) < 0.7:
            result.copy_(self.one_of(LOOPS)(op, result, args, kwargs))  # the values alone: views of the result depend on its strides
        if name in PRODUCTS and is_product_of_rows(result, args[0]):
            result.copy_(self.one_of(PRODUCTS[name])(result, *args))
        if name in NORMALISATIONS and torch.rand((), generator=self.generator) < 0.5:
            result = computed_in_double(op, result, args, kwargs)
            if name == "native_layer_norm" and args[0].numel() and torch.rand((), generator=self.generator) < 0.5:
                result = (by_deviations(result[0], *args), *result[1:])
        if name in RUNNING_MEANS and is_product_of_rows(result[1], args[0]) and torch.rand((), generator=self.generator) < 0.5:
            result[1].copy_(self.other_mean(result[1], *args[:2]))
        if name in SHIFTED and args[0].numel() and args[0].dtype.itemsize > 2 and torch.rand((), generator=self.generator) < 0.5:
            by = torch.rand((), generator=self.generator) * args[0].detach().abs().nan_to_num(0, 0).amax()
            result = (op(args[0] + by, *args[1:], **kwargs)[0], *result[1:])
        if name in DEVIATIONS and args[0].numel() and args[0].is_floating_point():
            first = result[0] if isinstance(result, tuple) else result
            first.copy_(self.other_deviation(name, first, *args, **kwargs))
        if name.removesuffix("_") in EXTREMES:
            extreme = result[0] if isinstance(result, tuple) else result
            if extreme.is_floating_point():
                self.change_zeros(extreme, *([args[0]] if isinstance(result, tuple) else args))
        if name in SUMS and is_product_of_rows(result, args[0]) and torch.rand((), generator=self.generator) < 0.5:
            result.copy_(self.other_sum(op, result, *args, **kwargs))
        if name in MATRIX_PRODUCTS and result.is_complex() and torch.rand((), generator=self.generator) < 0.5:
            result.copy_(self.other_product(*args))
        if name in NEAR_ONE:
            steps = torch.rand(result.shape, generator=self.generator) * 2 - 1
            result.add_(torch.where(args[0] == 0, 0, steps * torch.finfo(wide_for(result)).eps).to(result.dtype))
        if name in ("gelu", "gelu_backward"):  # at -3 the slope, at -5 the factor, is a difference of numbers near 1
            steps = torch.rand(result.shape, generator=self.generator) * 2 - 1
            eps = min(torch.finfo(result.dtype).eps, torch.finfo(torch.float32).eps)
            result.add_(torch.where(args[0].isfinite(), args[0] * steps * self.units * eps, 0).to(result.dtype))
        if is_exact:
            return result
        for value in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                self.move(value, name.removesuffix("_") in ARITHMETIC, saturated, rest)
        return result

    def change_zeros(self, result: torch.Tensor, first: torch.Tensor, *others: Any) -> None:
        """Zeros with one sign or the other, where the operands have both."""
        tensors = [t for t in (first, *others) if isinstance(t, torch.Tensor)]
        zeros = [t == 0 for t in tensors]
        if len(tensors) == 2:
            both = zeros[0] & zeros[1] & (tensors[0].signbit() != tensors[1].signbit())
        else:
            signs = [t.signbit()[zero] for t, zero in zip(tensors, zeros, strict=True)]
            both = torch.tensor(any(bool(s.any()) for s in signs) and any(bool((~s).any()) for s in signs))
        changed = (result == 0) & both & (torch.rand(result.shape, generator=self.generator) < 0.5)
        result.copy_(torch.where(changed, -result, result))

    def other_sum(self, op: Any, result: torch.Tensor, given: torch.Tensor, dims: Any = None, *rest: Any, **options: Any) -> torch.Tensor:
        """The same numbers added in another order: those of each dim that is added are shuffled, and one after the other added."""
        wide = given.to(options.get("dtype") or given.dtype)
        wide = wide.to(wide_for(wide)) if wide.is_floating_point() else wide.to(result.dtype)
        dims = range(given.dim()) if dims is None or dims == [] else [dims] if isinstance(dims, int) else dims
        rows = self.shuffled(wide, dims)
        if op._schema.name == "aten::nansum":
            rows = rows.nan_to_num(0, torch.inf, -torch.inf)
        total = torch.zeros_like(rows[..., 0])
        for column in rows.unbind(-1):
            total = total + column
        return (total / rows.shape[-1] if op._schema.name == "aten::mean" else total).reshape(result.shape).to(result.dtype)

    def shuffled(self, given: torch.Tensor, dims: Sequence[int]) -> torch.Tensor:
        """The numbers along `dims` in the last dim, in some order."""
        rows = given.movedim([*dims], [*range(-len(dims), 0)]).flatten(-len(dims))
        return rows[..., torch.randperm(rows.shape[-1], generator=self.generator)]

    def other_mean(self, result: torch.Tensor, given: torch.Tensor, dims: Sequence[int] | None = None) -> torch.Tensor:
        """The running mean of the same numbers in another order."""
        mean = torch.zeros((), dtype=wide_for(result))
        for count, column in enumerate(self.shuffled(given.detach().to(wide_for(result)), dims or range(given.dim())).unbind(-1), 1):
            mean = mean + (column - mean) / count
        return mean.reshape(result.shape).to(result.dtype)

    def other_deviation(
        self,
        name: str,
        result: torch.Tensor,
        given: torch.Tensor,
        dims: Sequence[int] | None = None,
        *,
        correction: float | None = None,
        **_: Any,
    ) -> torch.Tensor:
        """A variance or its root by another correct algorithm, the numbers in another order; the result where that is not finite."""
        rows = self.shuffled(given.detach().to(wide_for(result)), dims or range(given.dim()))
        squares = self.one_of(SQUARES)(rows)
        other = squares / max(rows.shape[-1] - (1 if correction is None else correction), 0)
        other = (other.sqrt() if name.startswith("std") else other).reshape(result.shape).to(result.dtype)
        return torch.where(other.isfinite() & result.isfinite(), other, result)

    def other_product(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """The real and the imaginary part apart, each sum in another order."""

        def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            order = torch.randperm(x.shape[-1], generator=self.generator)
            return x.index_select(-1, order) @ y.index_select(max(y.dim() - 2, 0), order)

        real, imag = product(a.real, b.real) - product(a.imag, b.imag), product(a.real, b.imag) + product(a.imag, b.real)
        return torch.complex(real, imag)

    def one_of(self, rows: Sequence[Any]) -> Any:
        return rows[int(torch.randint(len(rows), (), generator=self.generator))]

    def move(
        self, value: torch.Tensor, is_arithmetic: bool, saturated: torch.Tensor | None = None, rest: torch.Tensor | None = None
    ) -> None:
        """Those that saturate stay where they are 1, and rests where they are as they were before any rounding."""
        is_half = value.dtype in (torch.bfloat16, torch.float16)
        if not value.numel() or value._is_zerotensor() or value.device.type == "meta":
            return
        # Operators compute in float32: one number out of 2^13 is so near the middle between two halves that it may become the other.
        units = (0.0 if is_arithmetic else 1.0) if is_half else self.units
        steps = (torch.rand(value.shape, generator=self.generator, dtype=torch.float64) * 2 - 1) * units
        if is_half:
            steps = steps.sign() * units
        wide = value.double()
        moved = wide * (1 + steps * torch.finfo(value.dtype).eps)
        stays = few_bits(wide, value.dtype)
        if saturated is not None:
            stays &= (wide.abs() != 1) | ~saturated
        if rest is not None:
            stays |= value == rest
        value.copy_(torch.where(stays, wide, moved))
        bits = value.view(INTEGERS[value.dtype])  # conversions of NaN lose its sign
        flipped = wide.isnan() & (torch.rand(value.shape, generator=self.generator) < 0.5)
        bits.copy_(torch.where(flipped, bits ^ torch.iinfo(bits.dtype).min, bits))


# Products in other orders and types: a part of one may have become zero or infinite before it meets what is infinite.


def is_product_of_rows(result: torch.Tensor, given: Any) -> bool:
    return isinstance(given, torch.Tensor) and result.is_floating_point() and given.dim() > 0 and given.numel() > 0


def computed_in_double(op: Any, results: Any, args: Any, kwargs: Any) -> Any:
    """The results of an operator on float64 copies of its arguments."""
    wide_args, wide_kwargs = tree_map_only(torch.Tensor, lambda t: t.detach().to(torch.float64, copy=True), (args, kwargs))
    wide = op(*wide_args, **wide_kwargs)
    if isinstance(results, torch.Tensor):
        return wide.to(results.dtype)
    return tuple(w.to(result.dtype) for w, result in zip(wide, results, strict=True))


def by_deviations(result: torch.Tensor, x: torch.Tensor, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> torch.Tensor:
    """A layer norm as its formula is written: bias where a number is the mean of its row. Eager's kernel multiplies a number and the
    mean by the scale, and then subtracts: two more roundings."""
    rows = x.detach().double().flatten(x.dim() - len(shape))
    apart = rows - rows.sum(-1, keepdim=True) / rows.shape[-1]
    normal = (apart * (apart.square().mean(-1, keepdim=True) + eps).rsqrt()).reshape(result.shape)
    normal = normal if weight is None else normal * weight.double()
    return (normal if bias is None else normal + bias.double()).to(result.dtype)


# Sums of squared deviations from the mean of each row.


def running_squares(rows: torch.Tensor) -> torch.Tensor:
    """B. P. Welford, Note on a method for calculating corrected sums of squares and products (1962)."""
    mean = squares = torch.zeros_like(rows[..., 0])
    for count, column in enumerate(rows.unbind(-1), 1):
        apart = column - mean
        mean = mean + apart / count
        squares = squares + apart * (column - mean)
    return squares


def squares_by_sum(rows: torch.Tensor) -> torch.Tensor:
    return (rows - rows.sum(-1, keepdim=True) / rows.shape[-1]).square().sum(-1)


def squares_from_first(rows: torch.Tensor) -> torch.Tensor:
    """Those of the numbers less the first of their row: none of equal numbers."""
    return squares_by_sum(rows - rows[..., :1])


SQUARES = (running_squares, squares_by_sum, squares_from_first)


def wide_for(result: torch.Tensor) -> torch.dtype:
    return result.dtype if result.dtype.itemsize > 2 else torch.float32


def as_it_is(result: torch.Tensor, *args: Any) -> torch.Tensor:
    return result


def exact_product(result: torch.Tensor, given: torch.Tensor, *args: Any) -> torch.Tensor:
    return given.double().prod(*args).to(result.dtype)


def exact_running_product(result: torch.Tensor, given: torch.Tensor, dim: int) -> torch.Tensor:
    return given.double().cumprod(dim).to(result.dtype)


def product_of_halves(result: torch.Tensor, given: torch.Tensor, dim: int | None = None, *rest: Any) -> torch.Tensor:
    wide = given.to(wide_for(result)).flatten() if dim is None else given.to(wide_for(result)).movedim(dim, 0)
    while wide.shape[0] > 1:
        odd, half = wide.shape[0] % 2, wide.shape[0] // 2
        wide = torch.cat([wide[:half] * wide[half : 2 * half], wide[2 * half : 2 * half + odd]])
    return wide.reshape(result.shape).to(result.dtype)


def product_of_pairs(result: torch.Tensor, given: torch.Tensor, dim: int | None = None, *rest: Any) -> torch.Tensor:
    wide = given.to(wide_for(result)).flatten() if dim is None else given.to(wide_for(result)).movedim(dim, 0)
    return running_product(wide, wide, 0)[-1].reshape(result.shape).to(result.dtype)


def running_product(result: torch.Tensor, given: torch.Tensor, dim: int) -> torch.Tensor:
    wide, step = given.to(wide_for(result)), 1
    while step < given.shape[dim]:
        early = torch.cat([torch.ones_like(wide.narrow(dim, 0, step)), wide.narrow(dim, 0, given.shape[dim] - step)], dim)
        wide, step = early * wide, step * 2
    return wide.to(result.dtype)


PRODUCTS: dict[str, tuple[Callable[..., torch.Tensor], ...]] = {
    "prod": (as_it_is, exact_product, product_of_halves, product_of_pairs),
    "cumprod": (as_it_is, exact_running_product, running_product),
}


def in_loop_of_singles(op: Any, result: torch.Tensor, args: Any, kwargs: Any) -> torch.Tensor:
    return op(*(with_gaps(a) if isinstance(a, torch.Tensor) and a.dim() else a for a in args), **kwargs)


def in_loop_of_vectors(op: Any, result: torch.Tensor, args: Any, kwargs: Any) -> torch.Tensor:
    """The last elements too: all operands are made longer."""

    def lengthened(value: torch.Tensor) -> torch.Tensor:
        flat = value.expand(result.shape).reshape(-1)
        return torch.cat([flat, flat[:1].expand(VECTORS)])

    with_dims = [a for a in args if isinstance(a, torch.Tensor) and a.dim()]
    if not result.dim() or not result.numel() or any(torch.broadcast_shapes(a.shape, result.shape) != result.shape for a in with_dims):
        return result
    again = op(*(lengthened(a) if isinstance(a, torch.Tensor) and a.dim() else a for a in args), **kwargs)
    return again[: result.numel()].reshape(result.shape)


def side_by_side(op: Any, result: torch.Tensor, args: Any, kwargs: Any) -> torch.Tensor:
    return op(*(without_gaps(a) if isinstance(a, torch.Tensor) and a.dim() else a for a in args), **kwargs)


VECTORS = 128  # elements: more than any loop of vectors takes at a time
LOOPS = (in_loop_of_singles, in_loop_of_vectors, side_by_side)


def with_gaps(value: torch.Tensor) -> torch.Tensor:
    """The same values in every second element of memory, dims in the order they had."""
    order = sorted(range(value.dim()), key=lambda k: -value.stride(k))
    wide = value.new_zeros([*(value.shape[k] for k in order), 2])[..., 0]
    return wide.permute([order.index(k) for k in range(value.dim())]).copy_(value)


def without_gaps(value: torch.Tensor) -> torch.Tensor:
    """The same values side by side in memory, in the order of rows: that in which all operands must lie for the loop of vectors."""
    return value.clone(memory_format=torch.contiguous_format)


def few_bits(wide: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Numbers so round that they are no result of a rounding: half of the mantissa is zero. In half types, where many are: only 0."""
    if dtype in (torch.bfloat16, torch.float16):
        return (wide == 0) | ~wide.isfinite()
    scale = {torch.float32: 2.0**11, torch.float64: 2.0**26}[dtype]
    mantissa = torch.frexp(wide)[0] * scale
    return (mantissa == mantissa.round()) | ~wide.isfinite()


@dataclass
class Seen:
    """What a caller sees of one run."""

    outputs: list[torch.Tensor]
    inputs: list[torch.Tensor]
    grads: list[torch.Tensor | None] | None = None
    notes: list[str] = field(default_factory=list)

    def tensors(self) -> list[tuple[str, torch.Tensor | None]]:
        found: list[tuple[str, torch.Tensor | None]] = [(f"output {i}", t) for i, t in enumerate(self.outputs)]
        found += [(f"input {i}", t) for i, t in enumerate(self.inputs)]
        return found + [(f"grad {i}", t) for i, t in enumerate(self.grads or ())]


def observe(program: Program, function: Callable[..., Any], mode: Callable[[], Any] | None = None, views_apart: bool = False) -> Seen:
    """Call it once on fresh inputs; gradients of a fixed weighted sum of the outputs where the program wants them.

    `views_apart`: those of outputs that are views of arguments are added last. A compiled function makes such views outside its graph, so
    its gradients have that order, and a sum of three halves is rounded twice.
    """
    args = program.arguments()
    leaves = [a for a in args if a.requires_grad]
    context = mode() if mode is not None else warnings.catch_warnings()
    with context:
        outputs = list(function(*args))
        grads = differentiate(outputs, leaves, views_apart) if leaves else None
    return Seen(outputs, args, grads)


def differentiate(
    outputs: Sequence[torch.Tensor], leaves: list[torch.Tensor], views_apart: bool = False
) -> list[torch.Tensor | None] | None:
    chosen = [o for i, o in enumerate(outputs) if o.requires_grad and not any(o is p for p in (*outputs[:i], *leaves))]
    if not chosen:
        return None
    weights = [(torch.arange(o.numel(), dtype=torch.float64) % 5 - 1.5).to(o.dtype).view(o.shape) for o in chosen]
    memory = {leaf.untyped_storage()._cdata for leaf in leaves}
    apart = [views_apart and o.untyped_storage()._cdata in memory for o in chosen]
    if len(set(apart)) < 2:
        return list(torch.autograd.grad(chosen, leaves, weights, allow_unused=True))
    parts = []
    for kind in (False, True):
        own = [k for k, is_view in enumerate(apart) if is_view == kind]
        outs = [chosen[k] for k in own]
        parts.append(torch.autograd.grad(outs, leaves, [weights[k] for k in own], allow_unused=True, retain_graph=True))
    return [b if a is None else a if b is None else a + b for a, b in zip(*parts, strict=True)]


def interpreting(gm: Any, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[[Sequence[Any]], Any]:
    """A graph compiler: the reference interpreter on the scheduled program. The lowered one must be free of memory faults too."""
    try:
        program, _ = lower_graph(rewrite(gm))
    except Unsupported:
        return lambda inputs: as_tuple(gm(*inputs))
    verify(program, "lower")
    scheduled, _ = lower_graph(rewrite(gm))
    plan = schedule(scheduled, registry.target("cpu"))
    verify(scheduled, "schedule")
    verify_plan(plan)

    def run(inputs: Sequence[Any]) -> tuple[Any, ...]:
        copies = [i.clone(memory_format=torch.preserve_format) if isinstance(i, torch.Tensor) else i for i in inputs]
        generator = torch.get_rng_state()
        interp.run(program, copies)
        torch.set_rng_state(generator)
        outputs = interp.run(scheduled, inputs)[0]
        given = dict(zip(scheduled.inputs, inputs, strict=True))
        return tuple(
            given_back(o, given[o.buffer]) if isinstance(o, View) and o.buffer in given else found
            for o, found in zip(scheduled.outputs, outputs, strict=True)
        )

    return run


def given_back(view: View, base: torch.Tensor) -> torch.Tensor:
    """An output that shows an input: that tensor itself, or the part of it."""
    if view.offset == 0 and view.shape == tuple(base.shape) and view.strides == base.stride():
        return base
    return base.as_strided(view.shape, view.strides, base.storage_offset() + int(view.offset))


def interpreter(gm: Any, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """A backend whose graphs run in the reference interpreter."""
    return aot_module(gm, example_inputs, fw_compiler=interpreting, bw_compiler=interpreting)


def compiled(program: Program, backend: Any, fuel: str) -> Seen:
    with session() as store, decisions.limited(fuel), config.patch(suppress_errors=False):
        try:
            seen = observe(program, dynamo.compile(program.compile(), backend=backend, fullgraph=True))
        except dynamo.GraphBreakError as error:
            if "INTERNAL ASSERT FAILED" not in str(error):
                raise
            # torch has no history for views of subclasses there, and so none for fakes: without `fullgraph` eager runs that line
            seen = observe(program, dynamo.compile(program.compile(), backend=backend))
    seen.notes = [f"{n.id}: {n.message}" for n in store.of(Note)]
    return seen


FORMS: dict[str, tuple[Any, str]] = {"compiled": ("inductor", "all"), "fuel 0": ("inductor", "0"), "interpreted": (interpreter, "all")}


class Difference(AssertionError):
    """A form of the program that a caller can tell from eager."""


def check_program(program: Program, forms: Sequence[str] = tuple(FORMS)) -> list[str]:
    """Raises Difference. Returns the notes of the compiled form: why a graph ran uncompiled."""
    notes: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, error = eager(program)
        bounds = Bounds(program, expected, error)
        for form in forms:
            backend, fuel = FORMS[form]
            try:
                found = compiled(program, backend, fuel)
            except Exception as raised:
                if error is not None and (type(raised) is type(error) or type(raised) in refusals(program)):
                    continue  # both refuse in the backward, maybe for another of several reasons: docs/differences.md
                raise Difference(f"{form} raised {type(raised).__name__}: {raised}\n{program!r}") from raised
            if error is not None:
                continue  # a derivative that eager lacks, and the compiled form has no need of
            compare(form, program, expected, found, bounds)
            notes += found.notes
    return notes


def eager(program: Program) -> tuple[Seen, Exception | None]:
    try:
        return observe(program, program.compile()), None
    except RuntimeError as error:  # in the backward; the forward has run while the program was drawn
        return Seen([], []), error


def refusals(program: Program) -> set[type[Exception]]:
    """What eager raises in backward passes from one output alone."""
    found: set[type[Exception]] = set()
    for i in range(len(program.outputs)):
        args = program.arguments()
        try:
            outputs = program.compile()(*args)
            differentiate([outputs[i]], [a for a in args if a.requires_grad])
        except RuntimeError as error:
            found.add(type(error))
    return found


def refused_below_modes(program: Program) -> str:
    """What eager raises below any mode: some formulas of autograd are others there, and lack cases."""
    try:
        observe(program, program.compile(), EagerMode)
    except RuntimeError as error:
        return str(error)
    return ""


class Bounds:
    """How far noise moves every tensor; more runs are made before a difference is believed."""

    def __init__(self, program: Program, expected: Seen, error: Exception | None) -> None:
        self.program, self.expected = program, expected
        self.runs: list[list[torch.Tensor | None]] = []
        if error is None:
            self.add(range(3), 4.0)

    def add(self, seeds: range, units: float) -> None:
        for seed in seeds:
            try:
                seen = observe(self.program, self.program.compile(), lambda: Noise(seed, units), views_apart=seed % 2 == 1)
            except RuntimeError as error:
                if refused_below_modes(self.program) != str(error):
                    raise
                continue
            self.runs.append([None if t is None else t.detach() for _, t in seen.tensors()])

    def excess(self, at: int, found: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
        """Where the found tensor is further from eager's than it may be."""
        f, e = found.detach(), expected.detach()
        same = (f == e) | (f.isnan() & e.isnan())
        runs = [r for r in (run[at] for run in self.runs) if r is not None and r.shape == e.shape]
        if not e.is_floating_point():
            steady = torch.ones_like(same)
            for r in runs:
                steady &= r == e
            return ~same & steady
        wide, other = e.double(), f.double()
        finite = wide.isfinite()
        spread, steady = torch.zeros_like(wide), torch.ones_like(same)
        for r in map(torch.Tensor.double, runs):
            steady &= (r == wide) | (r.isnan() & wide.isnan()) | (r.isfinite() & finite)
            spread = torch.maximum(spread, torch.where(r.isfinite() & finite, (r - wide).abs(), 0.0))
        info = torch.finfo(e.dtype)
        steps = len(self.program.body) + 2
        # Inside one operator (a normalisation) small results are differences of large numbers.
        largest = float(wide[finite].abs().max().clamp(max=100)) if bool(finite.any()) else 0.0
        if e.dtype in (torch.bfloat16, torch.float16):
            allowed = 2 * spread + wide.abs().clamp(min=info.tiny) * info.eps + largest * torch.finfo(torch.float32).eps
        else:
            allowed = 4 * spread + (wide.abs() * steps * 2 + largest) * info.eps
        near = finite & other.isfinite() & ((wide - other).abs() <= allowed)
        near |= finite & other.isinf() & (allowed > wide.abs())  # no digit is certain: of a quotient, the divisor may as well be zero
        return ~same & ~near & steady


# Whether two roundings of one number are equal is met by little noise; of zeros of a sum, which only its order makes, every fiftieth or so.
BY_CHANCE = ((range(340, 440), 1.0), (range(140, 340), 0.0))


def compare(form: str, program: Program, expected: Seen, found: Seen, bounds: Bounds) -> None:
    def fail(what: str) -> None:
        raise Difference(f"{form}: {what}\n{program!r}")

    for kind in ("outputs", "inputs"):
        if len(getattr(found, kind)) != len(getattr(expected, kind)):
            fail(f"{len(getattr(found, kind))} {kind} instead of {len(getattr(expected, kind))}")
    if (found.grads is None) != (expected.grads is None):
        fail("only one of both has gradients")
    pairs = list(zip(expected.tensors(), found.tensors(), strict=True))
    for at, ((name, e), (_, f)) in enumerate(pairs):
        if e is None or f is None:
            if e is not f:
                fail(f"{name} is {'None' if f is None else 'a tensor'}")
            continue
        for fact, of in FACTS.items():
            if name.startswith("grad") and fact == "strides":
                continue  # eager's own depend on what the engine accumulates first
            if name.startswith("grad") and fact == "requires_grad" and not e.numel():
                continue  # without elements the gradient of a running extreme is its argument
            if of(e) != of(f):
                fail(f"{name} has {fact} {of(f)} instead of {of(e)}")
        if bool(bounds.excess(at, f, e).any()):
            if len(bounds.runs) < 10:
                bounds.add(range(100, 140), 16.0)
                bounds.add(range(60, 80), 0.0)  # equal numbers stay equal
            for seeds, units in BY_CHANCE if not e.is_floating_point() else ():
                if bool(bounds.excess(at, f, e).any()):
                    bounds.add(seeds, units)
            wrong = bounds.excess(at, f, e)
            if bool(wrong.any()):
                where = f"at {wrong.nonzero()[0].tolist()} ({int(wrong.sum())} of {wrong.numel()})"
                fail(f"{name} differs {where}: {f[wrong][0]} instead of {e[wrong][0]}")
    if sharing(found) != sharing(expected):
        fail(f"shares memory like {sharing(found)} instead of {sharing(expected)}")


def strides_that_matter(t: torch.Tensor) -> Any:
    return [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] if t.numel() else None


FACTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "dtype": lambda t: t.dtype,
    "shape": lambda t: tuple(t.shape),
    "strides": strides_that_matter,
    "requires_grad": lambda t: t.requires_grad,
}


def sharing(seen: Seen) -> list[tuple[int, int]]:
    """Per output and input: the first tensor in the same memory, and how far behind where that begins."""
    first: dict[int, int] = {}
    found = []
    tensors = [*seen.inputs, *seen.outputs]
    for i, t in enumerate(tensors):
        storage = t.untyped_storage()._cdata
        at = first.setdefault(storage, i) if t.numel() else i
        found.append((at, t.storage_offset() - tensors[at].storage_offset()))
    return found
