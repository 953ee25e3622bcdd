"""A Hypothesis strategy for programs whose arguments share memory: views, parts, `.data` and what is detached of one tensor, or its base.

A program is the text of `def program(compile)`, as those of `repro_corpus`. Writes through one argument, recorded or not, are read through
the others; then results and memory are written again, and passes run to the leaf. What autograd refuses is an answer like any other.
Gradients are those of leaves: of others that a graph wrote to, `docs/differences.md` tells.
"""

from __future__ import annotations

import textwrap

from hypothesis import strategies as st

# What the arguments are made of: `m`. Of a leaf that is a view itself, views lose their history with a write.
MEMORY = (
    "m = torch.linspace(-1, 1, 9).view(3, 3).clone()",
    "m = leaf * 1.5",
    "m = leaf",
    "m = torch.linspace(-1, 1, 9).view(3, 3).requires_grad_()",
)
ARGUMENTS = (
    "m",
    "m.detach()",
    "m.data",
    "m.view(9)",
    "m[1]",
    "m.t()",
    "m[:1].expand(3, 3)",
    "m[0, 0]",
    "m.chunk(3)[0]",
    "m.unbind()[1]",
    "torch.no_grad()(m.narrow)(0, 1, 2)",
    "m.clone()",
    "torch.linspace(0, 1, 3)",
)
STATEMENTS = (
    "y = {p} * 2.0 + z.sum()",
    "z = {p}.exp()",
    "y = y + {p}.sum()",
    "y = y.sin()",
    "z = z.clone()",
    "z = {p}.detach()",
    "z = torch.no_grad()({p}.narrow)(0, 0, 1) if {p}.dim() else {p}",
    "v = {p}[:1] if {p}.dim() else {p}",
    "v = {p}.view(-1) if {p}.is_contiguous() else {p}[...]",
    "v = {p}.unbind()[0] if {p}.dim() else {p}[...]",
    "z = v * 2",
    "y = v.sum() * y",
    "p, q = q, p",
    "y = y * {p}._version",
    "y = y + ({p} == {q}.sum()).sum()",
    "{p}.mul_(2)",
    "{p}.add_(y.sum().detach())",
    "{p}.copy_({q}.sum())",
    "torch.no_grad()({p}.mul_)(3)",
    "torch.add(torch.ones_like({p}), 1, out={p}.detach())",
    "with torch.no_grad():\n    {p}.sub_(0.5)\n    v = {p}.relu()",
    "{p}.detach().add_(1)",
    "{p}.data.mul_(2)",
    "torch.no_grad()(v.zero_)()",
    "v.mul_(0.5)",
    "z.add_(1)",
    "{p}.t_() if {p}.dim() == 2 else None",
)
RESULTS = ("y", "y, z", "y, z, v", "z, v, p", "y, v, q, p")
# What the caller does before the passes.
AFTER = ("pass", "m.detach().mul_(2)", "m.data.mul_(2)", "torch.no_grad()(results[-1].mul_)(2)", "results[0].mul_(2)")


@st.composite
def _statement(draw: st.DrawFn) -> str:
    p, q, _ = draw(st.permutations(("p", "q", "r")))
    return draw(st.sampled_from(STATEMENTS)).format(p=p, q=q)


@st.composite
def shared_programs(draw: st.DrawFn) -> str:
    """The text of a module with `def program(compile)`."""
    arguments = [draw(st.sampled_from(ARGUMENTS)) for _ in range(3)]
    if draw(st.sampled_from((False, False, False, True))):
        arguments[1] = "p"
    statements = "\n".join(draw(st.lists(_statement(), min_size=1, max_size=6)))
    return f"""
import torch

def facts(t):
    try:
        return t.detach().clone(), t.requires_grad, t.is_leaf
    except RuntimeError as e:  # the history of a view whose base was written to
        return str(e)[:50]

def program(compile):
    @compile
    def f(p, q, r):
        y, z, v = p.sum() * 1.0, q * 1.0, r
{textwrap.indent(statements, "        ")}
        return {draw(st.sampled_from(RESULTS))}

    found = []
    for _ in range(2):
        leaf = torch.linspace(-1, 1, 9).view(3, 3).clone().requires_grad_()
        {draw(st.sampled_from(MEMORY))}
        p = {arguments[0]}
        q = {arguments[1]}
        r = {arguments[2]}
        try:
            results = f(p, q, r)
            results = results if isinstance(results, tuple) else (results,)
        except RuntimeError as e:
            results = ()
            found.append(str(e)[:50])
        found.append([facts(t) for t in (*results, m, p, q, r)])
        found.append([t._version for t in (m, p, q, r)])
        try:
            {draw(st.sampled_from(AFTER))}
        except (RuntimeError, IndexError) as e:
            found.append(str(e)[:50])
        for t in results:
            try:
                if t.requires_grad:
                    leaves = [t for t in dict.fromkeys((leaf, m)) if t.requires_grad and t.is_leaf]
                    slopes = torch.autograd.grad(t.sum(), leaves, allow_unused=True, retain_graph=True)
                    found.append([None if g is None else g.contiguous() for g in slopes])  # other strides: docs/differences.md
            except RuntimeError as e:
                found.append(str(e)[:50])
        found.append([facts(t) for t in (*results, m, p, q, r)])
    return found
"""
