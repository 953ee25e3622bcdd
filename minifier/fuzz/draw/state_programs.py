"""A Hypothesis strategy for programs with state: modes, autograd, seeds, writes in place, errors that are caught, patches between calls.

A program is the text of `def program(compile)`, as those of `repro_corpus`: it compiles `f`, calls it a few times, changes something
in between, and returns what can be seen. All tensors are 3 x 3, so that every operator fits every name; where eager raises, compiled
code must raise the same. The plainest choice comes first, so that shrinking removes statements.
"""

from __future__ import annotations

import re
import textwrap

from hypothesis import strategies as st

from minifier.fuzz.draw.functions import BOTH

PRELUDE = (
    """
import builtins
import contextlib
import enum
import functools
import sys
import warnings
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch.autograd.graph import get_gradient_edge
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

class Base:
    scale = 2.0
    def step(self, x):
        return x * self.scale

class Middle(Base):
    def step(self, x):
        return super().step(x) + 1

    @staticmethod
    def twice(x):
        return x * 2

    @classmethod
    def scaled(cls, x):
        return x * cls.scale

    @property
    def bound(self):
        return self.scale + 1

class Layer(Middle):
    pass

layer = Layer()

def helper(x):
    return x + 1

first_helper = helper

def is_low(x, bound=1e6):
    return bool((x < bound).all())

def checked(x):
    if not is_low(x):
        raise ValueError("high")
    return x * 2

class Side(enum.Flag):
    LEFT = enum.auto()
    RIGHT = enum.auto()

class Key:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return isinstance(other, Key) and self.n == other.n

    def __hash__(self):
        return hash((self.n, "key"))

    def __repr__(self):
        return f"Key({self.n})"

sides = {Side.LEFT: 2.0, Key(2): 3.0, (Key(3), 1): 4.0}

parts = {"one": torch.eye(3), "two": torch.full((3, 3), 0.5)}
first_parts = dict(parts)
scaling = functools.partial(lambda x, by=1, scaling=0: x * by + scaling, by=2)

def total(d):
    return sum((i + 1) * v for i, v in enumerate(d.values()))

WEIGHTS = torch.tensor([1.0, 2.0, 4.0])  # of what is differentiated: the gradient of a plain sum of softmaxes is rounding alone

ready = []

def once(x):
    if not ready:
        print("first")
        ready.append(1)
    return x * 3

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 2 + x * 0

def once_more(x, y):
    first, second = checkpoint(lambda s, t: (s.sin() * 2, t * s), x, y, use_reentrant=True)
    return first * 1, second * 1

class Logged(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        operators.append(str(func))
        return func(*args, **(kwargs or {}))

class Counted(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        operators.append(getattr(func, "__name__", ""))
        return func(*args, **(kwargs or {}))

operators = []
undo = []
told = []

@contextlib.contextmanager
def recorded():
    with warnings.catch_warnings(record=True) as log:
        warnings.simplefilter("always")
        told.append(log)
        yield

def replaced(owner, name, value):
    undo.append((owner, name, vars(owner)[name]))
    setattr(owner, name, value)

def forget_gradients(results):
    # those that a pass accumulated before it failed, which is for the order of the engine to say
    for t in results:
        if isinstance(t, torch.Tensor) and t.is_leaf:
            t.grad = None

def put_back():
    while undo:
        setattr(*undo.pop())
    globals()["helper"] = first_helper
    vars(layer).clear()
    told.clear()
    parts.clear()
    parts.update(first_parts)
    scaling.keywords.pop("scaling", None)
    sys.modules.pop("chosen", None)
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)

def under(mode, fn):
    def run(*args):
        operators.clear()
        with mode():
            results = fn(*args)
        return *results, list(operators)
    return run

class Chosen(torch.autograd.Function):
    # keeps the operands until a backward pass and sees to it that nobody writes to them, as torch.cond does
    @staticmethod
    def forward(ctx, result, *operands):
        ctx.save_for_backward(*operands)
        return result.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad, *[None for _ in ctx.saved_tensors]

def either(predicate, when_true, when_false, *operands):
    # torch.cond in graphs, for operands of one dtype and layout; eager, where it loads torch's own compiler, gets what it stands for
    # a leaf may be a view whose gradients lead nowhere, which no graph takes; and `is_leaf` raises of one without a history, which is an
    # error of another type where torch's own compiler meets it
    operands = [t.view_as(t) if t.is_leaf and t.requires_grad else t for t in operands]
    special = torch.is_autocast_enabled("cpu") or torch.is_inference_mode_enabled() or any(t.is_inference() for t in operands)
    special = special or operands[0].dtype != operands[1].dtype or operands[0].stride() != operands[1].stride()
    if torch.compiler.is_compiling() and not special:
        return torch.cond(predicate, when_true, when_false, operands)
    result = (when_true if predicate else when_false)(*operands)
    return result if special else Chosen.apply(result, *operands)

def slope(loss, of):
    return torch.autograd.grad(loss, of, allow_unused=True)[0]
"""
    + BOTH
)

