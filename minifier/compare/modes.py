"""Runs of a program in eager that measure what rounding does to it.

`Recorded` keeps the random draws of a run; `Exact` runs the same program in float64 on the same draws; `Noisy` runs it with another
rounding of every operation (Monte Carlo arithmetic): what such runs differ by is what any correct compiler may differ by.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from dynamo.ops.facts import Facts, facts_of
from minifier.compare import generators, rows

OpOverload = torch._ops.OpOverload
_aten = torch.ops.aten
_CRASH_ON_ZEROS = frozenset((_aten.mul.Scalar, _aten.add.Scalar))
_WIDER = {torch.complex64: torch.complex128, torch.complex32: torch.complex128}


NOTHING = "nothing drawn"  # by an operator that may: attention without dropout


class NoReference(RuntimeError):
    """A program that has no float64 run: the message names the operator."""


def wide_type(dtype: torch.dtype) -> torch.dtype:
    """float64 for floats, complex128 for complex numbers, else the dtype itself."""
    return torch.float64 if dtype.is_floating_point else _WIDER.get(dtype, dtype)


def widened(value: Any) -> Any:
    """A tensor in the wide type of its dtype; a dtype as its wide type; anything else as it is."""
    if isinstance(value, torch.Tensor):
        return value.to(wide_type(value.dtype))
    return wide_type(value) if isinstance(value, torch.dtype) else value


@dataclass(frozen=True)
class State:
    """Of the generators, before an operator that draws and computes at once."""

    states: generators.States


@dataclass
class Draws:
    """What the operators of a run gave that draw, in order: of dropout the mask, of others results; NOTHING if none was drawn."""

    values: list[Any] = field(default_factory=list)


class EagerMode(TorchDispatchMode):
    """A mode that sees eager operators alone, each by `run`.

    Torch would load its whole compiler to keep itself out of `__torch_dispatch__`. And it would crash on two operators of zeros without
    memory, which the gradient of `sgn` is: below a mode these operators don't know them as such.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if op in _CRASH_ON_ZEROS and args[0]._is_zerotensor():
            if op is _aten.mul.Scalar:  # whatever the factor is
                return _aten._efficientzerotensor(args[0].shape, dtype=torch.result_type(*args), device=args[0].device)
            args = (args[0].clone(), *args[1:])
        return self.run(op, args, kwargs or {})

    def run(self, op: Any, args: Any, kwargs: Any) -> Any:
        return op(*args, **kwargs)


