"""Grad mode, inference mode, autocast, other global modes, `autograd.Function`, checkpoint, compiler directives."""

from __future__ import annotations

import pytest

from tests.capture.language import Case

GRAD = ["t(3, grad=True)", "t(3, grad=True)"]

GRAD_MODES = [
    Case(
        "no_grad",
        """
        def f(x):
            with torch.no_grad():
                y = x.sin()
            return y * 2
        """,
        inputs=GRAD,
        graphs=1,
    ),
    Case(
        "no_grad around everything",
        """
        def f(x):
            with torch.no_grad():
                return x.sin()
        """,
        inputs=GRAD,
        graphs=1,
    ),
    Case(
        "enable_grad inside no_grad",
        """
        def f(x):
            with torch.no_grad():
                y = x * 2
                with torch.enable_grad():
                    z = x * 3
            return y, z
        """,
        inputs=GRAD,
        graphs=1,
    ),
    Case(
        "set_grad_enabled as a context",
        """
        def f(x, flag):
            with torch.set_grad_enabled(flag):
                y = x * 2
            return y
        """,
        inputs=["t(3, grad=True), True", "t(3, grad=True), False"],
        graphs=None,
        compiles=2,
    ),
    Case(
        "set_grad_enabled as a call",
        """
        def f(x):
            torch.set_grad_enabled(False)
            y = x * 2
            torch.set_grad_enabled(True)
            return y, x * 3
        """,
        inputs=GRAD,
        graphs=1,
    ),
    Case(
        "grad mode left changed",
        """
        def f(x):
            y = x * 2
            torch.set_grad_enabled(False)
            return y
        """,
        inputs=GRAD,
        graphs=1,
        compiles=None,
    ),
    Case(
        "no_grad as a decorator",
        """
        @torch.no_grad()
        def g(x): return x * 2
        def f(x): return g(x) + x
        """,
        inputs=GRAD,
        graphs=1,
    ),
    Case(
        "no_grad decorating the compiled function",
        """
        @torch.no_grad()
        def f(x): return x * 2
        """,
        inputs=GRAD,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "is_grad_enabled",
        """
        def f(x):
            with torch.no_grad():
                y = x * 2 if torch.is_grad_enabled() else x * 3
            return y + 1 if torch.is_grad_enabled() else y
        """,
        inputs=GRAD,
        graphs=1,
    ),
    Case(
        "called under no_grad by the caller",
        """
        def mode(flag): torch.set_grad_enabled(flag)
        def f(x, _):
            return x * 2, torch.is_grad_enabled()
        """,
        inputs=["t(3, grad=True), mode(False)", "t(3, grad=True), mode(True)"],
        graphs=["mul"],
        compiles=2,
    ),
    Case(
        "exception leaves no_grad",
        """
        def f(x):
            try:
                with torch.no_grad():
                    raise ValueError
            except ValueError:
                return x * 2, torch.is_grad_enabled()
        """,
        inputs=GRAD,
        graphs=None,
    ),
    Case(
        "return from no_grad in a loop",
        """
        def f(x):
            for i in range(3):
                with torch.no_grad():
                    if i == 1: return x * i
        """,
        inputs=GRAD,
        graphs=None,
    ),
    Case(
        "generator under no_grad",
        """
        def g(x):
            with torch.no_grad():
                yield x * 2
                yield x * 3
        def f(x): return sum(g(x))
        """,
        inputs=GRAD,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "context object in a variable",
        """
        def f(x):
            ctx = torch.no_grad()
            with ctx:
                y = x * 2
            return y + x
        """,
        inputs=GRAD,
        graphs=1,
    ),
    Case(
        "context chosen by a flag",
        """
        import contextlib
        def f(x, flag):
            with torch.no_grad() if flag else contextlib.nullcontext():
                return x * 2
        """,
        inputs=["t(3, grad=True), True", "t(3, grad=True), False"],
        graphs=None,
        compiles=2,
    ),
    Case(
        "inference_mode",
        """
        def f(x):
            with torch.inference_mode():
                y = x * 2
            return y.clone()
        """,
        inputs=["t(3)", "t(3)"],
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "saved_tensors_hooks",
        """
        def f(x):
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                return x.sin()
        """,
        inputs=GRAD,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
]

AUTOCAST = [
    Case(
        "autocast",
        """
        def f(x, y):
            with torch.autocast('cpu', dtype=torch.bfloat16):
                return x @ y
        """,
        inputs=["t(3, 3), t(3, 3)"] * 2,
        graphs=1,
    ),
    Case(
        "autocast left again",
        """
        def f(x, y):
            with torch.autocast('cpu', dtype=torch.bfloat16):
                z = x @ y
            return z.float() + x @ y
        """,
        inputs=["t(3, 3), t(3, 3)"] * 2,
        graphs=1,
    ),
    Case(
        "autocast disabled inside",
        """
        def f(x):
            with torch.autocast('cpu', dtype=torch.bfloat16):
                with torch.autocast('cpu', enabled=False):
                    return x @ x
        """,
        inputs=["t(3, 3)"] * 2,
        graphs=1,
    ),
    Case(
        "autocast around a layer",
        """
        torch.manual_seed(0)
        m = nn.Linear(3, 3)
        def f(x):
            with torch.autocast(device_type='cpu'):
                return m(x)
        """,
        inputs=["t(2, 3)"] * 2,
        graphs=1,
    ),
    Case(
        "autocast of the caller is guarded",
        "def f(x, _): return x @ x",
        inputs=["t(3, 3), torch.set_autocast_enabled('cpu', True)", "t(3, 3), torch.set_autocast_enabled('cpu', False)"],
        graphs=["matmul"],
        compiles=2,
    ),
    Case("is_autocast_enabled", "def f(x): return x * 2 if torch.is_autocast_enabled('cpu') else x * 3", graphs=["mul"]),
    Case(
        "autocast as a decorator",
        """
        @torch.autocast('cpu', dtype=torch.bfloat16)
        def g(x): return x @ x
        def f(x): return g(x)
        """,
        inputs=["t(3, 3)"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
]

STATE = [
    Case(
        "default dtype is guarded",
        "def f(x, _): return x + torch.zeros(3)",
        inputs=["t(3), torch.set_default_dtype(torch.float64)", "t(3), torch.set_default_dtype(torch.float32)"],
        graphs=["zeros add"],
        compiles=2,
    ),
    Case("default dtype read", "def f(x): return x.to(torch.get_default_dtype())", graphs=["to"]),
    Case(
        "deterministic mode is guarded",
        "def f(x, _): return x + 1",
        inputs=["t(3), torch.use_deterministic_algorithms(True)", "t(3), torch.use_deterministic_algorithms(False)"],
        graphs=["add"],
        compiles=2,
    ),
    Case(
        "device context",
        """
        def f(x):
            with torch.device('cpu'):
                return x + torch.ones(3)
        """,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "fork_rng",
        """
        def f(x):
            with torch.random.fork_rng():
                return x + torch.rand(3)
        """,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "profiler record_function",
        """
        def f(x):
            with torch.profiler.record_function('part'):
                return x.sin()
        """,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "sdpa_kernel",
        """
        from torch.nn.attention import sdpa_kernel, SDPBackend
        def f(q):
            with sdpa_kernel(SDPBackend.MATH):
                return F.scaled_dot_product_attention(q, q, q)
        """,
        inputs=["t(1, 1, 2, 4)"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case("set_num_threads is left alone", "def f(x): return x + torch.get_num_threads() * 0", fullgraph=False, compiles=None),
]

FUNCTION = """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.k = 3
        return x * 2
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 + ctx.k * x
"""

AUTOGRAD = [
    Case(
        "autograd.Function",
        "def f(x): return Double.apply(x) + 1",
        inputs=GRAD,
        graphs=1,
        prelude=FUNCTION,
    ),
    Case(
        "autograd.Function through a variable",
        """
        double = Double.apply
        def f(x): return double(double(x))
        """,
        inputs=GRAD,
        graphs=1,
        prelude=FUNCTION,
    ),
    Case(
        "autograd.Function without gradient",
        "def f(x): return Double.apply(x)",
        graphs=1,
        prelude=FUNCTION,
    ),
    Case(
        "autograd.Function with several values",
        """
        class M(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, y, k):
                ctx.save_for_backward(x, y)
                ctx.k = k
                return x * y * k, x + y
            @staticmethod
            def backward(ctx, a, b):
                x, y = ctx.saved_tensors
                return a * y * ctx.k + b, a * x * ctx.k + b, None
        def f(x, y): return M.apply(x, y, 3)
        """,
        inputs=["t(3, grad=True), t(3, grad=True)"] * 2,
        graphs=1,
    ),
    Case(
        "autograd.Function with setup_context",
        """
        class S(torch.autograd.Function):
            @staticmethod
            def forward(x): return x.exp()
            @staticmethod
            def setup_context(ctx, inputs, output): ctx.save_for_backward(output)
            @staticmethod
            def backward(ctx, g): return g * ctx.saved_tensors[0]
        def f(x): return S.apply(x)
        """,
        inputs=GRAD,
        graphs=1,
    ),
    Case(
        "autograd.Function in a module",
        """
        class M(nn.Module):
            def forward(self, x): return Double.apply(x).sum()
        f = M()
        """,
        inputs=GRAD,
        graphs=1,
        prelude=FUNCTION,
    ),
    Case(
        "straight-through estimator",
        """
        class Ste(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x): return x.round()
            @staticmethod
            def backward(ctx, g): return g
        def f(x): return Ste.apply(x * 3) * x
        """,
        inputs=GRAD,
        graphs=1,
    ),
    Case(
        "mark_non_differentiable",
        """
        class A(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                i = x.argsort()
                ctx.mark_non_differentiable(i)
                return x * 2, i
            @staticmethod
            def backward(ctx, g, _): return g * 2
        def f(x): return A.apply(x)
        """,
        inputs=GRAD,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "needs_input_grad",
        """
        class A(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, w):
                ctx.save_for_backward(x, w)
                return x * w
            @staticmethod
            def backward(ctx, g):
                x, w = ctx.saved_tensors
                return g * w if ctx.needs_input_grad[0] else None, g * x if ctx.needs_input_grad[1] else None
        def f(x, w): return A.apply(x, w)
        """,
        inputs=["t(3, grad=True), t(3)"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "checkpoint",
        """
        from torch.utils.checkpoint import checkpoint
        def g(x): return x.sin().exp()
        def f(x): return checkpoint(g, x, use_reentrant=False) + 1
        """,
        inputs=GRAD,
        graphs=1,
    ),
    Case(
        "checkpoint of a module",
        """
        from torch.utils.checkpoint import checkpoint
        torch.manual_seed(0)
        m = nn.Linear(3, 3)
        def f(x): return checkpoint(m, x, use_reentrant=False).relu()
        """,
        inputs=["t(2, 3, grad=True)"] * 2,
        graphs=1,
    ),
    Case(
        "checkpoint with two arguments and a closure",
        """
        from torch.utils.checkpoint import checkpoint
        def f(x, y):
            k = 3
            return checkpoint(lambda a, b: a * b * k, x, y, use_reentrant=False)
        """,
        inputs=["t(3, grad=True), t(3, grad=True)"] * 2,
        graphs=1,
    ),
    Case(
        "checkpoint_sequential",
        """
        from torch.utils.checkpoint import checkpoint_sequential
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
        def f(x): return checkpoint_sequential(m, 2, x, use_reentrant=False)
        """,
        inputs=["t(2, 3, grad=True)"] * 2,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
]

DIRECTIVES = [
    Case(
        "torch.compiler.disable",
        """
        @torch.compiler.disable
        def g(x): return x.cos()
        def f(x): return g(x.sin()) + 1
        """,
        inputs=["t(3)"] * 2,
        graphs=["sin", "add"],
        breaks=["*:3"],
    ),
    Case(
        "dynamo.disable",
        """
        import dynamo
        @dynamo.disable
        def g(x): return x.cos()
        def f(x): return g(x.sin()) + 1
        """,
        inputs=["t(3)"] * 2,
        graphs=["sin", "add"],
        breaks=["*:4"],
    ),
    Case(
        "dynamo.disable not recursive",
        """
        import dynamo
        def h(x): return x.cos()
        @dynamo.disable(recursive=False)
        def g(x): return h(x) * 2
        def f(x): return g(x.sin()) + 1
        """,
        inputs=["t(3)"] * 2,
        graphs=["sin", "cos", "add"],
        breaks=["*:5"],
    ),
    Case(
        "graph_break",
        """
        import dynamo
        def f(x):
            y = x.sin()
            dynamo.graph_break()
            return y + 1
        """,
        inputs=["t(3)"] * 2,
        graphs=["sin", "add"],
        breaks=["*:4"],
    ),
    Case(
        "allow_in_graph",
        """
        import dynamo
        @dynamo.allow_in_graph
        def g(x): return x.cos() * 2
        def f(x): return g(x) + 1
        """,
        graphs=["g add"],
    ),
    Case(
        "torch.compiler.allow_in_graph",
        """
        @torch.compiler.allow_in_graph
        def g(x): return x.cos() * 2
        def f(x): return g(x) + 1
        """,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "disallow_in_graph",
        """
        import dynamo
        dynamo.disallow_in_graph(torch.special.erf)
        def f(x): return torch.special.erf(x.sin()) + 1
        """,
        inputs=["t(3)"] * 2,
        graphs=["sin", "add"],
        breaks=["*:3"],
    ),
    Case(
        "assume_constant_result",
        """
        import dynamo
        @dynamo.assume_constant_result
        def g(): return 3
        def f(x): return x * g()
        """,
        graphs=["mul"],
    ),
    Case("is_compiling", "def f(x): return x + 1 if torch.compiler.is_compiling() else x + 1", graphs=["add"]),
    Case("is_dynamo_compiling", "def f(x): return x + 1 if torch.compiler.is_dynamo_compiling() else x + 1", graphs=["add"]),
    Case(
        "is_scripting and is_tracing",
        "def f(x): return x - 1 if torch.jit.is_scripting() or torch.jit.is_tracing() else x + 1",
        graphs=["add"],
    ),
    Case(
        "torch._check",
        """
        def f(x):
            torch._check(x.shape[0] == 3, lambda: 'size')
            return x + 1
        """,
        graphs=["add"],
    ),
    Case(
        "torch.jit.script_if_tracing and ignore",
        """
        @torch.jit.ignore
        def g(x): return x * 2
        def f(x): return g(x)
        """,
        graphs=["mul"],
    ),
    Case(
        "pytree",
        """
        from torch.utils._pytree import tree_map
        def f(x): return tree_map(lambda v: v * 2, {'a': x, 'b': [x + 1, 3]})
        """,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "typing.cast and overload helpers",
        """
        from typing import cast
        def f(x): return cast(torch.Tensor, x) + 1
        """,
        graphs=["add"],
    ),
    Case(
        "warnings",
        """
        import warnings
        def f(x):
            with warnings.catch_warnings():
                warnings.simplefilter('ignore')
                return x + 1
        """,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "warning raised once per call",
        """
        import warnings
        def f(x):
            warnings.warn('careful')
            return x + 1
        """,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
    Case(
        "logging",
        """
        import logging
        def f(x):
            logging.getLogger('case').debug('x %s', 1)
            return x + 1
        """,
        graphs=None,
        fullgraph=False,
        compiles=None,
    ),
]


@pytest.mark.parametrize("case", GRAD_MODES + AUTOCAST + STATE, ids=lambda case: case.name)
def test_modes(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", AUTOGRAD, ids=lambda case: case.name)
def test_autograd_functions(case: Case) -> None:
    case.check()


@pytest.mark.parametrize("case", DIRECTIVES, ids=lambda case: case.name)
def test_directives(case: Case) -> None:
    case.check()
