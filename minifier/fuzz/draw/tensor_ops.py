"""The statements of generated tensor programs: one function per kind, which draws operands and gives a line of Python or None.

A line may be one that eager refuses; the writer drops it. What has no defined result is kept out here: integer division by zero,
casts of numbers that the integer type can't hold, memory that two elements share as the target of a write.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import torch

from minifier.fuzz.draw.writer import Writer

Kind = Callable[[Writer], "str | None"]

UNARY = (
    "torch.neg", "torch.abs", "torch.relu", "torch.exp", "torch.sigmoid", "torch.tanh", "torch.sqrt", "torch.square", "torch.sin",
    "torch.cos", "torch.log", "torch.rsqrt", "torch.reciprocal", "torch.floor", "torch.ceil", "torch.round", "torch.trunc", "torch.sign",
    "torch.erf", "torch.expm1", "torch.log1p", "torch.isnan", "torch.isinf", "torch.isfinite", "torch.logical_not", "torch.signbit",
    "torch.frac", "torch.atan", "torch.exp2", "torch.log2", "torch.log10", "torch.erfc", "torch.nan_to_num", "torch.sgn",
    "torch.positive", "torch.deg2rad", "torch.bitwise_not", "torch.asin", "torch.sinh", "torch.cosh", "torch.tan", "torch.clone",
    "torch.detach", "torch.zeros_like", "torch.ones_like", "torch.asinh", "torch.acosh", "torch.atanh", "torch.acos", "torch.logit",
    "F.gelu", "F.silu", "F.softplus", "F.elu", "F.leaky_relu", "F.hardtanh", "F.hardswish", "F.mish", "F.relu6", "F.logsigmoid", "F.selu",
    "F.celu", "F.hardsigmoid", "F.tanhshrink", "F.softsign", "F.hardshrink", "F.softshrink",
)  # fmt: skip
BINARY = (
    "torch.add", "torch.mul", "torch.sub", "torch.maximum", "torch.minimum", "torch.gt", "torch.lt", "torch.eq", "torch.ne", "torch.ge",
    "torch.le", "torch.div", "torch.logical_and", "torch.logical_or", "torch.logical_xor", "torch.fmax", "torch.fmin", "torch.atan2",
    "torch.hypot", "torch.copysign", "torch.pow", "torch.bitwise_and", "torch.bitwise_or", "torch.bitwise_xor", "torch.logaddexp",
    "torch.xlogy", "torch.nextafter", "torch.heaviside", "torch.rsub",
)  # fmt: skip
DIVISIONS = ("torch.remainder({}, {})", "torch.fmod({}, {})", "torch.floor_divide({}, {})", "torch.div({}, {}, rounding_mode='trunc')")
WITH_SCALAR = (
    "{v} + {s}", "{v} * {s}", "{s} - {v}", "{s} / {v}", "{v} / {s}", "{v} > {s}", "{v} == {s}", "{v} ** 2", "{v} ** 3", "{v} ** 0.5",
    "{v} ** -1.0", "torch.clamp({v}, {s}, 2)", "torch.clamp({v}, min={s})", "torch.clamp({v}, max={s})", "{v} <= {s}", "{v} != {s}",
    "{v} // 2", "{v} % 3", "torch.fmod({v}, 3)", "{v} & 3", "{v} | 1", "{v} ^ 5", "{v} << 1", "{v} >> 1",
    "torch.maximum({v}, torch.tensor({s}))", "torch.masked_fill({v}, {v} > {s}, {s})", "torch.where({v} > {s}, {v}, {s})",
    "torch.where({v} > {s}, {s}, {v})", "{s} ** {v}", "torch.full_like({v}, {s})", "torch.threshold({v}, {s}, 0.25)",
    "torch.rsub({v}, {s})", "torch.xlogy({v}, {s})",
)  # fmt: skip
SCALARS = ("2", "0.5", "1", "0", "-1", "-1.5", "3", "1e-3", "100", "True", "float('inf')", "float('nan')", "-0.0", "0.1")
DTYPES = ("float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "bool", "int8", "int16")
# Of 16-bit values nansum and nanmean are taken in float32: ATen adds several dims of them in 16 bits, further from the truth than we are.
REDUCTIONS = (
    "{v}.sum({d})", "{v}.mean({d})", "{v}.amax({d})", "{v}.amin({d})", "{v}.any({d})", "{v}.all({d})", "{v}.var({d})", "{v}.std({d})",
    "torch.logsumexp({v}, {d})", "torch.linalg.vector_norm({v}, 2, {d})", "{v}.var({d}, correction=0)", "torch.count_nonzero({v}, {d0})",
    "{v}.float().nansum({d})", "{v}.norm(p=1, dim={d0})", "torch.linalg.vector_norm({v}, float('inf'), {d})", "{v}.float().nanmean({d})",
    "torch.linalg.vector_norm({v}, 0, {d})",
)  # fmt: skip
ONE_DIM = (
    "{v}.sum({d}{k})", "{v}.argmax({d}{k})", "{v}.argmin({d}{k})", "{v}.prod({d}{k})", "{v}.mean({d}{k})", "{v}.amax({d}{k})",
    "{v}.max({d}{k})[0]", "{v}.min({d}{k})[1]", "{v}.any({d}{k})", "{v}.all({d}{k})", "{v}.std({d}{k})", "torch.var_mean({v}, {d}{k})[1]",
    "torch.aminmax({v}, dim={d}{k})[1]", "{v}.max({d}{k})[1]",
)  # fmt: skip
SAME_SHAPE = (
    "torch.softmax({v}, {d})", "torch.log_softmax({v}, {d})", "{v}.cumsum({d})", "{v}.cumprod({d})", "{v}.flip({d})",
    "{v}.roll({n}, {d})", "F.normalize({v}.float(), dim={d})", "F.softmin({v}, {d})", "torch.softmax({v}, {d}, dtype=torch.float32)",
    "torch.logcumsumexp({v}, {d})", "{v}.cummax({d})[0]", "{v}.sort({d}, stable=True)[0]", "{v}.argsort({d}, stable=True)",
    "torch.diff({v}, dim={d})", "{v}.cummin({d})[1]",
)  # fmt: skip
WHOLE = (
    "{v}.sum()", "{v}.mean()", "{v}.max()", "{v}.min()", "{v}.any()", "{v}.all()", "{v}.prod()", "{v}.argmax()", "{v}.var()",
    "{v}.norm()", "{v}.std(correction=0)", "F.mse_loss({v}, torch.zeros_like({v}))", "{v}.flatten()", "{v}.t()", "{v}.mT",
    "{v}.contiguous()", "{v}.tril()", "{v}.triu(1)", "{v}.reshape(-1, 1)", "{v}.squeeze()", "{v}.unsqueeze(-1)", "{v}.diagonal()",
    "{v}.repeat(2, *[1] * ({v}.ndim - 1))", "{v}.unflatten(0, (-1, 1))", "torch.rot90({v})", "{v}.tril(-1)", "{v}[None]",
    "{v}[..., None]", "{v}.ravel()", "torch.diag_embed({v})", "{v}.view(-1)", "{v}.expand(2, *{v}.shape)", "{v}.repeat_interleave(2)",
    "{v}.roll(1)", "{v}.roll((1, -1), (0, -1))", "torch.stack([{v}, {v}], 1)",
    "torch.atleast_2d({v})", "{v}.new_ones({v}.shape)", "torch.arange({v}.numel()).view({v}.shape) + {v}", "torch.eye(3) * {v}.sum()",
    "{v}.swapaxes(0, -1)", "{v}.movedim(0, -1)", "{v}.view_as({v})", "F.layer_norm({v}, {v}.shape[-1:])", "F.layer_norm({v}, {v}.shape)",
    "F.dropout({v}, 0.5, training=False)", "F.glu({v})", "{v}.contiguous().sum(-1)", "F.rms_norm({v}, {v}.shape[-1:])",
    "F.gelu({v}, approximate='tanh')", "torch.cat([{v}, {v}])", "torch.tile({v}, (2,))",
)  # fmt: skip
PADS = (
    "F.pad({v}, (1, 2))", "F.pad({v}, (1, 0), value=2.0)", "F.pad({v}, (0, -1))", "F.pad({v}, (1, 1, 2, 0), value=-1)",
    "F.pad({v}, (-1, 2, 0, 1))", "F.pad({v}, (1, 1), mode='replicate')", "F.pad({v}, (1, 0), mode='reflect')",
    "F.pad({v}, (1, 1, 1, 1), mode='reflect')", "F.pad({v}, (1, 0, 0, 1), mode='replicate')", "F.pad({v}, (0, 1, 1, 0), mode='circular')",
    "F.pad({v}, (1, 1), mode='circular')", "F.pad({v}, (1, 1), value=float('inf'))",
    "F.pad({v}, (-1, 1), mode='reflect')", "F.pad({v}, (2, -1), mode='replicate')", "F.pad({v}, (-1, 1), mode='circular')",
    "F.pad({v}, (-1, 1, 1, -1), mode='reflect')", "F.pad({v}, (1, -1, -1, 2), mode='replicate')",
    "F.pad({v}, (0, 1, -1, 1), mode='circular')", "F.pad({v}, (1, 0, -1, 1, 1, 0), mode='reflect')",
    "F.pad({v}, (0, 1, 1, -1, 0, 1), mode='replicate')", "F.pad({v}, (-1, -1, 1, 0), value=0.5)", "F.pad({v}, (1, -2, 0, 0, -1, 1))",
    "F.pad({v}[None, None], (1, 1, 0, 1), mode='reflect')", "F.pad({v}[None, None], (-1, 2), mode='replicate')",
)  # fmt: skip
TERNARY = (
    "torch.where({c}, {a}, {b})", "torch.addcmul({a}, {b}, {b}, value=0.5)", "torch.lerp({a}, {b}, 0.25)", "torch.clamp({a}, {b}, {b})",
    "torch.addcdiv({a}, {b}, {b})", "torch.add({a}, {b}, alpha=2)", "torch.sub({a}, {b}, alpha=0.5)", "{a} * {b} + {a}",
    "{a} * {b} - {b} * {b}", "torch.where({c}, {a}, 0.0)", "torch.masked_fill({a}, {c}, -1)", "torch.lerp({a}, {b}, {a})",
    "torch.where({c}, 1, {a})", "F.smooth_l1_loss({a}, {b})", "F.mse_loss({a}, {b}, reduction='none')",
    "F.binary_cross_entropy_with_logits({a}, {b})", "F.huber_loss({a}, {b})", "{a}.type_as({b})", "{a}.expand_as({b})",
    "torch.isclose({a}, {b})", "torch.broadcast_tensors({a}, {b})[0]", "torch.dist({a}, {b})",
)  # fmt: skip
IN_PLACE = (
    "{t}.add_({b})", "{t}.mul_({b})", "{t}.copy_({b})", "{t}.zero_()", "{t}.fill_({s})", "{t}.add_({s})", "{t}.mul_({s})",
    "{t}.sub_({b})", "{t}.relu_()", "{t}.neg_()", "{t}.clamp_(-1, 1)", "{t}.div_({b})", "{t}.masked_fill_({b} > {s}, {s})", "{t}.abs_()",
    "{t}.exp_()", "{t}.sigmoid_()", "{t}.maximum({b})", "{t}.addcmul_({b}, {b})", "{t}.lerp_({b}, 0.5)", "{t}.pow_(2)",
    "{t}.logical_not_()", "{t}.cumsum_(0)", "{t}.tril_()", "{t}.fill_diagonal_({s})", "{t}.sqrt_()", "torch.add({b}, {s}, out={t})",
    "torch.mul({t}, {b}, out={t})", "{t}.bitwise_and_(3)", "{t}.gt_({b})", "{t}.eq_({b})", "{t}.square_()", "{t}.transpose_(0, -1)",
    "{t}.unsqueeze_(0)", "{t}.squeeze_()", "{t}.t_()", "torch.sum({b}, 0, out={t})", "{t}.data.add_(1)", "{t}.detach().mul_(2)",
)  # fmt: skip
REARRANGED = (  # the target's own elements, from other places; eager reads them all before it writes
    "{t}.copy_({t}.flip({d}))", "{t}.copy_({t}.mT * 1)", "{t}.copy_({t}.roll({n}, {d}))", "{t}[1:] = {t}[:-1].clone()",
    "{t}[:-1].copy_({t}[1:] * 1)", "{t}[..., 1:] += {t}[..., :-1].clone()", "{t}.copy_({t}.transpose(0, -1).contiguous())",
    "{t}.copy_({t}.flip({d}) + {t})", "{t}.mul_({t}.flip({d}).clone())", "{t}.copy_({t}.amax({d}, keepdim=True) - {t}.flip({d}))",
    "{t}.copy_({t}.index_select({d}, torch.arange({t}.shape[{d}]).flip(0)))", "{t}.copy_(torch.rot90({t}, 2))",
    "{t}.copy_(torch.cat([{t}[1:], {t}[:1]]))", "torch.add({t}.flip({d}) * 1, {t}, out={t})", "{t}.transpose(0, -1).copy_({t} * 1)",
    "{t}.copy_({t}.cumsum({d}).flip({d}))", "{t}[:] = {t}.mT.contiguous()", "{t}[0], {t}[-1] = {t}[-1].clone(), {t}[0].clone()",
    "{f} = {t}.flip({d}); {t}.copy_({u}.flip({d})); {u}.copy_({f})", "{f} = {t} + 1; {t}.copy_({u}.clone()); {u}.copy_({f})",
)  # fmt: skip
INTO = (  # results of another dtype, in memory that is there or that is given its shape
    "torch.cumsum({v}, {d}, out={o})", "torch.add({v}, {v}, out={o})", "torch.sum({v}, {d}, out={o})", "torch.mul({v}, 0.5, out={o})",
    "torch.prod({v}, {d}, out={o})", "torch.cumprod({v}, {d}, out={o})", "torch.mean({v}, {d}, out={o})", "torch.neg({v}, out={o})",
    "torch.nansum({v}, {d}, out=torch.zeros(()))", "torch.cat([{v}, {v}], out={o})", "torch.gt({v}, 0, out={o})",
    "torch.sum({v}, {d}, True, out={o})", "torch.where({v} > 0, {v}, 1, out={o})", "torch.amax({v}, {d}, out={o})",
    "torch.sub({v}, 1.5, out={o})", "torch.div({v}, 3, out={o})", "torch.clamp({v}, -1, 1, out={o})", "torch.stack([{v}, {v}], out={o})",
    "torch.maximum({v}, {v}.flip({d}), out={o})", "torch.addcmul({v}, {v}, {v}, out={o})", "torch.var({v}, {d}, out={o})",
    "torch.logsumexp({v}, {d}, out={o})", "torch.argmax({v}, {d}, out={o})", "torch.any({v}, {d}, out={o})", "torch.eq({v}, 1, out={o})",
    "torch.pow({v}, 2, out={o})", "torch.remainder({v}, 3, out={o})", "torch.tril({v}, out={o})",
    "torch.index_select({v}, {d}, torch.arange(1), out={o})",
    "torch.arange(5, out={o})", "torch.full((2, 3), 1.5, out={o})", "torch.zeros((2, 3), out={o})", "torch.linspace(0, 4, 5, out={o})",
    "torch.sgn({v}, out={o})", "torch.softmax({v}, {d}, out={o})", "torch.add({v}.t(), {v}.t(), alpha=2, out={o})",
    "torch.logical_and({v}, {v}, out={o})", "torch.std({v}, {d}, out={o})", "torch.ceil({v}, out={o})",
)  # fmt: skip
FACTORIES = (  # of a dtype, a layout, a memory format
    "torch.zeros({v}.shape, dtype=torch.{y})", "torch.ones_like({v}, dtype=torch.{y})", "torch.full_like({v}, {s}, dtype=torch.{y})",
    "torch.full({v}.shape, {s}, dtype=torch.{y})", "torch.arange({n}, dtype=torch.{y})", "torch.arange({n}, -3, -2, dtype=torch.{y})",
    "{v}.new_full((2, 3), {s}, dtype=torch.{y})", "{v}.new_zeros((3,), dtype=torch.{y})", "torch.eye(3, 2, dtype=torch.{y})",
    "torch.zeros_like({v}, memory_format=torch.contiguous_format)", "torch.ones_like({v}, layout=torch.strided)",
    "torch.zeros_like({v}, memory_format=torch.channels_last)", "torch.empty_like({v}, dtype=torch.{y}).fill_({s})",
    "torch.empty_strided((2, 3), (1, 2), dtype=torch.{y}).fill_({s})", "torch.empty_permuted((2, 3, 4), (0, 2, 1)).fill_({s})",
    "torch.linspace(0, 1, 5, dtype=torch.{y})", "torch.linspace(-3, {n}, 7)", "torch.tensor([1, 2, 3], dtype=torch.{y})",
    "torch.tensor([[0.5, {s}]])", "torch.full((2,), {s})", "torch.full((), {s}, dtype=torch.{y}) + {v}", "torch.scalar_tensor({s})",
    "{v}.new_tensor([1, 2], dtype=torch.{y})", "torch.tril_indices(3, 4, dtype=torch.int32)", "torch.empty((3, 0), dtype=torch.{y})",
    "{v}.new_ones((2, 2), layout=torch.strided)", "torch.ones({v}.shape, dtype=torch.{y}) * {v}", "torch.arange(0, 3, 0.5)",
    "torch.rand_like({v}.float()) * 0 + {v}", "torch.full_like({v}, {s}, memory_format=torch.contiguous_format)",
    "torch.clone({v}, memory_format=torch.contiguous_format)", "{v}.to(memory_format=torch.channels_last)", "torch.hann_window(5)",
)  # fmt: skip
TRANSFORMS = (  # of torch.func, around `e`, which is of s and t
    "torch.vmap(lambda s, t: {e})({a}, {b})", "torch.func.grad(lambda s, t: ({e}).sum())({a}, {b})",
    "torch.func.jvp(lambda s: (lambda t: {e})({b}), ({a},), ({b},))[1]",
    "torch.vmap(lambda s, t: {e}, in_dims=({d}, None), out_dims=-1)({a}, {b}.select({d}, 0))",
    "torch.vmap(torch.func.grad(lambda s, t: ({e}).sum()))({a}, {b})", "torch.func.jacrev(lambda s, t: {e})({a}, {b}).sum(0)",
    "torch.func.jacfwd(lambda s, t: {e})({a}, {b}).sum(0)", "torch.func.hessian(lambda s, t: ({e}).sum())({a}, {b}).sum(0)",
    "torch.func.grad(lambda s, t: torch.func.grad(lambda s, t: ({e}).sum())(s, t).sum())({a}, {b})",
    "torch.func.vmap(lambda s, t: torch.func.jvp(lambda s: {e}, (s,), (t,))[1])({a}, {b})",
)  # fmt: skip
WITHIN = (
    "({e}).sin()", "({e}) * t", "torch.relu({e})", "({e}) ** 2", "torch.softmax({e}, -1)", "({e}).cumsum(-1)", "({e}).flip(-1)",
    "torch.where(({e}) > 0, {e}, t)", "({e}) - ({e}).mean()", "torch.tanh({e})", "({e}).clone().mul_(t)", "({e}).view_as(t)",
    "({e}).mul(2.0)", "t - ({e})", "({e}).amax(-1, keepdim=True) * t", "torch.sigmoid({e})", "({e}) @ ({e}).mT @ t",
)  # fmt: skip
COMPLEX = (
    "torch.view_as_real(torch.complex({a}, {b}).conj().resolve_conj())", "(torch.complex({a}, {b}) * torch.complex({b}, {a}).conj()).real",
    "torch.complex({a}, {b}).conj().imag + 1", "torch.complex({a}, {b}).mT.conj().real.clone()", "torch.complex({a}, {b}).abs()",
    "torch.view_as_real(torch.complex({a}, {b}).conj() @ torch.complex({a}, {b}).mT)",
    "torch.view_as_complex(torch.stack([{a}, {b}], -1)).imag",
    "torch.view_as_real(F.conv1d(torch.complex({a}, {b})[None], torch.complex({a}, {b})[None].conj()))",
    "torch.complex({a}, {b}).conj().sum().imag",
)  # fmt: skip
ASSIGN = ("{v}{i} = {b}", "{v}{i} += {b}", "{v}{i} = {s}", "{v}{i} *= {s}", "{v}[{v} > 0] = {s}", "{v}{i} = {v}{j}.clone()")
ROWS_OF = (
    "torch.index_select({v}, {d}, {i})", "torch.gather({v}, {d}, {x})", "torch.take_along_dim({v}, {x}, {d})", "{v}[{i}]",
    "{v}.index_add({d}, {i}, {w})", "torch.scatter({v}, {d}, {x}, 2)", "torch.scatter_add({v}, {d}, {x}, {v})",
    "{v}.index_copy({d}, torch.arange({v}.shape[{d}]), {v})", "{v}.index_fill({d}, {i}, 1)",
    "torch.scatter_reduce({v}, {d}, {x}, {v}, 'amax')", "{v}.index_put(({i},), torch.tensor(1).to({v}.dtype), accumulate=True)",
    "F.embedding({i}, {v})", "F.one_hot({i} % 9, 9)", "{v}.take({x} % max({v}.numel(), 1))", "{v}[..., {i}]", "{v}[{i}, {i}]",
    "{v}[:, {i}]", "{v}[{i}] * 2",
)  # fmt: skip
MATMULS = (
    "{a} @ {b}", "{a} @ {a}.mT", "torch.outer({a}.flatten(), {b}.flatten())", "F.linear({a}, {b})", "({a}.unsqueeze(-1) * {b}).sum(-2)",
    "torch.einsum('...i,...i->...', {a}, {b})", "{a}.mT @ {a}", "torch.dot({a}.flatten(), {a}.flatten())",
    "torch.einsum('...ij,...kj->...ik', {a}, {b})", "torch.relu({a} @ {a}.mT + 1)", "torch.mv({a}, {b})",
    "torch.addmm({a}, {b}, {b}.t())", "torch.cdist({a}, {b})",
)  # fmt: skip


def overlaps(t: torch.Tensor) -> bool:
    """Two elements share memory: a write would have no defined result."""
    reach = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True)) + 1
    places = torch.arange(max(reach, 1)).as_strided(t.shape, t.stride())
    return bool(t.numel() and places.unique().numel() != t.numel())


def shares_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage()._cdata == b.untyped_storage()._cdata


def may_write(target: torch.Tensor, source: torch.Tensor) -> bool:
    """Reading one and writing the other, element by element, has one defined result."""
    if source.requires_grad and source.ndim == 0 and not target.is_floating_point():
        return False  # eager fills, and gives integers a history that it cannot use
    if not shares_memory(target, source):
        return True
    return target.data_ptr() == source.data_ptr() and (target.shape, target.stride()) == (source.shape, source.stride())


def shared_inputs(t: torch.Tensor, name: str) -> list[str]:
    """Other looks at an input's memory, all of them in range."""
    found = [name, f"{name}.view_as({name})"]
    if t.ndim >= 1:
        found += [f"{name}[1:]", f"{name}.transpose(0, -1)", f"{name}[::2]"]
    return found


