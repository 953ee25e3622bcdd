"""Operators of the program's own: `torch.library.custom_op` in its forms, fragments of libraries, operators over kernels of Triton."""

from __future__ import annotations

import re

import torch
from torch import Tensor, nn

from repro_corpus.program import program


def _raised(fn, *args):
    try:
        return fn(*args)
    except Exception as e:  # noqa: BLE001  # the program compares what is raised
        line = str(e).partition("\n")[0]
        return type(e), re.sub(r"\d+(_def\w+|\.default)", "", line)  # numbers make names of operators unique


_defined = set()


def _once(name):
    """A custom operator may be defined once per process; programs run three times."""
    fresh = name not in _defined
    _defined.add(name)
    return fresh


@program("", "an operator with saved tensors, a constant on ctx and several gradients")
def autograd_forms(compile):
    if _once("poly"):

        @torch.library.custom_op("equal_ops::poly", mutates_args=())
        def poly(x: Tensor, w: Tensor, k: float = 2.0) -> tuple[Tensor, Tensor]:
            return x * w * k, (x + w).sum()

        @poly.register_fake
        def _(x, w, k=2.0):
            return torch.empty_like(x), x.new_empty(())

        def setup(ctx, inputs, output):
            x, w, k = inputs
            ctx.save_for_backward(x, w)
            ctx.k = k

        def backward(ctx, g, h):
            x, w = ctx.saved_tensors
            return g * w * ctx.k + h, (g * x * ctx.k + h) * 3 if ctx.needs_input_grad[1] else None, None

        poly.register_autograd(backward, setup_context=setup)
    op = torch.ops.equal_ops.poly

    @compile
    def f(x, w):
        a, b = op(x.sin(), w)
        c, _ = op(a, w, 3.0)
        return (a + c).sum() * b

    out = []
    for flag in (True, False):
        x, w = torch.rand(3, requires_grad=True), torch.rand(3, requires_grad=flag)
        y = f(x, w)
        y.backward()
        out += [y, x.grad, w.grad]
    with torch.no_grad():
        return out, f(x, w)


@program("", "operators without a fake, in the middle of a function, with gradients")
def without_fake(compile):
    if _once("nofake"):

        @torch.library.custom_op("equal_ops::nofake", mutates_args=())
        def nofake(x: Tensor, n: int) -> Tensor:
            return x[:n].clone() * 2

        nofake.register_autograd(lambda ctx, g: (torch.cat([g * 2, g.new_zeros(ctx.rest)]), None), setup_context=_keep_rest)
    op = torch.ops.equal_ops.nofake

    @compile
    def f(x, n):
        y = x.cos()
        z = op(y, n)
        return (z * z).sum() + y.sum()

    x = torch.rand(4, requires_grad=True)
    f(x, 2).backward()
    return x.grad, f(x, 3)


def _keep_rest(ctx, inputs, output):
    ctx.rest = inputs[0].shape[0] - inputs[1]


@program("", "writes to several arguments, to views of them, to inputs and to what the graph made")
def several_writes(compile):
    if _once("swap"):

        @torch.library.custom_op("equal_ops::swap", mutates_args={"a", "b"})
        def swap(a: Tensor, b: Tensor, scale: float = 1.0) -> None:
            t = a.clone()
            a.copy_(b * scale)
            b.copy_(t)

        @torch.library.custom_op("equal_ops::fill_all", mutates_args={"xs"})
        def fill_all(xs: list[Tensor], v: float) -> Tensor:
            for x in xs:
                x.fill_(v)
            return torch.stack([x.sum() for x in xs])

        fill_all.register_fake(lambda xs, v: xs[0].new_empty(len(xs)))

        @torch.library.custom_op("equal_ops::maybe", mutates_args={"out"})
        def maybe(x: Tensor, out: Tensor | None) -> Tensor:
            if out is not None:
                out.copy_(x + 1)
            return x * 2

        maybe.register_fake(lambda x, out: torch.empty_like(x))
    ops = torch.ops.equal_ops

    @compile
    def f(a, b):
        c = a * 2
        ops.swap(a, b, 3.0)
        ops.swap(c[1:], b[:-1])
        d = torch.zeros(2, 3)
        s = ops.fill_all([d[0], c], 5.0)
        e = ops.maybe(a, d[1]) + ops.maybe(b, None)
        return a + b, c, d, s, e

    a, b = torch.arange(3.0), torch.arange(3.0) + 10
    return f(a, b), a, b, f(a, b), a, b


