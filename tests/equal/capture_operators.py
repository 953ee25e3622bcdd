"""Operators that are not ATen's: control flow, attention with a score function, custom operators, kernels of the program's own."""

from __future__ import annotations

import torch
from torch import nn

from repro_corpus.program import program

_LIBRARIES: list[torch.library.Library] = []


@program("", "torch.cond with two branches")
def cond(compile):
    @compile
    def f(x):
        return torch.cond(x.sum() > 2, lambda x: x.sin() * 2, lambda x: x.cos() + 1, (x,)) + 1

    return f(torch.ones(3)), f(torch.zeros(3))


@program("", "torch.cond with closures, several results, and gradients")
def cond_closure(compile):
    m = nn.Linear(3, 3)
    nn.init.ones_(m.weight)
    nn.init.ones_(m.bias)

    @compile
    def f(x, p):
        y = x * 2

        def yes(x):
            return m(x) + y, x.sum()

        def no(x):
            return x - y, (x * y).sum()

        return torch.cond(p, yes, no, (x,))

    out = []
    for p in (True, False):
        x = torch.arange(3.0, requires_grad=True)
        a, b = f(x, torch.tensor(p))
        (a.sum() + b).backward()
        out += [a, b, x.grad, m.weight.grad]
    return out


@program("", "torch.cond on a Python bool, and nested")
def cond_nested(compile):
    @compile
    def f(x, flag):
        def inner(x):
            return torch.cond(x.sum() > 10, lambda x: x * 10, lambda x: x * 3, (x,))

        return torch.cond(flag, inner, lambda x: x * 1, (x,))

    return f(torch.ones(3), torch.tensor(True)), f(torch.full((3,), 9.0), torch.tensor(True)), f(torch.ones(3), torch.tensor(False))


@program("", "while_loop")
def while_loop(compile):
    from torch._higher_order_ops.while_loop import while_loop as loop

    @compile
    def f(x):
        return loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))

    return f(torch.ones(3))


@program("", "map over the first dimension")
def map_(compile):
    from torch._higher_order_ops.map import map as map_op

    @compile
    def f(xs, y):
        return map_op(lambda x, y: x.sin() * y, xs, y)

    return f(torch.arange(6.0).view(3, 2), torch.ones(2))


@program("", "flex_attention")
def flex(compile):
    from torch.nn.attention.flex_attention import flex_attention

    @compile
    def f(q, k, v):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j))

    torch.manual_seed(0)
    q = torch.randn(1, 2, 16, 8)
    return f(q, q + 1, q - 1)


@program("", "flex_attention with a block mask")
def flex_mask(compile):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 128, 128, device="cpu")

    @compile
    def f(q, k, v):
        return flex_attention(q * 2, k, v, block_mask=mask).sum(1)

    torch.manual_seed(0)
    q = torch.randn(1, 2, 128, 8)
    return f(q, q + 1, q - 1)


@program("", "vmap and grad of torch.func inside")
def functorch(compile):
    @compile
    def f(x):
        return torch.func.vmap(lambda a: a.sin().sum())(x), torch.func.grad(lambda a: (a**2).sum())(x)

    return f(torch.arange(6.0).view(2, 3))


@program("", "export and trace inside a compiled function")
def export_inside(compile):
    class M(nn.Module):
        def forward(self, x):
            return x + 1

    @compile
    def f(x):
        return torch.export.export(M(), (x,)).module()(x), torch.jit.trace(M(), (x,))(x)

    return f(torch.ones(2))