def unary(w: Writer) -> str:
    return f"{w.fresh()} = {w.one_of(UNARY)}({w.any_name()})"


def binary(w: Writer) -> str:
    op, a = w.one_of(BINARY), w.any_name()
    b = w.partner(a)
    if op == "torch.pow" and not w.value(b).is_floating_point():
        b = f"{b} % 4"  # eager refuses negative integer exponents when it runs, not by type
    return f"{w.fresh()} = {op}({a}, {b})"


def divide(w: Writer) -> str:
    op, a = w.one_of(DIVISIONS), w.any_name()
    b = w.partner(a)
    if not w.value(a).is_floating_point() and not w.value(b).is_floating_point():
        b = f"{b} % 7 + 1"
    return f"{w.fresh()} = {op.format(a, b)}"


def scalar(w: Writer) -> str | None:
    text, v = w.one_of(WITH_SCALAR), w.any_name()
    if w.value(v).dtype == torch.bool and ("<<" in text or ">>" in text):
        return None  # eager shifts truth values, its own shape rules refuse
    s = w.one_of(SCALARS)
    if text == "{s} ** {v}" and s == "True":
        return None  # eager takes it, no dispatch mode can see it (c10::Scalar has no such constant)
    return f"{w.fresh()} = {text.format(v=v, s=s)}"