NAMES = ("x", "y", "z", "w")
POINTWISE = (
    "{a}.sin()",
    "{a} * 2",
    "{a} + {b}",
    "{a} @ {b}",
    "{a} - {b}.mean()",
    "F.relu({a})",
    "torch.where({a} > 0, {a}, {b})",
    "{a} / 3",
    "F.softmax({a})",
    "F.mse_loss({a}, {b}[0:1], reduction='none')",
)
MOVED = ("{a}.clone()", "{a}.detach()", "{a}.mT", "{a}.flip(0)", "{a}.view(9).view(3, 3)", "{a}.contiguous()", "{a}.to(torch.float32)")
PIECES = (
    "torch.stack({a}.unbind())",
    "torch.cat({a}.split([1, 2]))",
    "{a}.as_strided((3, 3), (1, 1), 4)",
    "{a}[1:].as_strided((3, 3), (1, 1), 4)",
)
KEPT = ("SimpleNamespace(kept={a}).kept", "[{a}, {b}][-1]")
DRAWN = ("torch.rand(3, 3)", "F.dropout({a}, 0.5)", "torch.randn_like({a})", "torch.bernoulli({a}.sigmoid())")
PATCHED = (
    "helper({a})",
    "once({a})",
    "layer.step({a})",
    "layer.twice({a})",
    "layer.scaled({a})",
    "{a} * layer.bound",
    "{a} * pow(n, 3)",
    "{a} * sides.get(flag, 0.5)",
    "{a} * (5 if (flag, 1) in sides else sides.get(Key(n), 0.25))",
    "{a} * (3 if flag is Side.LEFT else 2)",
    "scaling({a})",
    "{a} * torch.vmap(total)(parts)",
    "torch.func.grad(lambda parts: (total(parts) * {b}).sum())(parts)['one']",
    "{a} * (3 if 'chosen' in sys.modules else 2)",
    "F.relu({a})",
    "torch.cos({a} / 64)",  # of large arguments a cosine tells how they were rounded
    "({a} / 64).cos()",
)
CALLED = ("helper({a})", "once({a})", "layer.step({a})", "checked({a})", "Doubled.apply({a})", "torch.ones(3, 3, requires_grad=True) * {a}")
TRANSFORMED = (
    "torch.vmap(helper)({a})",
    "torch.func.grad(lambda t: (t.sin() * {b}).sum())({a})",
    "torch.func.jvp(torch.sin, ({a},), ({b},))[1]",
    "Doubled.apply({a}).sum().sigmoid() * {b}",  # a sum that grows tells in what order it was added
)
AROUND = (  # transforms around a drawn `e`, which is of s and t
    "torch.vmap(lambda s, t: {e})({a}, {b})",
    "torch.func.grad(lambda s, t: (({e}) * WEIGHTS).sum())({a}, {b})",
    "torch.func.jvp(lambda s: (lambda t: {e})({b}), ({a},), ({c},))[1]",
    "torch.func.vjp(lambda s, t: {e}, {a}, {b})[1]({c})[0]",
    "torch.func.jacrev(lambda s, t: {e})({a}, {b})[1, 2]",
    "torch.func.jacfwd(lambda s, t: {e})({a}, {b})[0, 1]",
    "torch.func.hessian(lambda s, t: (({e}) * WEIGHTS).sum())({a}, {b})[1, 0]",
    "torch.vmap(torch.func.grad(lambda s, t: (({e}) * WEIGHTS).sum()), in_dims=(0, None))({a}, {b}[0])",
)
CHECKPOINTS = (
    "checkpoint(lambda s, t: {e}, {a}, {b}, use_reentrant=False)",
    "checkpoint(lambda s, t: F.dropout({e}, 0.5), {a}, {b}, use_reentrant=False)",
    "checkpoint(lambda s, t: F.dropout({e}, 0.5), {a}, {b}, use_reentrant=False, preserve_rng_state=False)",
    "checkpoint(lambda s, t: torch.rand_like(s) * ({e}), {a}, {b}, use_reentrant=False)",
)
WITHIN = (
    "({e}).sin()",
    "({e}) * t",
    "F.relu({e})",
    "torch.where(({e}) > 0, {e}, t)",
    "torch.log_softmax({e}, -1)",
    "helper({e})",
    "layer.step({e})",
    "({e}).clone().mul_(2)",
    "({e}).detach() + t",
    "({e}) - {b}.mean()",
    "({e}).cumsum(-1)",
    "({e}) ** 2",
)
CONDITIONS = (
    "either({a}.sum() > 0.1, lambda s, t: s.sin() * t, lambda s, t: s - t, {a}, {b})",
    "either({a}[0, 0] > {b}[0, 0], lambda s, t: s @ t, lambda s, t: either(s.sum() > 1, torch.add, torch.mul, s, t) @ t, {a}, {b})",
)
VALUES = POINTWISE + MOVED + PIECES + KEPT + DRAWN + CALLED + TRANSFORMED + CONDITIONS