def _library():
    """Custom operators, defined once per process."""
    if hasattr(torch.ops, "capture_tests") and hasattr(torch.ops.capture_tests, "scaled"):
        return torch.ops.capture_tests

    @torch.library.custom_op("capture_tests::scaled", mutates_args=())
    def scaled(x: torch.Tensor, k: float) -> torch.Tensor:
        return x * k

    @scaled.register_fake
    def _(x, k):
        return torch.empty_like(x)

    scaled.register_autograd(lambda ctx, g: (g * ctx.k, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[1]))

    @torch.library.custom_op("capture_tests::add_one_", mutates_args={"x"})
    def add_one_(x: torch.Tensor) -> None:
        x.add_(1)

    @torch.library.custom_op("capture_tests::both", mutates_args={"out"})
    def both(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        out.copy_(x * 2)
        return x + 1

    both.register_fake(lambda x, out: torch.empty_like(x))

    @torch.library.custom_op("capture_tests::shout", mutates_args=())
    def shout(x: torch.Tensor) -> None:
        print("value", x.sum().item())

    @torch.library.custom_op("capture_tests::parts", mutates_args=())
    def parts(x: torch.Tensor) -> list[torch.Tensor]:
        return [x[:1].clone(), x[1:].clone()]

    parts.register_fake(lambda x: [x.new_empty(1), x.new_empty(x.shape[0] - 1)])

    @torch.library.custom_op("capture_tests::no_fake", mutates_args=())
    def no_fake(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @torch.library.custom_op("capture_tests::counted", mutates_args=())
    def counted(x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].clone()

    @counted.register_fake
    def _(x):
        return x.new_empty(torch.library.get_ctx().new_dynamic_size())

    return torch.ops.capture_tests


@program("", "a custom operator with fake and autograd")
def custom_op(compile):
    ops = _library()

    @compile
    def f(x):
        return ops.scaled(x.sin(), 2.5) + 1

    x = torch.arange(3.0, requires_grad=True)
    y = f(x)
    y.sum().backward()
    return y, x.grad


@program("", "a custom operator that writes its argument and returns nothing")
def custom_op_mutates(compile):
    ops = _library()

    @compile
    def f(x):
        y = x * 2
        ops.add_one_(y)
        ops.add_one_(x)
        ops.add_one_(y[1:])
        return y + x

    x = torch.zeros(3)
    return f(x), x


@program("", "a custom operator that writes and returns")
def custom_op_both(compile):
    ops = _library()

    @compile
    def f(x, out):
        buf = torch.zeros_like(x)
        y = ops.both(x, out)
        z = ops.both(y, buf)
        return y, z + buf

    out = torch.zeros(3)
    return f(torch.ones(3), out), out


@program("", "a custom operator without results is not dead code")
def custom_op_effect(compile):
    ops = _library()

    @compile
    def f(x):
        ops.shout(x + 1)
        y = x * 2
        ops.shout(y)
        return y

    return f(torch.ones(2))


@program("", "custom operators with lists, without fakes, of dynamic size")
def custom_op_others(compile):
    ops = _library()

    @compile
    def f(x):
        a, b = ops.parts(x)
        return a * 2, b + 1, ops.no_fake(x) + 1, ops.counted(x) * 2

    return f(torch.tensor([1.0, -1, 2]))


@program("", "the object that the decorator gives back is called")
def custom_op_object(compile):
    @torch.library.custom_op("capture_tests::direct", mutates_args=())
    def direct(x: torch.Tensor, s: str = "a", k: int = 2) -> torch.Tensor:
        return x * k

    direct.register_fake(lambda x, s="a", k=2: torch.empty_like(x))

    @compile
    def f(x):
        return direct(x) + direct(x, k=3) + direct(x, "b", 4)

    return f(torch.ones(2))


@program("", "an operator defined by torch.library.Library with an implementation in Python")
def library_define(compile):
    lib = torch.library.Library("capture_lib", "FRAGMENT")
    _LIBRARIES.append(lib)  # in torch 2.11 an operator outlives its library, and calling it ends the process
    if not hasattr(torch.ops.capture_lib, "twice"):
        lib.define("twice(Tensor x) -> Tensor")
        lib.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        lib.define("fill_(Tensor(a!) x, float v) -> Tensor(a!)")
        lib.impl("fill_", lambda x, v: x.fill_(v), "CompositeExplicitAutograd")

    @compile
    def f(x):
        y = torch.ops.capture_lib.twice(x + 1)
        torch.ops.capture_lib.fill_(y[0], 5.0)
        return y

    return f(torch.ones(2, 2)), lib is None


@program("", "triton_op and a kernel of triton that can't run here")
def triton_kernel(compile):
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return "no triton"

    @triton.jit
    def kernel(x, y, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, at < n) * 2, at < n)

    @compile
    def f(x):
        y = torch.empty_like(x)
        try:
            kernel[(1,)](x, y, 4, BLOCK=4)
        except Exception as e:  # noqa: BLE001  # which one depends on the machine
            return type(e).__name__
        return y

    return f(torch.ones(4))


@program("", "functions of torch above a builtin of the same name, compiled themselves and called in a function")
def functions_above_builtins(compile):
    x, y = torch.linspace(0.1, 1.2, 12).view(3, 4), torch.linspace(-1.0, 1.0, 20).view(5, 4)
    calls = [
        (torch.cdist, x, y),
        (torch.tensordot, x, y.T, 1),
        (torch.einsum, "ij,kj->ik", x, y),
        (torch.norm, x),
        (torch.norm, x, 1, 0),
        (torch.stft, torch.linspace(0, 1, 100), 16, None, None, torch.ones(16), True, "reflect", False, None, True),
        (torch.istft, torch.full((9, 5), 1 + 1j), 16, None, None, torch.ones(16)),
        (torch.split, x, 2),
        (torch.split, x, [1, 2]),
        (torch.block_diag, x, y),
        (torch.cartesian_prod, x[0], y[0]),
        (torch.unique_consecutive, x),
        (torch.broadcast_tensors, x, x[0]),
        (torch.atleast_1d, x),
        (torch.atleast_2d, x[0]),
        (torch.atleast_3d, x, y),
    ]
    found = []
    for fn, *args in calls:
        found += [compile(fn)(*args), compile(lambda fn=fn, args=args: fn(*args))()]
    return found