def condition(w: Writer, like: str) -> str:
    found = w.partner(like, lambda t: t.dtype == torch.bool)
    return found if w.value(found).dtype == torch.bool else f"{found} > 0"


def ternary(w: Writer) -> str:
    text, a = w.one_of(TERNARY), w.any_name()
    b = w.partner(a)
    return f"{w.fresh()} = {text.format(a=a, b=b, c=condition(w, a))}"


def cast(w: Writer) -> str:
    to, v = w.one_of(DTYPES), w.any_name()
    if w.value(v).is_floating_point() and to not in ("bool", *DTYPES[:4]):
        top = {"uint8": (0, 200), "int8": (-100, 100)}.get(to, (-20000, 20000))
        return f"{w.fresh()} = torch.nan_to_num({v}).clamp{top}.to(torch.{to})"
    return f"{w.fresh()} = {v}.to(torch.{to})"


def dims_text(w: Writer, v: str) -> str:
    rank = w.value(v).ndim
    chosen = [d for d in range(rank) if w.number(0, 1) == 0]
    return f"{tuple(chosen)}" if chosen or w.chance(10) else f"{tuple(range(rank))}"


def reduction(w: Writer) -> str | None:
    v = w.name_where(lambda t: t.ndim > 0)
    if v is None:
        return None
    text = w.one_of(REDUCTIONS).format(v=v, d=dims_text(w, v), d0=w.dim_of(v))
    return f"{w.fresh()} = {text[:-1]}, keepdim=True)" if w.chance(40) and "count_nonzero" not in text else f"{w.fresh()} = {text}"


