"""Iterators in use at a graph break are made again: the loop goes on where it was, and nothing is taken twice."""

from __future__ import annotations

import pytest
import torch

import dynamo
from tests.capture.same import same
from tests.symbolic import objects
from tests.symbolic.running import run

# Expressions for an iterator over `xs` ([1, 2, 3]), `d` and `s`.
ITERATORS = (
    "iter(xs)",
    "iter([4, x, 6])",
    "iter((1, 2, 3))",
    "iter('abc')",
    "iter(range(2, 9, 3))",
    "iter(d)",
    "iter(d.items())",
    "iter(dict(q=1, r=2).values())",
    "iter(sorted(s))",
    "reversed(xs)",
    "reversed((1, 2, 3))",
    "reversed(range(4))",
    "iter(collections.deque([1, 2, 3]))",
    "zip(xs, 'abc')",
    "zip(xs, [x, x, x], strict=True)",
    "enumerate(xs)",
    "enumerate(zip(xs, xs), 5)",
    "map(lambda v: v * 2, xs)",
    "map(operator.add, xs, [x, x, x])",
    "filter(None, [0, 1, 2, 3])",
    "filter(lambda v: v != 2, xs)",
    "itertools.chain(xs, 'ab')",
    "itertools.chain.from_iterable([[1], [2, 3], [x]])",
    "itertools.islice(itertools.count(3, 2), 4)",
    "itertools.islice(range(20), 2, 15, 3)",
    "itertools.islice(itertools.cycle('ab'), 5)",
    "itertools.cycle([1, 2, 3])",
    "itertools.count(5)",
    "itertools.repeat(x, 3)",
    "itertools.starmap(pow, [(1, 2), (3, 2), (2, 2)])",
    "itertools.takewhile(lambda v: v < 3, xs)",
    "itertools.dropwhile(lambda v: v < 2, xs)",
    "itertools.filterfalse(lambda v: v == 2, xs)",
    "itertools.compress('abc', [1, 1, 1])",
    "itertools.zip_longest(xs, [1])",
    "itertools.product('ab', [1, 2])",
    "itertools.permutations(xs, 2)",
    "itertools.combinations(xs, 2)",
    "itertools.accumulate(xs)",
    "itertools.pairwise(xs)",
    "(v * 2 for v in xs)",
    "iter(lambda: xs.pop(), 1)",
)

USES = {
    "after the break": "it = {it}; dynamo.graph_break(); return [next(it, None) for _ in range(4)]",
    "before and after": "it = {it}; a = next(it); dynamo.graph_break(); return a, [next(it, None) for _ in range(4)]",
    "in a loop": "out = []\nfor i, v in zip(range(4), {it}):\n    out.append((v, x * i))\n    dynamo.graph_break()\nreturn out, xs",
    "used up": "it = {it}; a = [next(it, None) for _ in range(7)]; dynamo.graph_break(); return a, next(it, 'end') if 0 else x",
    "shared": "it = {it}; both = [it, it]; next(it); dynamo.graph_break(); return next(both[0], 0), next(both[1], 0), both[0] is both[1]",
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("iterator", ITERATORS)
def test_iterator_over_a_break(iterator: str, use: str) -> None:
    body = USES[use].format(it=iterator).replace("\n", "\n    ")
    scope = {**vars(objects), "dynamo": dynamo, "torch": torch}
    exec(f"def f(x, xs, d, s):\n    {body}\n", scope)
    dynamo.reset()
    eager = run(scope["f"])
    compiled = run(dynamo.compile(scope["f"], backend="eager"))
    if "exception" in compiled:
        raise compiled["exception"]
    same(eager, compiled, "")