WRITES = (
    "{a}.mul_(2)",
    "{a} += {b}",
    "{a}[0] = {b}[1]",
    "{a}.copy_({a}.mT * 1.0)",
    "{a}[1:] = {a}[:-1].clone()",
    "{a}[:] = {a}.flip(0)",
    "{a}.t().add_({b})",
    "torch.add({a}, {b}, out={c})",
    "{a}.zero_()",
    "{a}.unbind()[1].add_({b}[0])",
    "[part.mul_(2) for part in {a}.split(1)]",
    "{a}.as_strided((2,), (1,), 4).add_(1)",
    "{a}.diagonal().zero_()",
    "side = {a}[1:]; {a}.t_(); {b} = {b} + side.sum() * {a}[0]",
    "torch._foreach_mul_([{a}, {b}], 2.0)",
    "torch._foreach_copy_([{a}[1:]], [{b}[1:]])",
    "torch._foreach_lerp_([{a}], [{b}], 0.5)",
)
RANDOM_STATE = (
    "torch.manual_seed({n})",
    "state = torch.get_rng_state()",
    "torch.set_rng_state(state)",
    "seen.append(torch.rand(2))",
)
AUTOGRAD = (
    "{a} = {a}.detach().requires_grad_()",
    "{a} = {a}.requires_grad_()",
    "{a} = ({a} * 1).detach().requires_grad_(True); seen.append(slope(({a} * {a}).sum(), {a}))",
    "side = {a} * 2; {b} = {b} + side.square(); y = side.detach().t()",  # not x: its `_base` is in docs/differences.md
    # hooks of results of one operation are called with None for each other: docs/differences.md
    "{a}, {b} = (t * 1 for t in Both.apply({a}, {b}))",
    "{a}, {b} = once_more({a}, {b}) if {a}.requires_grad and torch.is_grad_enabled() else ({a}, {b})",
    "{a}.requires_grad_(False)",
    "({a} * 2).sum().backward() if {a}.requires_grad and torch.is_grad_enabled() else None",
    "seen.append({a}.requires_grad)",
    "seen.append(({a} * 1).is_leaf)",
    "seen.append(torch.is_grad_enabled())",
    "seen.append(x._base is None)",
    "seen.append(SimpleNamespace(kept=n, flag=flag))",
    # a write moves what `retain_grad` keeps, as torch has it for the first result of a node alone: docs/differences.md
    "{a}.retain_grad() if {a}.requires_grad and not {a}.is_leaf and get_gradient_edge({a}).output_nr == 0 else None",
    # `is_leaf` makes the history of a view whose base was written to: `register_hook` of one that is stale ends the process
    "{a}.register_hook(lambda g: g * 2) if {a}.requires_grad and {a}.is_leaf in (True, False) else None",
)
WARNED = (
    "warnings.warn('said')",
    "warnings.simplefilter('error')",
    "warnings.simplefilter('ignore')",
    "warnings.resetwarnings()",
    "seen.append([str(w.message) for log in told for w in log].count('said'))",
    "with recorded(): warnings.warn('said'); {a} = {a} * len(told[-1])",
)
BREAKS = ("print('here')", "seen.append({a}.sum().item() > 0.1)", "print(torch.is_grad_enabled())")
BLOCKS = (
    "with torch.no_grad():",
    "with torch.enable_grad():",
    "with torch.autocast('cpu', torch.bfloat16):",
    "with torch.autocast('cpu', enabled=False):",
    "with torch.set_grad_enabled(False):",
    "with torch.inference_mode():",
    "with torch.inference_mode(False):",
    "with torch.random.fork_rng(devices=[]):",
    "with warnings.catch_warnings():",
    "with recorded():",
    "for _ in range(2):",
    "if {a}.sum() > 0.1:",
    "if flag:",
)
FAILING = (
    "{a} = torch.linalg.inv({a} * 0)",
    "{a} = torch.linalg.cholesky(-torch.eye(3)) + {a}",
    "{a} = {a}.view(7)",
    "{a} = {a}.softmax(5)",
    "{a} = {a} + F.one_hot(torch.tensor([5, 0, 1]), 3)",
    "{a} = {a}.gather(0, torch.full((3, 3), 7))",
    "{a} = {a}.index_select(0, torch.tensor([0, 1, 9]))",
    "{a}.expand(2, 3, 3).add_(1)",
    "torch._assert_async({a}.sum() * 0)",
    "{a} = torch.where({a}, {a}, {a})",
    "{a} = F.hardswish({a}.int())",
    "{a} = {a} + ({a} > 0).abs()",
    "{a} = checked({a} + 1e9)",
    "raise ValueError('no')",
    "{a} = {a} * (1 // (n - n))",
)
# What changes between two calls; `put_back` undoes it.
CHANGES = (
    "pass",
    "n = 3",
    "flag = not flag",
    "flag = Side.LEFT if n > 2 else Side.RIGHT",
    "flag = Side.LEFT",
    "flag = Key(n)",
    "replaced(Middle, 'step', lambda self, x: x * 5)",
    "replaced(Middle, 'twice', staticmethod(lambda x: x * 9))",
    "replaced(Middle, 'scaled', classmethod(lambda cls, x: x - 4))",
    "replaced(Middle, 'bound', property(lambda self: 0.5))",
    "replaced(Base, 'scale', 4.0)",
    "layer.scale = 7.0",
    "globals().__setitem__('helper', lambda x: x - 1)",
    "parts.__setitem__('parts', torch.ones(3, 3))",
    "parts.__setitem__('one', parts.pop('one'))",
    "scaling.keywords.__setitem__('scaling', 4.0)",
    "sys.modules.__setitem__('chosen', F)",
    "replaced(builtins, 'pow', lambda n, m: n * m)",
    "replaced(F, 'relu', torch.sigmoid)",
    "replaced(torch, 'cos', torch.sin)",
    "torch.set_grad_enabled(False)",
    "torch.set_default_dtype(torch.float64)",
    "a = a.t()",
    "a = a.detach().requires_grad_()",
    "a = a.detach().clone()[:].requires_grad_()",
    "a = torch.stack([a, a]).unbind()[1]",
    "a = torch.no_grad()(torch.Tensor.t)(a)",
    "a = torch.cat([a.detach(), a.detach()])[1:4]",
    "torch.manual_seed(5)",
)
CALLS = (
    "f(a, b, n, flag)",
    "torch.no_grad()(f)(a, b, n, flag)",
    "torch.autocast('cpu', torch.bfloat16)(f)(a, b, n, flag)",
    "torch.inference_mode()(f)(a, b, n, flag)",
    "torch.enable_grad()(f)(a, b, n, flag)",
    "under(Logged, f)(a, b, n, flag)",
    "under(Counted, f)(a, b, n, flag)",
)