def one_dim(w: Writer) -> str | None:
    v = w.name_where(lambda t: t.ndim > 0)
    if v is None:
        return None
    return f"{w.fresh()} = {w.one_of(ONE_DIM).format(v=v, d=w.dim_of(v), k=', keepdim=True' if w.chance(40) else '')}"


def same_shape(w: Writer) -> str | None:
    v = w.name_where(lambda t: t.ndim > 0)
    if v is None:
        return None
    return f"{w.fresh()} = {w.one_of(SAME_SHAPE).format(v=v, d=w.dim_of(v), n=w.number(-2, 3))}"


def whole(w: Writer) -> str:
    return f"{w.fresh()} = {w.one_of(WHOLE).format(v=w.any_name())}"


def pad(w: Writer) -> str | None:
    """Of a value with as many dims as the row pads, and one for channels where it does not pad with a number."""
    text, v = w.one_of(PADS), w.any_name()
    widths = [int(width) for width in re.findall(r"-?\d+", text.partition(", (")[2].partition(")")[0])]
    if "circular" in text and any(extent + width < 1 for extent, width in zip(w.value(v).shape[::-1], widths[::2], strict=False)):
        return None  # nothing is left to repeat: eager's result is memory that nobody has written
    wanted = len(widths) // 2 + ("mode=" in text)
    missing = wanted - w.value(v).ndim
    leading = f".expand({'3, ' * missing}*{v}.shape)" if missing > 0 and "[None" not in text else ""
    return f"{w.fresh()} = {text.format(v=v + leading)}"


