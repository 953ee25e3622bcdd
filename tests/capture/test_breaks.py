"""Graph breaks: what causes them."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

BAR = """
def f(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b
"""
SIGNS = ["t(10), t(10).abs()", "t(10), -t(10).abs()"]
BOTH = ["t(3).abs()", "-t(3).abs()"]

BRANCHES = [
    Case("if on a tensor", BAR, SIGNS, ["abs add truediv sum lt", "mul", "mul mul"], ["DD001:3"], compiles=3),
    Case(
        "if else",
        """
        def f(x):
            y = x.sin()
            if x.sum() > 0:
                return y + 1
            else:
                return y - 1
        """,
        inputs=BOTH,
        graphs=["sin sum gt", "add", "sub"],
        breaks=["DD001:3"],
    ),
    Case(
        "conditional expression",
        """
        def f(x):
            return x + 1 if x.sum() > 0 else x - 1
        """,
        inputs=BOTH,
        graphs=["sum gt", "add", "sub"],
        breaks=["DD001:2"],
    ),
    Case(
        "while on a tensor",
        """
        def f(x):
            while x.sum() < 5:
                x = x + 1
            return x * 2
        """,
        inputs=["torch.zeros(3)", "torch.ones(3)"],
        graphs=None,
        breaks=["DD001:2"],
    ),
    Case(
        "not",
        """
        def f(x):
            y = not x.sum() > 0
            return x + y
        """,
        inputs=BOTH,
        graphs=None,
        breaks=["DD001:2"],
    ),
    Case(
        "and",
        """
        def f(x):
            y = x.sum() > 0 and x.sin()
            return x + y
        """,
        inputs=BOTH,
        graphs=None,
        breaks=["DD001:2"],
    ),
    Case(
        "or",
        """
        def f(x):
            y = x.sum() > 0 or x.sin()
            return y
        """,
        inputs=BOTH,
        graphs=None,
        breaks=["DD001:2"],
    ),
    Case(
        "assert on a tensor is no break",
        """
        def f(x):
            assert x.sum() < 100
            return x + 1
        """,
        inputs=BOTH,
        graphs=["sum lt _assert_async add"],
    ),
    Case(
        "one side of a branch raises",
        """
        def f(x):
            if x.sum() >= 100 or not x.isfinite().all():
                if x.dim() > 1:
                    raise TypeError(x.shape)
                raise ValueError(f"{x.sum()}")
            return x + 1
        """,
        inputs=["t(3)", "t(3) + 100", "t(2, 3) + 100"],
        graphs=["sum ge logical_not _assert_async isfinite all _assert_async add"],
        compiles=2,
    ),
    Case(
        "one side of a branch returns or raises",
        """
        def f(x):
            if x.sum() >= 100:
                if x.dim() > 1:
                    return x
                raise ValueError(x.sum())
            return x + 1
        """,
        inputs=BOTH,
        graphs=None,
        breaks=["DD001:2"],
    ),
    Case(
        "two breaks in one frame",
        """
        def f(x):
            if x.sum() > 0:
                x = x + 1
            y = x * 2
            if y.sum() > 0:
                y = y + 2
            return y
        """,
        inputs=BOTH,
        graphs=None,
        breaks=["DD001:2", "DD001:5"],
    ),
    Case(
        "bool of a tensor",
        """
        def f(x):
            b = bool(x.sum() > 0)
            return x + 1 if b else x - 1
        """,
        inputs=BOTH,
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "tensor in a Python and chain with numbers",
        """
        def f(x, n):
            if n > 1 and x.sum() > 0:
                return x + n
            return x
        """,
        inputs=["t(3).abs(), 2", "-t(3).abs(), 2"],
        graphs=None,
        breaks=["DD001:2"],
    ),
    Case(
        "tensor comparison in a comprehension",
        """
        def f(x):
            return [i for i in range(3) if x[i] > 0]
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "in over tensors",
        """
        def f(x, xs):
            return x + 1 if x in xs else x - 1
        """,
        inputs=["t(1), [t(1), t(1)]"] * 2,
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "max of tensors by comparison",
        """
        def f(x):
            return max(x[0], x[1])
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "sorted tensors",
        """
        def f(x):
            return sorted([x[0], x[1]])
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:2"],
    ),
]