@program("", "operators with effects keep their order and number, also unused and in a loop")
def effects(compile):
    log = []
    if _once("note"):

        @torch.library.custom_op("equal_ops::note", mutates_args=())
        def note(x: Tensor, what: str) -> None:
            print(what, x.sum().item())

        @torch.library.custom_op("equal_ops::noted", mutates_args=())
        def noted(x: Tensor, what: str) -> Tensor:
            print(what)
            return x.clone()

        noted.register_fake(lambda x, what: torch.empty_like(x))
    ops = torch.ops.equal_ops

    @compile
    def f(x):
        ops.note(x, "first")
        for i in range(3):
            x = x + 1
            ops.note(x, f"loop {i}")
        y = ops.noted(x, "copied")
        ops.note(y * 2, "last")
        log.append(len(log))
        return y

    return f(torch.ones(2)), f(torch.zeros(2)), log


@program("", "operators that are defined inside the compiled function")
def defined_inside(compile):
    name = f"equal_ops::inside{len(_defined)}"
    _once(name)

    @compile
    def f(x, name):
        @torch.library.custom_op(name, mutates_args=())
        def inside(x: Tensor) -> Tensor:
            return x * 3

        inside.register_fake(lambda x: torch.empty_like(x))
        return inside(x + 1) * 2

    return f(torch.ones(2), name), f(torch.ones(2), name + "_again")