@st.composite
def _filled(draw: st.DrawFn, template: str) -> str:
    """The template with names of tensors and a number put in."""
    name = st.sampled_from(NAMES[:3])
    return template.format(a=draw(name), b=draw(st.sampled_from(NAMES)), c=draw(name), n=draw(st.integers(0, 3)))


@st.composite
def _transformed(draw: st.DrawFn) -> str:
    """A transform around a body of one to three operators."""
    within = "s"
    for _ in range(draw(st.integers(1, 3))):
        within = draw(st.sampled_from(WITHIN)).replace("{e}", within)
    around = draw(st.sampled_from(AROUND + CHECKPOINTS))
    if around in CHECKPOINTS:  # run again, a function reads what its variables are by then; graphs keep what they were
        within = within.replace("{b}.mean()", "t.mean()")
    return draw(_filled(around.replace("{e}", within)))


@st.composite
def _statement(draw: st.DrawFn, depth: int) -> str:
    kinds = ["value", "value", "called", "write", "random", "autograd", "break", "transformed", "warned"]
    kinds += ["block", "block", "caught"] if depth else []
    kind = draw(st.sampled_from(kinds))
    if kind == "value":
        return f"{draw(st.sampled_from(NAMES[1:3]))} = {draw(st.sampled_from(VALUES).flatmap(_filled))}"
    if kind == "transformed":
        return f"{draw(st.sampled_from(NAMES[1:3]))} = {draw(_transformed())}"
    if kind == "called":  # what changes between calls is worth more than its share of all values
        return f"{draw(st.sampled_from(NAMES[1:3]))} = {draw(st.sampled_from(PATCHED).flatmap(_filled))}"
    if kind == "block":
        head = draw(st.sampled_from(BLOCKS).flatmap(_filled))
        return head + "\n" + textwrap.indent(draw(body(depth - 1)), "    ")
    if kind == "caught":
        inner = draw(body(depth - 1)) + "\n" + draw(st.sampled_from(FAILING).flatmap(_filled))
        handler = draw(body(0))
        caught = "except (RuntimeError, ValueError, IndexError, ZeroDivisionError, Warning) as e:\n    seen.append(type(e).__name__)\n"
        return "try:\n" + textwrap.indent(inner, "    ") + "\n" + caught + textwrap.indent(handler, "    ")
    table = {"write": WRITES, "random": RANDOM_STATE, "autograd": AUTOGRAD, "break": BREAKS, "warned": WARNED}[kind]
    return draw(st.sampled_from(table).flatmap(_filled))


