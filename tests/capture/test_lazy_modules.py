"""Lazy modules: the first call breaks, and with it ends the reason to break."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

OWN = """
class Own(nn.modules.lazy.LazyModuleMixin, nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.UninitializedBuffer()
    def initialize_parameters(self, x):
        if self.has_uninitialized_params():
            self.w.materialize((x.shape[-1],))
            self.w.fill_(2)
    def forward(self, x):
        return x * self.w
own = Own()
"""

CASES = [
    Case(
        "a container of torch's: nothing on the first call, one graph from the second on",
        "f = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2))",
        ["t(2, 4)"] * 3,
        ["linear relu linear"],
        fullgraph=False,
        compiles=3,  # the first call, its rest, the second call
    ),
    Case(
        "in a function",
        """
        m = nn.LazyLinear(3)
        def f(x): return m(x.sin()) + 1
        """,
        ["t(2, 4)"] * 3,
        ["sin", "add", "sin linear add"],
        breaks=["DD029:2"],
    ),
    Case(
        "a module that has no class to become",
        "def f(x): return own(x) + 1",
        ["t(2, 4)"] * 3,
        ["fill_", "mul", "add", "mul add"],
        fullgraph=False,
        prelude=OWN,
        compiles=None,
    ),
    Case(
        "with parameters loaded, lazy in name only",
        """
        m = nn.LazyLinear(2)
        m.load_state_dict(nn.Linear(4, 2).state_dict())
        def f(x): return m(x) + 1
        """,
        ["t(2, 4)"] * 3,
        ["add", "linear add"],
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "called before: one graph at once",
        """
        m = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d())
        m(torch.ones(2, 4))
        def f(x): return m(x) + 1
        """,
        ["t(2, 4)"] * 3,
        1,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_lazy(case: Case) -> None:
    case.check()