def subscript(w: Writer, t: torch.Tensor) -> str:
    """Slices and numbers in range, for some leading dims."""
    parts: list[str] = []
    for extent in t.shape[: w.number(1, max(t.ndim, 1))]:
        kind = w.number(0, 5)
        if kind == 0 or extent == 0:
            parts.append(":")
        elif kind == 1:
            parts.append(str(w.number(-extent, extent - 1)))
        elif kind == 2:
            parts.append("::2")
        elif kind == 3:
            parts.append(f"{w.number(0, extent)}:")
        elif kind == 4:
            parts.append(f":-{w.number(1, extent)}")
        else:
            start = w.number(0, extent - 1)
            parts.append(f"{start}:{w.number(start, extent)}:3")
    return f"[{', '.join(parts)}]"


def view_text(w: Writer, v: str) -> str | None:
    t = w.value(v)
    if t.ndim == 0:
        return f"{v}.unsqueeze(0)"
    kind = w.number(0, 10)
    d, e = w.number(0, t.ndim - 1), w.number(0, t.ndim - 1)
    extent = t.shape[d]
    if kind <= 2:
        return v + subscript(w, t)
    if kind == 3:
        return f"{v}.transpose({d}, {e})"
    if kind == 4:
        order = list(range(t.ndim))
        order.insert(e, order.pop(d))
        return f"{v}.permute({order})"
    if kind == 5:
        start = w.number(0, extent)
        return f"{v}.narrow({d}, {start}, {w.number(0, extent - start)})"
    if kind == 6:
        return f"{v}.chunk({w.number(1, 3)}, {d})[0]"
    if kind == 7:
        return f"{v}.split({w.number(1, 3)}, {d})[-1]"
    if kind == 8:
        return f"{v}.unsqueeze({d})"
    if kind == 9 and extent >= 1:
        return f"{v}.unfold({d}, {w.number(1, extent)}, {w.number(1, 2)})"
    return f"{v}.flatten({min(d, e)}, {max(d, e)})"


