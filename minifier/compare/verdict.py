"""Whether what compiled code gave differs from eager by rounding alone: a verdict with its confidence, from several draws of inputs.

No tolerance decides. Runs in eager whose operations round at random (`modes.Noisy`) show how far from the float64 run a correct program
may end up, element by element; compiled code is asked how it compares with those, as eager itself is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any

import torch

from minifier.compare.elements import classes, places, spacing
from minifier.compare.modes import TWICE

FITTED, HELD_OUT, AMPLIFIED = 3, 2, 8  # noisy runs: for the scale, beside eager as what is normal, and to look for a last explanation
AMPLITUDE = 8.0  # roundings of one operation that a difference must be beyond to be a finding
SURE = 0.999  # the first draw with so much confidence will do
MOST = 1e6  # times worse: beyond that the number tells nothing
WORSE = 4.0  # times what is normal, from which on a difference is looked into


class Kind(Enum):
    """What a verdict says."""

    ROUNDING = "within rounding"
    WORSE = "worse than eager"
    CLASS = "NaN or Inf class changed"
    MASK = "different mask"
    VALUES = "values differ"  # whole numbers
    STRUCTURE = "different structure"  # number of results, types, shapes, dtypes


@dataclass(frozen=True)
class Worst:
    """The element that shows it best: where, and what each run has there."""

    output: str
    index: tuple[int, ...]
    eager: str
    compiled: str
    exact: str


@dataclass(frozen=True)
class Errors:
    """One output against float64: the largest error in units in the last place, and relative to the largest value."""

    output: str
    eager_ulps: float
    compiled_ulps: float
    eager_relative: float
    compiled_relative: float


@dataclass(frozen=True)
class Verdict:
    """`times`: how often its error is what is normal. `draw` is the draw of inputs that shows it, `outputs` has errors of that draw."""

    kind: Kind
    confidence: float
    text: str = ""
    times: float = 0.0
    draw: int = 0
    worst: Worst | None = None
    outputs: tuple[Errors, ...] = ()
    reference: str = "float64"

    @property
    def is_finding(self) -> bool:
        return self.kind is not Kind.ROUNDING

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"kind": self.kind.value}


@dataclass(frozen=True)
class Sample:
    """One draw of inputs: what eager and compiled code gave, with names; how to run the program in float64, and with noise.

    `exact()` is None where the program has no float64 run. `noisy(seed, amplitude)`.
    """

    names: Sequence[str]
    eager: Sequence[Any]
    compiled: Sequence[Any]
    exact: Callable[[], Sequence[Any] | None]
    noisy: Callable[[int, float], Sequence[Any]]

    def of(self, i: int, exact: Sequence[Any] | None) -> Sample:
        """Output `i` alone. `exact` has all outputs."""
        one = slice(i, i + 1)
        wide = None if exact is None else exact[one]
        return Sample(self.names[one], self.eager[one], self.compiled[one], lambda: wide, lambda s, a: self.noisy(s, a)[one])


def judge(samples: Sequence[Sample]) -> Verdict:
    """The verdict over all draws: the first sure finding, after which no draw is looked at, else the surest, or that there is none."""
    found: list[Verdict] = []
    for i, sample in enumerate(samples):
        found.append(replace(_one(sample), draw=i))
        if found[-1].is_finding and found[-1].confidence >= SURE:
            return found[-1]
    findings = [v for v in found if v.is_finding]
    if findings:
        return _surest(findings)
    worst = max(found, key=lambda v: v.times)
    return replace(worst, confidence=min(v.confidence for v in found))


def _surest(findings: Sequence[Verdict]) -> Verdict:
    """The first sure one, so that of several faults the first is told of; else the surest."""
    sure = [v for v in findings if v.confidence >= SURE]
    return sure[0] if sure else max(findings, key=lambda v: (v.confidence, v.times))


def _one(sample: Sample) -> Verdict:
    odd = _structure(sample)
    if odd is not None:
        return odd
    differing = [i for i, (e, c) in enumerate(zip(sample.eager, sample.compiled, strict=True)) if not _same(e, c)]
    if not differing:
        return Verdict(Kind.ROUNDING, 1.0, "every bit is eager's")
    runs = _Runs(sample)
    verdicts = [v for i in differing for v in _verdicts(i, runs)]
    findings = [v for v in verdicts if v.is_finding]
    best = _surest(findings) if findings else replace(max(verdicts, key=lambda v: v.times), confidence=min(v.confidence for v in verdicts))
    errors = tuple(_errors(i, runs) for i in differing if _is_float(sample.eager[i]))
    return replace(best, outputs=errors, reference="float64" if runs.exact is not None else "eager")


@dataclass
class _Runs:
    """The runs that a sample needs, made when they are asked for."""

    sample: Sample
    exact: Sequence[Any] | None = None
    noisy: list[Sequence[Any]] = field(default_factory=list)
    amplified: list[Sequence[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.exact = self.sample.exact()
        self.noisy = [self.sample.noisy(seed, 1.0) for seed in range(FITTED + HELD_OUT)]

    def loud(self) -> list[Sequence[Any]]:
        """Runs with more noise than any correct program has."""
        if not self.amplified:
            self.amplified = [self.sample.noisy(100 + seed, AMPLITUDE) for seed in range(AMPLIFIED)]
        return self.amplified

    def centre(self, i: int) -> torch.Tensor:
        value = self.sample.eager[i] if self.exact is None else self.exact[i]
        return _wide(value)


def _structure(sample: Sample) -> Verdict | None:
    if len(sample.eager) != len(sample.compiled):
        return Verdict(Kind.STRUCTURE, 1.0, f"{len(sample.compiled)} results instead of {len(sample.eager)}")
    for name, e, c in zip(sample.names, sample.eager, sample.compiled, strict=True):
        if isinstance(e, torch.Tensor) != isinstance(c, torch.Tensor):
            return Verdict(Kind.STRUCTURE, 1.0, f"{name}: {type(c).__name__} instead of {type(e).__name__}")
        if isinstance(e, torch.Tensor) and (e.shape != c.shape or e.dtype != c.dtype):
            return Verdict(Kind.STRUCTURE, 1.0, f"{name}: {c.dtype} {list(c.shape)} instead of {e.dtype} {list(e.shape)}")
    return None


def _verdicts(i: int, runs: _Runs) -> Iterator[Verdict]:
    eager, compiled = runs.sample.eager[i], runs.sample.compiled[i]
    if not isinstance(eager, torch.Tensor):
        if isinstance(eager, float) and isinstance(compiled, float):
            yield from _floats(i, runs, torch.tensor(eager, dtype=torch.float64), torch.tensor(compiled, dtype=torch.float64))
        else:
            yield Verdict(Kind.VALUES, 1.0, f"{runs.sample.names[i]}: {compiled!r:.80} instead of {eager!r:.80}")
    elif _is_float(eager):
        one = _classes(i, runs, eager, compiled)
        if one is not None:
            yield one
        yield from _floats(i, runs, eager, compiled)
    else:
        yield _discrete(i, runs, eager, compiled)


def _classes(i: int, runs: _Runs, eager: torch.Tensor, compiled: torch.Tensor) -> Verdict | None:
    """NaN, infinity and numbers: compiled code has what eager has, float64 (in that dtype), or what another rounding gives."""
    found = classes(compiled)
    odd = found != classes(eager)
    for values in (() if runs.exact is None else (runs.exact,)), runs.noisy:
        for run in values:
            odd = odd & (found != classes(torch.as_tensor(run[i]).to(eager.dtype)))
    if bool(odd.any()):
        for run in runs.loud():
            odd = odd & (found != classes(run[i]))
    if not bool(odd.any()):
        return None
    count, worst = int(odd.sum()), _worst(i, runs, places(odd)[0])
    text = f"{worst.output}: {count} of {odd.numel()} elements, {worst.compiled} instead of {worst.eager} at {list(worst.index)}"
    return Verdict(Kind.CLASS, _tried(runs), text, math.inf, worst=worst)


def _floats(i: int, runs: _Runs, eager: torch.Tensor, compiled: torch.Tensor) -> Iterator[Verdict]:
    centre, (e, c) = runs.centre(i), (_wide(eager), _wide(compiled))
    noisy = [_wide(run[i]) for run in runs.noisy]
    usable = torch.isfinite(centre) & torch.isfinite(e) & torch.isfinite(c)
    for n in noisy:
        usable &= torch.isfinite(n)
    if not bool(usable.any()):
        yield Verdict(Kind.ROUNDING, 1.0, f"{runs.sample.names[i]}: no element is a number")
        return
    floor = spacing(centre, eager.dtype)
    scale = torch.stack([(n - centre).abs() for n in noisy[:FITTED]]).amax(0)
    unit = torch.where(usable, scale + floor, 1.0)
    off = torch.where(usable, (c - centre).abs() / unit, 0.0)
    normal = [torch.where(usable, (n - centre).abs() / unit, 0.0) for n in (e, *noisy[FITTED:])]
    tests = [(_largest(off), [_largest(n) for n in normal]), (_mean(off, usable), [_mean(n, usable) for n in normal])]
    times, spread = max((ours / max(*theirs, 1.0), _spread(theirs)) for ours, theirs in tests)
    name = runs.sample.names[i]
    if times <= WORSE or _explained(i, runs, c, centre, floor, usable):
        confidence = _phi((math.log(WORSE) - math.log(max(times, 1e-9))) / spread) if times <= WORSE else _phi(1.0)
        yield Verdict(Kind.ROUNDING, confidence, f"{name}: {times:.3g} times what rounding does", times)
        return
    worst = _worst(i, runs, _index(off))
    confidence = _phi(math.log(times) / spread)
    kind = Kind.MASK if _is_mask(e, c, off) else Kind.WORSE
    own = float((e - centre).abs()[usable].max())
    factor = max(float((c - centre).abs()[usable].max()) / own, times) if own else times
    text = f"{name}: {worst.compiled} instead of {worst.eager} at {list(worst.index)}"
    if kind is Kind.WORSE:
        text += f", worse than eager by {f'{factor:.3g}' if factor < MOST else f'more than {MOST:.0e}'} x"
    yield Verdict(kind, confidence, text, times, worst=worst)


def _explained(i: int, runs: _Runs, found: torch.Tensor, centre: torch.Tensor, floor: torch.Tensor, usable: torch.Tensor) -> bool:
    """Whether somewhat more noise does it too: a threshold that rounding crosses throws few elements far off."""
    loud = torch.stack([(_wide(run[i]) - centre).abs().nan_to_num(nan=math.inf) for run in runs.loud()]).amax(0)
    is_half = getattr(runs.sample.eager[i], "dtype", None) in (torch.float16, torch.bfloat16)
    beyond = torch.where(usable, (found - centre).abs() / (loud + (TWICE if is_half else AMPLITUDE) * floor), 0.0)
    return bool((beyond <= 1.0).all())


def _discrete(i: int, runs: _Runs, eager: torch.Tensor, compiled: torch.Tensor) -> Verdict:
    """Whole numbers and flags: those that differ must be such that rounding changes them."""
    name, odd = runs.sample.names[i], eager != compiled
    count = int(odd.sum())
    for run in (*(() if runs.exact is None else (runs.exact,)), *runs.noisy):
        odd = odd & (run[i] == eager)
    if bool(odd.any()):
        for run in runs.loud():
            odd = odd & (run[i] == eager)
    if not bool(odd.any()):
        return Verdict(Kind.ROUNDING, _tried(runs), f"{name}: {count} elements differ where rounding decides", 1.0)
    kind = Kind.MASK if eager.dtype == torch.bool else Kind.VALUES
    worst = _worst(i, runs, places(odd)[0])
    return Verdict(kind, _tried(runs), f"{name}: {count} of {odd.numel()} elements differ", math.inf, worst=worst)


def _is_mask(eager: torch.Tensor, compiled: torch.Tensor, off: torch.Tensor) -> bool:
    """Eager has zeros, and most elements that are wrong are zero in one of the two alone."""
    wrong = (off > WORSE) & (eager == 0).any()
    return bool(((eager == 0) != (compiled == 0))[wrong].double().mean() > 0.5) if bool(wrong.any()) else False


def _worst(i: int, runs: _Runs, index: tuple[int, ...]) -> Worst:
    def shown(values: Sequence[Any] | None) -> str:
        if values is None:
            return ""
        value = values[i][index] if isinstance(values[i], torch.Tensor) else values[i]
        return f"{value.item() if isinstance(value, torch.Tensor) else value:.9g}"

    return Worst(runs.sample.names[i], index, shown(runs.sample.eager), shown(runs.sample.compiled), shown(runs.exact))


def _errors(i: int, runs: _Runs) -> Errors:
    eager, compiled, centre = runs.sample.eager[i], runs.sample.compiled[i], runs.centre(i)
    ulp = spacing(centre, eager.dtype)
    size = float(centre.abs().nan_to_num(posinf=0.0).max()) or 1.0
    away = [(_wide(v) - centre).abs().nan_to_num(posinf=0.0) for v in (eager, compiled)]
    ulps = [float((a / ulp).nan_to_num(posinf=0.0).max()) for a in away]
    return Errors(runs.sample.names[i], ulps[0], ulps[1], float(away[0].max()) / size, float(away[1].max()) / size)


def _same(eager: Any, compiled: Any) -> bool:
    if isinstance(eager, torch.Tensor):
        if _is_float(eager):
            return bool(((eager == compiled) | (eager.isnan() & compiled.isnan())).all())
        return torch.equal(eager, compiled)
    return bool(eager == compiled) or (eager != eager and compiled != compiled)


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _wide(value: Any) -> torch.Tensor:
    tensor = torch.as_tensor(value)
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _largest(values: torch.Tensor) -> float:
    return float(values.max())


def _mean(values: torch.Tensor, usable: torch.Tensor) -> float:
    return math.sqrt(float(values.square().sum()) / int(usable.sum()))


def _spread(normal: Sequence[float]) -> float:
    """How far the logarithm of what is normal goes up and down; never taken for less than a fourth, as few runs show it."""
    logs = torch.tensor([math.log(max(n, 1e-3)) for n in normal if n])
    return max(0.25, float(logs.std()) if logs.numel() > 1 else 1.0) * math.sqrt(1 + 1 / max(len(normal), 1))


def _phi(z: float) -> float:
    return 0.5 * (1.0 + math.erf(z / math.sqrt(2.0)))


def _index(values: torch.Tensor) -> tuple[int, ...]:
    return places(values == values.max())[0]


def _tried(runs: _Runs) -> float:
    """The confidence when none of so many runs did the same."""
    return 1.0 - 0.5 ** (1 + len(runs.noisy) + len(runs.amplified))
