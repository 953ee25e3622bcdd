"""A Hypothesis strategy for programs about backward passes: a function of several arguments with histories, and what passes from some of
its results find behind it.

A program is the text of `def program(compile)`, as those of `repro_corpus`. Between passes arguments and results are written, hooked and
dropped. A pass that is refused is the last one of its call, and of it only that it was refused is compared.
"""

from __future__ import annotations

import textwrap

from hypothesis import strategies as st

from minifier.fuzz.draw.functions import BOTH

PRELUDE = (
    """
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

def both(x, y):
    return [t * 1 for t in Both.apply(x, y)]

def region(x, y, use_reentrant=False):
    return [t * 1 for t in checkpoint(lambda s, t: (s.sin() * t, t * s), x, y, use_reentrant=use_reentrant)]

def leaf(n):
    return torch.linspace(-1, 1, 9).add(n / 4).view(3, 3).requires_grad_()

def laid_out(grad):  # other strides: docs/differences.md
    return None if grad is None else grad.clone(memory_format=torch.contiguous_format)

WEIGHTS = torch.linspace(0.5, 2, 9).view(3, 3)

def total(*results):
    return sum((r * WEIGHTS[: r.shape[0]] * (k + 2)).sum() for k, r in enumerate(results))
"""
    + BOTH
)
# No leaves: they are behind all results for passes that ask for some of them (docs/differences.md).
BEFORE = ("{l} * 1", "{l}.exp()", "{l}.sin()", "region({l} * 1, {l} * 2)[0]", "({l} * 2).t()", "{l}.detach()", "both({l}, {l})[1]")
VALUES = (
    "{a}.sin()",
    "{a}.exp() * 0.5",
    "{a} * {b}",
    "{a} * {b}",
    "{a} + {b}",
    "{a} @ {b}",
    "{a} * 2",
    "{a}.clone()",
    "{a}.t()",
    "{a}.view_as({a})",
    "{a}.detach() * {b}",
    "{a}.detach()",
    "F.relu({a})",
    "torch.where({a} > 0, {a}, {b})",
    "{a}[1:].sum(0) + {b}",
    "{a}.cumsum(0)",
    "torch.stack(({a}, {b})).unbind()[0] * 1",
    "both({a}, {b})[0]",
    "region({a}, {b})[1]",
)
STATEMENTS = (
    "p = {v}",
    "p = {v}",
    "q = {v}",
    "q = {v}",
    "r = {v}",
    "{a} = {v}",
    "p, q = both({a}, {b})",
    "q, r = region({a}, {b})",
    "q, r = region({a}, {b}, True)",
    "with torch.no_grad():\n    p = {v}",
    "print('here')",
    "{a}.mul_(2)",
    "{a} = {a} * 1; {a}.add_({b})",
    "r = {a} * 1; r[0] = {b}[1]",
    "s = {b} * 1; r = {a} * 1; q = r.t(); q.mul_(s)",
    "s = {b} * 1; p = {a} * 1; q = p[1:]; q.mul_(s[1:]); q = {v}",
    "s = {b} * 1; q = torch.zeros(3, 3); q[:2].copy_(s[:2]); p = q.view_as(q); q[1:].mul_(s[1:])",
    "q = {v} * 1; p = q[0] + q; q.detach().mul_(2)",
    "p = {v} * 1; q = p.exp(); p[0].mul_(2)",
)
ARGUMENTS = ("u", "v", "w")
LEAVES = ("leaves[0]", "leaves[1]", "leaves[2]")
# A hook on a view whose memory was written since crashes eager, unless its new history is asked for first.
LOOKS = (
    "{t}.register_hook(lambda g: seen['{t}'].append(laid_out(g))) if {t}.grad_fn is not None else None",
    "{t}.retain_grad() if {t}.requires_grad and not {t}.is_leaf else None",
)
WRITES = ("with torch.no_grad(): {t}.mul_(2)", "{t}.detach().mul_(2)")


@st.composite
def _value(draw: st.DrawFn, names: tuple[str, ...]) -> str:
    a, b = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    return draw(st.sampled_from(VALUES)).format(a=a, b=b)


@st.composite
def _statement(draw: st.DrawFn) -> str:
    names = (*ARGUMENTS, "p", "q", "r")
    a, b = draw(st.sampled_from(names)), draw(st.sampled_from(names))
    return draw(st.sampled_from(STATEMENTS)).format(a=a, b=b, v=draw(_value(names)))