def view(w: Writer) -> str | None:
    text = view_text(w, w.any_name())
    return None if text is None else f"{w.fresh()} = {text}"


def reshape(w: Writer) -> str:
    v = w.any_name()
    count, shape = w.value(v).numel(), []
    rest = count
    for _ in range(w.number(0, 2)):
        divisors = [n for n in (1, 2, 3, 4, 5, 7) if rest and rest % n == 0]
        if divisors:
            shape.append(w.one_of(divisors))
            rest //= shape[-1]
    shape.insert(w.number(0, len(shape)), rest if rest == 0 or w.number(0, 1) else -1)
    return f"{w.fresh()} = {v}.{w.one_of(('reshape', 'view'))}({shape})"


def expand(w: Writer) -> str | None:
    v = w.name_where(lambda t: 1 in t.shape)
    if v is None:
        return None
    sizes = [w.one_of((3, 1, 2, 0)) if n == 1 else w.one_of((n, -1)) for n in w.value(v).shape]
    return f"{w.fresh()} = {v}.expand({sizes})"


def join(w: Writer) -> str:
    a = w.any_name()
    t, d = w.value(a), w.dim_of(a)
    if w.number(0, 2) == 2:
        b = w.name_where(lambda u: u.shape == t.shape)
        return f"{w.fresh()} = torch.stack([{a}, {b}], {0 if d is None else d})"
    if d is None:
        return f"{w.fresh()} = torch.hstack([{a}, {w.partner(a)}])"
    at = d % t.ndim

    def joins(u: torch.Tensor) -> bool:
        return u.ndim == t.ndim and all(i == at or u.shape[i] == t.shape[i] for i in range(t.ndim))

    parts = [a, *(w.name_where(joins) for _ in range(w.number(1, 2)))]
    return f"{w.fresh()} = torch.cat([{', '.join(p for p in parts if p)}], {d})"