class Recorded(EagerMode):
    """Keeps the draws of what runs inside."""

    def __init__(self) -> None:
        super().__init__()
        self.draws = Draws()

    def run(self, op: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(op, OpOverload) or not facts_of(op).random:
            return op(*args, **kwargs)
        before = generators.states()
        result = op(*args, **kwargs)
        base = facts_of(op).base
        if base.startswith(rows.COMPUTES):
            drawn: Any = NOTHING if generators.are_equal(before, generators.states()) else State(before)
        else:
            drawn = tree_map(_kept, result[1] if base == rows.DROPOUT else result)
        self.draws.values.append(drawn)
        return result


class _Replaying(EagerMode):
    """Gives the draws of an earlier run in the place of new ones. Raises NoReference where the program draws differently."""

    def __init__(self, draws: Draws) -> None:
        super().__init__()
        self.draws = iter(draws.values)

    def next_drawn(self, op: OpOverload) -> Any:
        """What the operator drew in eager, or None of one that draws nothing. Operators that may draw come in one order."""
        if not facts_of(op).random:
            return None
        kept = next(self.draws, None)
        if kept is None:
            raise NoReference(f"{op} draws once more than in eager")
        return None if isinstance(kept, str) else kept

    def drawn(self, op: OpOverload, kept: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The result of a random operator."""
        facts = facts_of(op)
        if facts.base == rows.DROPOUT:
            keep = 1.0 - float(args[1])
            mask = kept.to(args[0].dtype)
            return args[0] * mask * (1.0 / keep if keep else 0.0), kept.clone()
        if facts.writes == (0,) and isinstance(kept, torch.Tensor):
            return args[0].copy_(kept)
        if facts.writes:
            raise NoReference(f"{op} writes what it draws to an argument")
        return tree_map(self.again, kept)

    def again(self, value: Any) -> Any:
        return value.clone() if isinstance(value, torch.Tensor) else value


class Exact(_Replaying):
    """Every float is float64, whatever the program asks for. Give it inputs that are `widened`."""

    def run(self, op: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(op, OpOverload):
            return op(*args, **kwargs)
        facts = facts_of(op)
        if facts.base in rows.BITS and any(isinstance(a, torch.dtype) for a in (*args, *kwargs.values())):
            raise NoReference(f"{op} looks at the bits of numbers")
        args, kwargs = tree_map(_wide_dtype, (args, kwargs))
        if facts.base in rows.HALF_TO_FLOAT:
            args = (*args[:2], False)
        drawn = self.next_drawn(op)
        if isinstance(drawn, State):
            raise NoReference(f"{op} draws and computes at once")
        if drawn is not None:
            return self.drawn(op, drawn, args, kwargs)
        if facts.uniform and "dtype" not in kwargs:
            kwargs = {**kwargs, "dtype": wide_type(_default_of(args))}
        try:
            return tree_map(_only_wide, op(*args, **kwargs))
        except (NotImplementedError, TypeError) as e:
            raise NoReference(f"{op} has no float64 form: {e}") from e

    def again(self, value: Any) -> Any:
        return widened(value).clone() if isinstance(value, torch.Tensor) else value


TWICE = 2.0  # how often a result is rounded to its dtype at most, in one operation: kernels of 16-bit types compute in float32


class Noisy(_Replaying):
    """Rounds every operation differently: results are off by up to `amplitude` roundings of their dtype, at random.

    Operators that round nothing (copies, comparisons, `relu`) stay exact. Sums get the noise that adding in any order could have.
    Element-wise operators on NaN and infinities are computed by ATen's loop of vectors or by that of single elements, as the seed says.
    """

    def __init__(self, draws: Draws, seed: int, amplitude: float = 1.0) -> None:
        super().__init__(draws)
        self.amplitude = amplitude
        self.by_vectors = seed % 2 == 0
        self.generator = torch.Generator().manual_seed(seed)

    def run(self, op: Any, args: Any, kwargs: Any) -> Any:
        if not isinstance(op, OpOverload):
            return op(*args, **kwargs)
        facts = facts_of(op)
        drawn = self.next_drawn(op)
        if isinstance(drawn, State):
            generators.put_back(drawn.states)
        elif drawn is not None:
            return self.drawn(op, drawn, args, kwargs)
        scale = 0.0 if facts.views or facts.shares else rows.roundings(facts.base, args)
        if (facts.pointwise or facts.base in rows.ELEMENT_WISE) and not facts.writes:
            op = partial(_by_a_loop, op, self.by_vectors)
        if not scale:
            return op(*args, **kwargs)
        statistics = _statistics(facts, args)
        given = args
        if scale == rows.SUM and not facts.writes:
            given = [a if i in statistics else tree_map(self.shaken, a) for i, a in enumerate(args)]
        result = op(*given, **kwargs)
        if scale == rows.ROUNDING and isinstance(result, torch.Tensor) and not facts.writes and _may_be_exact(facts.base, args):
            return self.off(result, _unit(result), scale, op(*tree_map(widened, given), **kwargs))
        terms = rows.terms(facts.base, args, result)
        for i in statistics:
            with torch.autograd._unsafe_preserve_version_counter(args[i]):
                self.off(args[i], _unit(args[i]), scale * math.sqrt(terms))
        return tree_map(lambda value: self.off(value, _unit(value), scale * math.sqrt(terms)), result)

    def shaken(self, value: Any) -> Any:
        """An operand of a sum: each addend off by a rounding, which is what adding them in another order can do at most on average."""
        return self.off(value.clone(), 0.0, 1.0) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    def off(self, value: Any, unit: float, roundings: float, exact: Any = None) -> Any:
        """The tensor, changed in place where its numbers are rounded: by `unit`, and by roundings of the type it is computed in.

        `exact` is the same in float64: what is equal to that was not rounded.
        """
        if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()) or not value.numel():
            return value
        if value.device.type == "meta" or value.layout is not torch.strided or _overlaps(value) or value._is_zerotensor():
            return value
        inside = torch.finfo(_inside(value.dtype)).eps * roundings * self.amplitude
        eps = min(unit * min(self.amplitude, TWICE) + inside, 0.5)
        noise = torch.rand(value.shape, generator=self.generator, dtype=torch.float64).mul_(2 * eps).add_(1 - eps).to(value.device)
        with torch.no_grad():
            wide = value.to(wide_type(value.dtype))
            finite = torch.isfinite(wide)
            if exact is not None:
                finite &= wide != exact
            value.copy_(torch.where(finite, wide * noise, wide))
        return value


def _by_a_loop(op: OpOverload, by_vectors: bool, *args: Any, **kwargs: Any) -> Any:
    """The result; with NaN or infinities among the operands its values are those of one of ATen's two loops, which may differ.

    Which one ATen takes depends on sizes and strides: many elements in a row that of vectors, every second one that of single elements.
    """
    result = op(*args, **kwargs)
    operands = [a for a in args if isinstance(a, torch.Tensor)]
    if not isinstance(result, torch.Tensor) or not result.numel() or result.numel() > _MOST or not all(map(_is_plain, (result, *operands))):
        return result
    if all(bool(torch.isfinite(a).all()) for a in operands):
        return result
    with torch.no_grad():
        given = [_repeated(a.expand(result.shape), by_vectors) if isinstance(a, torch.Tensor) else a for a in args]
        return result.copy_(op(*given, **kwargs).select(0 if by_vectors else -1, 0))


_ROWS = 256  # more elements than a vector loop leaves to the loop of single ones, whatever the dtype
_MOST = 4096


def _repeated(value: torch.Tensor, by_vectors: bool) -> torch.Tensor:
    if by_vectors:
        return torch.stack([value] * _ROWS)
    return torch.stack([value, value], -1)[..., :1]


def _is_plain(value: torch.Tensor) -> bool:
    return value.is_floating_point() and value.device.type == "cpu" and value.layout is torch.strided and not _overlaps(value)


def _may_be_exact(base: str, args: Sequence[Any]) -> bool:
    """Of whole numbers and halves sums and products are, and quotients with a power of two, in whatever way they are computed."""
    if not all(isinstance(a, (torch.Tensor, int, float)) for a in args):
        return False
    return base in rows.RATIONAL or (base == "div" and isinstance(args[1], (int, float)) and math.frexp(args[1])[0] in (0.5, -0.5))


def _statistics(facts: Facts, args: Sequence[Any]) -> tuple[int, ...]:
    """Which arguments the operator updates, whatever its schema says."""
    training = facts.training
    if training is None or training.how == "passes" or not (training.flag < 0 or args[training.flag]):
        return ()
    return tuple(i for i in training.statistics if isinstance(args[i], torch.Tensor))


def _inside(dtype: torch.dtype) -> torch.dtype:
    """What kernels compute in: 16-bit types in float32."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def _unit(value: Any) -> float:
    """The rounding of a result to its dtype, where it was computed in a wider one."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or _inside(value.dtype) is value.dtype:
        return 0.0
    return torch.finfo(value.dtype).eps


def _overlaps(value: torch.Tensor) -> bool:
    return any(s == 0 and n > 1 for n, s in zip(value.shape, value.stride(), strict=True))


def _kept(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def _wide_dtype(value: Any) -> Any:
    return wide_type(value) if isinstance(value, torch.dtype) else value


def _only_wide(value: Any) -> Any:
    """Operators that make floats of nothing (`rand`, `full` of a number) make them in the default dtype."""
    if isinstance(value, torch.Tensor) and value.dtype != wide_type(value.dtype):
        return value.to(wide_type(value.dtype))
    return value


def _default_of(args: Sequence[Any]) -> torch.dtype:
    fill = args[-1] if args and not isinstance(args[-1], (list, tuple)) else 0.0
    if isinstance(fill, bool):
        return torch.bool
    return torch.int64 if isinstance(fill, int) and len(args) > 1 else torch.get_default_dtype()