@st.composite
def body(draw: st.DrawFn, depth: int) -> str:
    return "\n".join(draw(st.lists(_statement(depth), min_size=1, max_size=4 if depth else 2)))


def _is_seen(change: str, statements: str) -> bool:
    """Does the change replace something that the statements name?"""
    name = re.search(r"'(\w+)'", change)
    return name is not None and re.search(rf"\b{name[1]}\b", statements) is not None


# Writes before each backward pass: only derivatives that read what is written refuse.
TO_RESULTS = ("result.detach().mul_(2)", "results[-1][0].detach().mul_(2)")
TO_ARGUMENTS = ("b.mul_(2)", "a.detach().mul_(2)")


@st.composite
def state_programs(draw: st.DrawFn) -> str:
    """The text of a module with `def program(compile)`."""
    statements = draw(body(2))
    if "checkpoint(" in statements:  # run again, a function keeps other values of arguments whose flags have changed (docs/differences.md)
        statements = re.sub(r"\b(\w+) = \1\.requires_grad_\(\)", r"\1 = \1.detach().requires_grad_()", statements)
        statements = re.sub(r"\b\w+\.requires_grad_\(False\)", "pass", statements)
    leaf = draw(st.sampled_from((False, True)))
    keeps = draw(st.booleans())
    seen = [change for change in CHANGES if _is_seen(change, statements)]  # most others show nothing
    calls = draw(st.lists(st.tuples(st.sampled_from((*CHANGES, *seen * 8)), st.sampled_from(CALLS)), min_size=1, max_size=3))
    lines = [f"{change}\nresults.append({call})" for change, call in calls]
    # A pass that has freed something leaves others only what they can run again from. And of two reasons for which a pass can't run, what
    # was freed or has no derivative is told first, where eager tells of what it meets first (docs/differences.md).
    may_write = keeps and "_foreach_copy_" not in statements
    # Where somebody looks at what comes back to a result, the graph runs again from its arguments.
    is_looked_at = "register_hook" in statements or "retain_grad" in statements
    between = TO_RESULTS if is_looked_at else (*TO_RESULTS, *TO_ARGUMENTS)
    written = draw(st.sampled_from(("pass", "pass", *between))) if may_write else "pass"
    reason = "str(e)[:30]" if keeps and ".backward()" not in statements else "type(e).__name__"
    text = f"""
def program(compile):
    seen, results = [], []
    ready.clear()

    @compile
    def f(x, w, n, flag):
        y, z = x * 1.0, w + 0.5
        state = torch.get_rng_state()
{textwrap.indent(statements, "        ")}
        return y, z

    a = torch.randn(3, 3){".requires_grad_()" if leaf else ""}
    b = torch.randn(3, 3)
    n, flag = 2, True
    try:
{textwrap.indent(chr(10).join(lines), "        ")}
        for result in results[-1]:
            if isinstance(result, torch.Tensor) and result.requires_grad and result.grad_fn is not None and a.requires_grad and a.is_leaf:
                try:
                    {written}
                    result.float().sum().backward(retain_graph={keeps})
                except RuntimeError as e:
                    seen.append({reason})
                    forget_gradients(results[-1])
        return results, seen, a, b, [t.grad for t in (a, b) if t.is_leaf], [t._version for t in (a, b) if not t.is_inference()]
    finally:
        put_back()
"""
    return PRELUDE + text
