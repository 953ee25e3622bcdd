"""NumPy in captured graphs: which calls are nodes, and what is guarded."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

CASES = [
    Case(
        "functions of arrays that come in",
        """
        import numpy as np
        def f(a, b):
            return np.maximum(np.sin(a), b).sum(axis=0)
        """,
        inputs=["np.ones((2, 3)), np.zeros((2, 3))", "np.zeros((2, 3)), np.ones((2, 3))"],
        graphs=["sin maximum sum"],
        breaks=[],
        compiles=1,
    ),
    Case(
        "another dtype compiles anew",
        """
        import numpy as np
        def f(a):
            return a * 2
        """,
        inputs=["np.ones(3)", "np.ones(3, np.float32)"],
        graphs=["multiply"],
        breaks=[],
        compiles=2,
    ),
    Case(
        "numbers of NumPy are constants",
        """
        import numpy as np
        def f(x, k):
            return x * k + np.float32(0.5)
        """,
        inputs=["t(3), np.int64(2)", "t(3), np.int64(2)", "t(3), np.int64(3)"],
        graphs=["mul add"],
        breaks=[],
        compiles=2,
    ),
    Case(
        "a write to an array that came in is left to NumPy",
        """
        import numpy as np
        def f(a):
            a[0] = 5
            return a * 2
        """,
        inputs=["np.ones(3)", "np.zeros(3)"],
        graphs=None,
        breaks=["DD015:3"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_numpy(case: Case) -> None:
    case.check()