def target(w: Writer) -> str | None:
    """A name, or a view of one, that may be written to."""
    v = w.name_where(lambda t: not overlaps(t))
    if v is None or w.chance(60):
        return v
    return view_text(w, v)


def in_place(w: Writer) -> str | None:
    t = target(w)
    if t is None:
        return None
    written = eval(t, w.env)
    if overlaps(written):
        return None
    b = w.name_where(lambda u: fits(u, written.shape) and may_write(written, u))
    text = w.one_of(IN_PLACE)
    if text.startswith("torch.sum") and (b is None or shares_memory(w.value(b), written)):
        return None  # eager clears the result before it reads
    if ".detach()" in text and written.requires_grad and written._base is not None and not written._base.requires_grad:
        return None  # a leaf that is itself a view: its other views lose their gradient in eager, and are not in graphs
    return text.format(t=t, b=b or "0.5", s=w.one_of(SCALARS))


def rearranged(w: Writer) -> str | None:
    t = w.name_where(lambda t: t.ndim > 0 and not overlaps(t))
    if t is None:
        return None
    text, d, n = w.one_of(REARRANGED), w.dim_of(t), w.number(-2, 3)
    like = w.value(t)
    u = w.name_where(lambda u: u.shape == like.shape and u.dtype == like.dtype and not overlaps(u) and (u is like or may_write(like, u)))
    return text.format(t=t, u=u, d=d, n=n, f=w.fresh())