@program("", "effects of an operator's backward happen once per backward")
def backward_effects(compile):
    log = []
    name = f"effect{len(_defined)}"
    _once(name)

    @torch.library.custom_op(f"equal_ops::{name}", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return x * 2

    op.register_fake(lambda x: torch.empty_like(x))

    def backward(ctx, g):
        log.append(tuple(g.shape))
        print("backward")
        return g * 2

    op.register_autograd(backward)
    f = compile(lambda x: (op(x) * 3).sum() + getattr(torch.ops.equal_ops, name)(x).sum())
    x = torch.rand(3, requires_grad=True)
    for _ in range(3):
        f(x).backward()
    return log, x.grad


@program("", "an operator's backward reads what changes after compiling, and may be replaced")
def backward_reads(compile):
    class Settings:
        scale = 1.0

    name = f"reads{len(_defined)}"
    _once(name)

    @torch.library.custom_op(f"equal_ops::{name}", mutates_args=())
    def op(x: Tensor) -> Tensor:
        return x * 2

    op.register_fake(lambda x: torch.empty_like(x))
    op.register_autograd(lambda ctx, g: g * Settings.scale)
    f = compile(lambda x: op(x).sum())
    out = []
    for Settings.scale in (1.0, 5.0):
        x = torch.rand(3, requires_grad=True)
        f(x).backward()
        out.append(x.grad)
    op.register_autograd(lambda ctx, g: g * 50)
    x = torch.rand(3, requires_grad=True)
    f(x).backward()
    return out, x.grad


@program("", "an operator's backward and setup_context that raise, with the program's own exceptions")
def backward_raises(compile):
    class Mine(Exception):
        pass

    def make(backward, setup=None):
        name = f"raises{len(_defined)}"
        _once(name)

        @torch.library.custom_op(f"equal_ops::{name}", mutates_args=())
        def op(x: Tensor) -> Tensor:
            return x * 2

        op.register_fake(lambda x: torch.empty_like(x))
        op.register_autograd(backward, setup_context=setup)
        return op

    def raising(error):
        def raise_it(*args, **kwargs):
            raise error

        return raise_it

    def run(op):
        @compile
        def f(x):
            return op(x * 1).sum()

        x = torch.ones(3, requires_grad=True)
        y = f(x)
        y.backward()
        return y, x.grad

    return [
        _raised(run, make(raising(ValueError("no")))),
        _raised(run, make(raising(KeyError("key")))),
        _raised(run, make(raising(Mine("mine")))),
        _raised(run, make(lambda ctx, g: (g, g))),
        _raised(run, make(lambda ctx, g: g[:1])),
        _raised(run, make(lambda ctx, g: g * ctx.missing)),
        _raised(run, make(lambda ctx, g: g, raising(ValueError("setup")))),
    ]


@program("", "an operator's gradient in one graph: none, of lists of tensors, with arguments by name")
def backward_forms(compile):
    if _once("forms"):

        @torch.library.custom_op("equal_ops::none", mutates_args=())
        def none(x: Tensor) -> Tensor:
            return x * 2

        none.register_fake(lambda x: torch.empty_like(x))
        none.register_autograd(lambda ctx, g: None)

        @torch.library.custom_op("equal_ops::lists", mutates_args=())
        def lists(x: Tensor, ys: list[Tensor], k: float = 2.0, *, flag: bool = False) -> list[Tensor]:
            return [x * k, ys[0] + ys[1]]

        lists.register_fake(lambda x, ys, k=2.0, flag=False: [torch.empty_like(x), torch.empty_like(ys[0])])

        def setup(ctx, inputs, keyword_only_inputs, output):
            x, ys, ctx.k = inputs
            ctx.save_for_backward(x)
            ctx.n, ctx.flag = len(ys), keyword_only_inputs["flag"]

        def backward(ctx, gs):
            (x,) = ctx.saved_tensors
            return gs[0] * ctx.k + x, [gs[1] * (3 if ctx.flag else 1) if i == 0 else None for i in range(ctx.n)], None

        lists.register_autograd(backward, setup_context=setup)
    ops = torch.ops.equal_ops

    @compile(fullgraph=True)
    def f(x, y):
        a, b = ops.lists(x * 1, [y.sin(), x], 3.0, flag=True)
        return (a * b).sum() + ops.none(x * 3).sum()

    @compile(fullgraph=True)
    def g(x):
        return ops.none(x * 1).sum()

    x, y, z = torch.rand(3, requires_grad=True), torch.rand(3, requires_grad=True), torch.rand(3, requires_grad=True)
    f(x, y).backward()
    g(z).backward()
    return x.grad, y.grad, z.grad


@program("", "errors of operators: wrong arguments, aliasing results, raising kernels and wrong fakes")
def operator_errors(compile):
    if _once("bad"):

        @torch.library.custom_op("equal_ops::alias", mutates_args=())
        def alias(x: Tensor) -> Tensor:
            return x

        alias.register_fake(lambda x: torch.empty_like(x))

        @torch.library.custom_op("equal_ops::raising", mutates_args=())
        def raising(x: Tensor) -> Tensor:
            if x.sum() > 2:
                raise ValueError("too large")
            return x * 2

        raising.register_fake(lambda x: torch.empty_like(x))

        @torch.library.custom_op("equal_ops::nograd", mutates_args=())
        def nograd(x: Tensor) -> Tensor:
            return x * 2

        nograd.register_fake(lambda x: torch.empty_like(x))
    ops = torch.ops.equal_ops

    def caught(x):
        y = x * 2
        try:
            return ops.raising(y) + 1
        except ValueError as e:
            return str(e), y

    def no_gradient(x):
        y = ops.nograd(x * 2).sum()
        y.backward()
        return x.grad

    x = torch.ones(3)
    return [
        _raised(compile(lambda x: ops.alias(x) + 1), x),
        _raised(compile(lambda x: ops.raising(x) + 1), x),
        _raised(compile(caught), x),
        _raised(compile(caught), x * 0),
        _raised(compile(lambda x: ops.raising(x, 3)), x),
        _raised(compile(lambda x: ops.raising("a")), x),
        _raised(compile(lambda x: ops.missing(x)), x),
        _raised(compile(no_gradient), torch.ones(3, requires_grad=True)),
    ]


@program("", "an operator under vmap with a rule, under grad, under autocast, and in a module")
def transforms(compile):
    if _once("ruled"):

        @torch.library.custom_op("equal_ops::ruled", mutates_args=())
        def ruled(x: Tensor) -> Tensor:
            return x.sin()

        ruled.register_fake(lambda x: torch.empty_like(x))
        ruled.register_autograd(
            lambda ctx, g: g * ctx.saved_tensors[0].cos(), setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs)
        )
        ruled.register_vmap(lambda info, in_dims, x: (torch.ops.equal_ops.ruled(x), in_dims[0]))
    op = torch.ops.equal_ops.ruled

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = nn.Linear(3, 3)
            nn.init.constant_(self.lin.weight, 0.5)
            nn.init.constant_(self.lin.bias, 0.5)

        def forward(self, x):
            return op(self.lin(x)).sum()

    m = M()
    c = compile(m)
    c(torch.ones(2, 3)).backward()

    @compile
    def f(x):
        try:
            g = torch.func.grad(lambda x: op(x).sum())(x)
        except RuntimeError as e:  # what `register_autograd` makes has no rule for transforms
            g = str(e)[:40]
        return torch.func.vmap(op)(x), g, op(x) * 2

    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = c(torch.ones(2, 3))
    return f(torch.rand(2, 3)), [p.grad for p in m.parameters()], y