# What is asked of a pass, and of one that gets to all arguments: docs/differences.md has what only that may raise.
SOME = "[t for t in ({of},) if t.requires_grad]"
ALL = "[t for t in (*leaves, u, v, w) if t.requires_grad]"


@st.composite
def _asking(draw: st.DrawFn, end: str, pool: list[str], creates: bool) -> str:
    """A pass that is run for the gradients of some tensors. It keeps what is saved: of what others need, docs/differences.md tells."""
    of = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3, unique=True))
    lines = [f"of = {SOME.format(of=', '.join(of))}"]
    lines += [f"found = torch.autograd.grad({end}, of, retain_graph=True, create_graph={creates}, allow_unused=True)"]
    lines += ["passed.append([laid_out(g) for g in found])"]
    if creates:
        lines += ["again = [total(g) for g in found if g is not None and g.requires_grad]"]
        lines += ["sum(again).backward() if again else None"]
    return "\n".join(lines)


@st.composite
def _passes(draw: st.DrawFn, count: int, writes: bool, links: bool) -> list[str]:
    """`writes`: the function may write to its arguments. Then it differentiates once, and their gradients are those of before.

    Hooks of results see gradients that a pass that asks for others does not need: docs/differences.md.
    """
    results = [f"results[{i}]" for i in range(count)]
    kind = draw(st.sampled_from(("asks", "looks", "writes")))
    asks = kind == "asks"
    lines: list[str] = []
    for n in reversed(range(draw(st.integers(1, 3)))):
        if kind == "writes" and draw(st.booleans()):
            lines += [draw(st.sampled_from(WRITES)).format(t=draw(st.sampled_from((*ARGUMENTS, *results))))]
        seen = [] if writes else [*ARGUMENTS]
        seen += [] if asks else results
        if kind != "writes" and seen and draw(st.booleans()):
            lines += [draw(st.sampled_from(LOOKS)).format(t=draw(st.sampled_from(seen)))]
        ends = draw(st.lists(st.sampled_from(results), min_size=1, max_size=2, unique=True))
        end = f"total({', '.join(ends)})"
        if asks and draw(st.booleans()):
            others = [] if writes else [*ARGUMENTS]
            others += [r for r in results if r not in ends and links]
            lines += [draw(_asking(end, [*LEAVES, *others], not (n or writes) and draw(st.booleans())))]
        else:
            lines += [f"{end}.backward(retain_graph={asks or draw(st.booleans())})"]
    return lines


@st.composite
def pass_programs(draw: st.DrawFn) -> str:
    """The text of a module with `def program(compile)`."""
    before = [draw(st.sampled_from(BEFORE)).format(l=name) for name in LEAVES]
    statements = [draw(_statement()) for _ in range(draw(st.integers(1, 4)))]
    count = draw(st.integers(2, 4))
    values = ", ".join(draw(st.sampled_from((*ARGUMENTS, "p", "q", "r", "p", "q", "r"))) + " * 1" for _ in range(count))
    if draw(st.booleans()):
        values = values.replace(" * 1", "")
    writes = any(s.endswith(".mul_(2)") and s[:1] in "pqruvw" and "=" not in s for s in statements)
    is_reentrant = any("True)" in s for s in statements)  # gradients between results don't run such regions: docs/differences.md
    lines = draw(_passes(count, writes, not is_reentrant))
    return (
        PRELUDE
        + f"""
def program(compile):
    @compile
    def f(u, v, w):
        p, q, r = u * 2.0, v + w, w * 1.0
{textwrap.indent(chr(10).join(statements), " " * 8)}
        return {values}

    out = []
    for _ in range(2):
        leaves = [leaf(n) for n in range(3)]
        u, v, w = {", ".join(before)}
        passed = []
        seen = {{name: [] for name in ({", ".join(repr(n) for n in (*ARGUMENTS, *(f"results[{i}]" for i in range(count))))})}}
        results = f(u, v, w)
        out.append([r.requires_grad for r in results])
        try:
{textwrap.indent(chr(10).join(lines), " " * 12)}
            out += [passed, seen, [t.grad for t in (*leaves, u, v, w, *results) if t.is_leaf or t.retains_grad]]
        except RuntimeError as e:
            out.append(type(e).__name__)
    return out
"""
    )
