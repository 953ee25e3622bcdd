"""Numbers that differ at each call: how often they compile."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

COUNTER = """
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0
    def forward(self, x):
        self.n += 1
        return body(self, x)
f = Counter()
"""
TEN = ["t(3)"] * 10


def _counter(name: str, body: str, graphs: int, compiles: int) -> Case:
    return Case(name, COUNTER + body, TEN, graphs, compiles=compiles)


CASES = [
    _counter("a count that nothing looks at", "def body(self, x): return x + 1", 1, 1),
    _counter("a count that is a result", "def body(self, x): return x + 1, self.n", 1, 1),
    _counter("a factor", "def body(self, x): return x * self.n", 1, 3),
    _counter("Python's arithmetic", "def body(self, x): return x / (1 - 0.9 ** self.n) + self.n // 2 * 0.5", 1, 3),
    _counter("a warm-up", "def body(self, x): return x * min(1.0, self.n / 4)", 1, 4),
    _counter("a branch", "def body(self, x): return x * 2 if self.n > 4 else x + 1", 2, 4),
    _counter("every third time", "def body(self, x): return x * 2 if self.n % 3 == 0 else x + 1", 2, 3),
    Case("a parameter", "def f(x, step, rate): return x * step - rate * x", [f"t(3), {i}, {i / 3}" for i in range(10)], 1, compiles=3),
    Case("two values stay constants", "def f(x, k): return x * k", ["t(3), 2", "t(3), 3", "t(3), 2", "t(3), 3"], 1, compiles=2),
    Case(
        "a guard on the tensor made of it holds for memory that is used again",
        "def f(x, a, b): return x * a + x * b",
        [f"t(3), {i}, {i + 1}" for i in range(10)],
        1,
        compiles=3,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_changing(case: Case) -> None:
    case.check()