@program("", "kernels per device type, and an implementation replaced after compiling")
def kernels(compile):
    if _once("kernels"):

        @torch.library.custom_op("equal_ops::dev", mutates_args=(), device_types="cpu")
        def dev(x: Tensor) -> Tensor:
            return x * 2

        dev.register_fake(lambda x: torch.empty_like(x))
    op = torch.ops.equal_ops.dev
    f = compile(lambda x: op(x + 1) * 2)
    a = f(torch.ones(2))
    with torch._library.custom_ops._maybe_get_opdef(op.default).set_kernel_enabled("cpu", enabled=True):
        return a, f(torch.ones(2))


@program("", "fragments of a library: implementations for CPU, Autograd and Meta, aliases, out variants, default arguments")
def library_fragment(compile):
    if _once("fragment"):
        lib = torch.library.Library("equal_lib", "FRAGMENT")
        _defined.add(lib)  # its operators live as long as it does
        lib.define("scale(Tensor x, float k=2.0, *, bool neg=False) -> Tensor")
        lib.impl("scale", lambda x, k=2.0, *, neg=False: x * (-k if neg else k), "CPU")
        lib.impl("scale", lambda x, k=2.0, *, neg=False: torch.empty_like(x), "Meta")
        lib.define("composite(Tensor x, int[] dims) -> Tensor[]")
        lib.impl("composite", lambda x, dims: [x.sum(d) for d in dims], "CompositeImplicitAutograd")
        lib.define("second(Tensor(a) x) -> Tensor(a)")
        lib.impl("second", lambda x: x[1:], "CompositeImplicitAutograd")
        lib.define("add_out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
        lib.impl("add_out", lambda x, *, out: out.add_(x), "CompositeExplicitAutograd")

        class Sq(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, g):
                return g * ctx.saved_tensors[0] * 5

        lib.define("sq(Tensor x) -> Tensor")
        lib.impl("sq", Sq.apply, "Autograd")
        lib.impl("sq", lambda x: x * x, "CPU")
    ops = torch.ops.equal_lib

    @compile
    def f(x):
        a = ops.scale(x) + ops.scale.default(x, 3.0, neg=True)
        b, c = ops.composite(x, [0, 1])
        d = ops.second(a)
        d.add_(1)
        buf = torch.zeros(2, 2)
        e = ops.add_out(x, out=buf)
        return a, b * 2, c, d, e is buf, buf + 1, ops.sq(x)

    x = torch.arange(4.0).view(2, 2)
    out = f(x)
    z = torch.arange(3.0, requires_grad=True)
    g = compile(lambda z: ops.sq(z * 2).sum())
    _raised(lambda: g(z).backward())
    return out, z.grad


@program("", "triton_op and wrap_triton, where no kernel can run")
def triton_operator(compile):
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return "no triton"

    @triton.jit
    def kernel(x, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, at < n) * 2, at < n)

    if _once("triton"):

        @torch.library.triton_op("equal_ops::doubled", mutates_args={})
        def doubled(x: Tensor) -> Tensor:
            y = torch.empty_like(x)
            torch.library.wrap_triton(kernel)[(1,)](x, y, x.numel(), BLOCK=8)
            return y

    f = compile(lambda x: torch.ops.equal_ops.doubled(x + 1) * 2)
    return _raised(f, torch.ones(4))[0]


