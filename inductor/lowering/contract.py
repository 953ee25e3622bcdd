"""Products and sums within one ATen operator become one instruction with one rounding.

Nothing else does: what an operator returns is rounded once and for all. A product that one loop adds to unrounded while another stores
it, or a backward computes again, would be two values, and a subtraction of large ones shows their difference: `exp(x*y - max(x*y))`
overflows where eager gives 1. So this happens while an operator is lowered, when what others have made still comes from memory.
"""

from __future__ import annotations

from collections import Counter

from inductor.ir.expr import Expr, call, const, kept, rebuild, rewrite, walk

FLOATS = frozenset({"f32", "f64"})


def contract(root: Expr) -> Expr:
    """The expression with fused multiply-adds for products that it uses once."""
    nodes = list(walk(root))
    if not any(n.op == "mul" and n.type in FLOATS for n in nodes):
        return root
    uses = Counter(a for n in nodes for a in n.args)
    return rewrite((root,), lambda node, args: _contracted(node, args, uses))[0]


def _contracted(node: Expr, args: tuple[Expr, ...], uses: Counter[Expr]) -> Expr:
    def product(k: int) -> bool:
        return args[k].op == "mul" and args[k].type in FLOATS and uses[node.args[k]] == 1

    if node.op in ("add", "sub") and all(a.op == "mul" for a in args):
        return kept(node, args)  # equal products cancel
    if node.op == "add":
        for k in (0, 1):
            if product(k):
                return call("fma", *args[k].args, args[1 - k])
    if node.op == "sub":
        if product(0):
            return call("fma", *args[0].args, call("neg", args[1]))
        if product(1):
            return call("fma", call("neg", args[1].args[0]), args[1].args[1], args[0])
    if node.op == "reduce" and node.attr[0] == "sum" and product(0):
        return rebuild(node, (call("fma", *args[0].args, const(-0.0, args[0].type)),), node.attr)  # printed as a step of the sum
    return kept(node, args)