def into(w: Writer) -> str | None:
    v = w.name_where(lambda t: t.ndim > 0)
    if v is None:
        return None
    text, d, dtype = w.one_of(INTO), w.dim_of(v), w.one_of(DTYPES)
    source = v
    if w.value(v).is_floating_point() and dtype not in DTYPES[:4]:
        source = f"torch.nan_to_num({v}).clamp({0 if dtype in ('uint8', 'bool') else -2}, 2)"  # sums of these fit where shapes are small
        if w.value(v).numel() > 30:
            return None
    shape = f"torch.empty(0, dtype=torch.{dtype})" if w.chance(50) else f"torch.zeros({v}.shape, dtype=torch.{dtype})"
    return f"{w.fresh()} = {text.format(v=source, d=d, o=shape)}"


def factory(w: Writer) -> str:
    text, dtype, s, n = w.one_of(FACTORIES), w.one_of(DTYPES), w.one_of(SCALARS), w.number(0, 7)
    return f"{w.fresh()} = {text.format(v=w.any_name(), y=dtype, s=s, n=n)}"


def transformed(w: Writer) -> str | None:
    a = w.name_where(lambda t: t.is_floating_point() and 0 < t.ndim <= 3 and 0 < t.numel() <= 200)
    if a is None:
        return None
    like = w.value(a)
    b = w.name_where(lambda t: t.shape == like.shape and t.dtype == like.dtype)
    text, e = w.one_of(TRANSFORMS), "s"
    for _ in range(w.number(1, 3)):
        e = w.one_of(WITHIN).format(e=e)
    return f"{w.fresh()} = {text.format(a=a, b=b, d=w.dim_of(a), e=e)}"


def through_complex(w: Writer) -> str | None:
    a = w.name_where(lambda t: t.dtype in (torch.float32, torch.float64))
    if a is None:
        return None
    b = w.name_where(lambda t: t.shape == w.value(a).shape and t.dtype == w.value(a).dtype)
    return f"{w.fresh()} = {w.one_of(COMPLEX).format(a=a, b=b)}"


def fits(u: torch.Tensor, shape: torch.Size) -> bool:
    """It broadcasts to the shape, which stays as it is."""
    return u.ndim <= len(shape) and all(p in (1, q) for p, q in zip(reversed(u.shape), reversed(shape), strict=False))


def assign(w: Writer) -> str | None:
    v = w.name_where(lambda t: t.ndim > 0 and not overlaps(t))
    if v is None:
        return None
    i, j = subscript(w, w.value(v)), subscript(w, w.value(v))
    written = eval(v + i, w.env)
    b = w.name_where(lambda u: fits(u, written.shape) and may_write(written, u))
    return w.one_of(ASSIGN).format(v=v, i=i, j=j, b=b or "0.5", s=w.one_of(SCALARS))


def indexed_dims(text: str, ndim: int, d: int) -> tuple[int, ...]:
    """Those that a template of `ROWS_OF` looks up in: noise can move numbers that come from extremes, none out of range."""
    if "{d}" in text:
        return (d,)
    if "[..., {i}]" in text:
        return (-1,)
    if "[:, {i}]" in text:
        return (1,) if ndim > 1 else (0,)
    return (0, 1) if "[{i}, {i}]" in text and ndim > 1 else (0,)


def indexed(w: Writer) -> str | None:
    v = w.name_where(lambda t: t.ndim > 0)
    if v is None:
        return None
    d, text = w.number(0, w.value(v).ndim - 1), w.one_of(ROWS_OF)
    extent = max(min(w.value(v).shape[k] for k in indexed_dims(text, w.value(v).ndim, d)), 1)
    chosen = w.name_where(lambda t: t.dtype in (torch.int64, torch.int32, torch.uint8))
    flat = f"{chosen}.flatten().long() % {extent}" if chosen else f"torch.arange({w.number(0, 5)}) % {extent}"
    wide = f"(torch.arange({v}.numel()).view({v}.shape) * 7 % {extent})"
    return f"{w.fresh()} = {text.format(v=v, d=d, i=f'({flat})', x=wide, w=f'{v}.index_select({d}, {flat})')}"


def matmul(w: Writer) -> str | None:
    a = w.name_where(lambda t: t.is_floating_point() and t.ndim > 0)
    if a is None:
        return None
    dtype = w.value(a).dtype
    b = w.name_where(lambda t: t.dtype == dtype and t.ndim > 0)
    return f"{w.fresh()} = {w.one_of(MATMULS).format(a=a, b=b)}"


KINDS: tuple[Kind, ...] = (
    unary, scalar, binary, unary, scalar, binary, view, reduction, one_dim, ternary, in_place, view, binary, reduction, whole, cast,
    same_shape, join, assign, in_place, reshape, expand, indexed, pad, divide, matmul, one_dim, whole, same_shape, rearranged, into,
    through_complex, factory, transformed,
)  # fmt: skip