@program("", "triton_op without a kernel: decomposed, with gradients")
def triton_op_plain(compile):
    if _once("plain"):

        @torch.library.triton_op("equal_ops::plain", mutates_args={})
        def plain(x: Tensor, k: int = 2) -> Tensor:
            return x.sin() * k

        plain.register_autograd(
            lambda ctx, g: (g * ctx.saved_tensors[0].cos() * 7, None),
            setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
        )
    f = compile(lambda x: (torch.ops.equal_ops.plain(x * 2) + torch.ops.equal_ops.plain(x, 3)).sum())
    x = torch.rand(3, requires_grad=True)
    f(x).backward()
    return _raised(f, x.detach()), x.grad


def _in_library(schema, cpu):
    """An operator of a `Library`, under a name of its own."""
    name = f"plain{len(_defined)}"
    _once(name)
    lib = torch.library.Library("equal_ops", "FRAGMENT")
    _defined.add(lib)
    lib.define(name + schema)
    lib.impl(name, cpu, "CPU")
    return lib, name


@program("", "register_autograd on an operator of a Library: what the backward reads changes, and state on ctx")
def library_backward_reads(compile):
    class Settings:
        scale = 1.0

    lib, name = _in_library("(Tensor x, float k=2.0) -> Tensor", lambda x, k=2.0: x * k)
    torch.library.register_fake(f"equal_ops::{name}", lambda x, k=2.0: torch.empty_like(x), lib=lib)

    def setup(ctx, inputs, output):
        ctx.k = inputs[1]
        ctx.save_for_backward(inputs[0])

    def backward(ctx, g):
        return g * ctx.k * Settings.scale + ctx.saved_tensors[0] * 0, None

    torch.library.register_autograd(f"equal_ops::{name}", backward, setup_context=setup, lib=lib)
    op = getattr(torch.ops.equal_ops, name)

    @compile
    def f(x):
        return (op(x.sin()) + op.default(x, 3.0)).sum()

    out = []
    for Settings.scale in (1.0, 5.0, 1.0):
        x = torch.full((3,), 0.5, requires_grad=True)
        y = f(x)
        y.backward()
        out.append((y, x.grad))
    with torch.no_grad():
        return out, f(x)


@program("", "the same with lists of tensors, and with effects of the backward")
def library_backward_acts(compile):
    log = []
    lib, name = _in_library("(Tensor[] xs) -> Tensor", lambda xs: xs[0] + xs[1])
    torch.library.register_fake(f"equal_ops::{name}", lambda xs: torch.empty_like(xs[0]), lib=lib)

    def backward(ctx, g):
        log.append("backward")
        return [g * len(log), g * 3]

    torch.library.register_autograd(f"equal_ops::{name}", backward, lib=lib)
    op = getattr(torch.ops.equal_ops, name)
    f = compile(lambda x, y: op([x * 2, y]).sum())
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    for _ in range(3):
        f(x, y).backward()
    return log, x.grad, y.grad


@program("", "kernels in Python for the keys of autograd, and composite ones: what they read changes")
def library_kernels_read(compile):
    class Settings:
        scale = 1.0

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * Settings.scale

    lib, one = _in_library("(Tensor x) -> Tensor", lambda x: x * 2)
    lib.impl(one, lambda x: x * 2, "Meta")
    lib.impl(one, Scaled.apply, "Autograd")
    two = f"plain{len(_defined)}"
    _once(two)
    lib.define(two + "(Tensor x) -> Tensor")
    lib.impl(two, lambda x: x.sin() * Settings.scale, "CompositeImplicitAutograd")
    first, second = getattr(torch.ops.equal_ops, one), getattr(torch.ops.equal_ops, two)
    f, g = compile(lambda x: first(x * 1).sum()), compile(lambda x: second(x * 1).sum())
    out = []
    for Settings.scale in (1.0, 5.0):
        for fn in (f, g):
            x = torch.ones(3, requires_grad=True)
            y = fn(x)
            y.backward()
            out.append((y, x.grad))
        with torch.no_grad():
            out.append((f(x), g(x)))
    return out