VALUES = [
    Case(
        "item",
        """
        def f(x):
            n = x.sum().item()
            return x * n
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "int of a tensor",
        """
        def f(x):
            n = int(x.sum())
            return x * n
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "float of a tensor",
        """
        def f(x):
            return x * float(x[0])
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "tolist",
        """
        def f(x):
            ns = x.tolist()
            return x * ns[0]
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "nonzero",
        """
        def f(x):
            i = torch.nonzero(x > 0)
            return i + 1
        """,
        inputs=["t(4)", "t(4)"],
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "boolean mask",
        """
        def f(x):
            y = x[x > 0]
            return y + 1
        """,
        inputs=["t(4)", "t(4)"],
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "unique",
        """
        def f(x):
            y = x.unique()
            return y + 1
        """,
        inputs=["t(4, dtype=torch.int64)"] * 2,
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "range over an item",
        """
        def f(x):
            n = int(x[0])
            for i in range(n):
                x = x + i
            return x
        """,
        inputs=["torch.tensor([2, 1])", "torch.tensor([3, 1])"],
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "f-string of a tensor",
        """
        def f(x):
            y = x + 1
            s = f'{y.sum():.2f}'
            return y, s
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:3"],
    ),
    Case(
        "str of a tensor",
        """
        def f(x):
            y = x + 1
            s = str(y)
            return y * 2, s
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:3"],
    ),
    Case(
        "tensor as a list index",
        """
        def f(x, xs):
            return x + xs[x.argmax()]
        """,
        inputs=["t(2), [5, 6]"] * 2,
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "data_ptr",
        """
        def f(x):
            same = x.data_ptr() == x.data_ptr()
            return x + same
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "equal",
        """
        def f(x):
            same = torch.equal(x, x)
            return x + same
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:2"],
    ),
    Case(
        "allclose",
        """
        def f(x):
            same = torch.allclose(x, x + 1)
            return x + same
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:2"],
    ),
]

CALLS = [
    Case(
        "print",
        """
        def f(x):
            y = x.sin()
            print('between', y.shape)
            return y + 1
        """,
        inputs=["t(3)", "t(3)"],
        graphs=["sin", "add"],
        breaks=["*:3"],
    ),
    Case(
        "print a tensor",
        """
        def f(x):
            print(x.sin())
            return x + 1
        """,
        inputs=["t(3)", "t(3)"],
        graphs=["sin", "add"],
        breaks=["*:2"],
    ),
    Case(
        "print first",
        """
        def f(x):
            print('start')
            return x + 1
        """,
        inputs=["t(3)", "t(3)"],
        graphs=["add"],
        breaks=["*:2"],
    ),
    Case(
        "print last",
        """
        def f(x):
            y = x + 1
            print('end')
            return y
        """,
        inputs=["t(3)", "t(3)"],
        graphs=["add"],
        breaks=["*:3"],
    ),
    Case(
        "print twice",
        """
        def f(x):
            print('a')
            x = x + 1
            print('b')
            x = x * 2
            return x
        """,
        inputs=["t(3)", "t(3)"],
        graphs=["add", "mul"],
        breaks=["*:2", "*:4"],
    ),
    Case(
        "print in a loop",
        """
        def f(x):
            for i in range(3):
                x = x + i
                print(i)
            return x
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:4"],
    ),
    Case(
        "numpy",
        """
        import numpy as np
        def f(x):
            y = np.unwrap(x.numpy())
            return torch.from_numpy(y) * 2
        """,
        inputs=["t(4)", "t(4)"],
        graphs=None,
        breaks=["*:3"],
    ),
    Case(
        "numpy as tensor operators",
        """
        import numpy as np
        def f(x):
            y = np.sin(x.numpy())
            return torch.from_numpy(y) * 2
        """,
        inputs=["t(4)", "t(4)"],
        graphs=["sin detach mul"],
        breaks=[],
    ),
    Case(
        "scipy",
        """
        import scipy.fft
        def f(x):
            x = x * 2
            x = scipy.fft.dct(x.numpy())
            x = torch.from_numpy(x)
            x = x * 2
            return x
        """,
        inputs=["t(5, 5)", "t(5, 5)"],
        graphs=["mul", "detach mul"],
        breaks=["*:4"],
    ),
    Case(
        "C extension function",
        """
        import zlib
        def f(x):
            y = x + 1
            n = zlib.crc32(b'abc') % 7
            return y * n
        """,
        inputs=["t(3)", "t(3)"],
        graphs=["add", "mul"],
        breaks=["*:4"],
    ),
    Case(
        "random module",
        """
        import random
        def f(x):
            random.seed(3)
            return x * random.random()
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:3", "*:4"],
    ),
    Case(
        "time",
        """
        import time
        def f(x):
            t0 = time.time()
            y = x + 1
            return y if time.time() >= t0 else x
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:3", "*:5"],
    ),
    Case(
        "open",
        """
        import os
        def f(x):
            y = x + 1
            with open(os.devnull) as h:
                n = len(h.read())
            return y * n
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        breaks=["*:4", "*:5"],
    ),
    Case(
        "backward",
        """
        def f(x):
            y = (x * 2).sum()
            y.backward()
            return x.grad + 1
        """,
        inputs=["t(3, grad=True)"] * 2,
        graphs=None,
        breaks=["*:3"],
    ),
    Case(
        "what only the first call sets up",
        """
        class State: pass
        state = State()
        def set_up():
            if not hasattr(state, 'scale'):
                print('once')
                state.scale = 2
        def f(x):
            y = x + 1
            set_up()
            return y * state.scale
        """,
        inputs=["t(3)"] * 4,
        graphs=["add", "mul", "add mul"],
        breaks=["DD004:5"],
        compiles=3,
    ),
    Case(
        "what sets up again whenever it is called",
        """
        class State: flag = None
        state = State()
        def flip():
            print('each time')
            state.flag = not state.flag
        def f(x):
            y = x + 1
            flip()
            return y * 2
        """,
        inputs=["t(3)"] * 6,
        graphs=None,
        breaks=["DD004:4"],
    ),
    Case(
        "an object with a finalizer",
        """
        class Ends:
            def __init__(self, n): self.n = n
            def __del__(self): print('ends', self.n)
        def f(x):
            y = x + 1
            held = Ends(3)
            y = y * held.n
            del held
            return y.sin()
        """,
        inputs=["t(3)"] * 2,
        graphs=None,
        breaks=["DD031:6"],
    ),
]


@pytest.mark.parametrize("case", BRANCHES + VALUES, ids=lambda case: case.name)
def test_breaks_on_values(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case.name)
def test_breaks_on_calls(case: Case) -> None:
    case.check()
