"""Writes whose value comes from other places of the memory they go to, and results written into tensors of another dtype."""

from __future__ import annotations

import torch
from torch.overrides import TorchFunctionMode

from repro_corpus.program import program


class Passed(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def square() -> torch.Tensor:
    return torch.arange(49.0).view(7, 7)


@program("", "an input takes its own transpose")
def copy_of_transpose(compile):
    @compile
    def f(x):
        x.copy_(x.mT * 1.0)
        return x.sum(0)

    x = square()
    return f(x), x


@program("", "slice assignment from a contiguous transpose")
def assignment_of_transpose(compile):
    @compile
    def f(x):
        x[:] = x.mT.contiguous()
        return x

    return f(square())


@program("", "an input takes itself upside down, in both dims, turned and rolled")
def copies_of_rearrangements(compile):
    @compile
    def f(a, b, c, d):
        a.copy_(a.flip(0))
        b.copy_(b.flip(0, 1))
        c.copy_(torch.rot90(c))
        d.copy_(d.roll((2, -1), (0, 1)))

    given = [square() for _ in range(4)]
    f(*given)
    return given


@program("", "rows move down by one")
def shifted_rows(compile):
    @compile
    def f(x):
        x[1:] = x[:-1].clone()
        return x

    return f(square())


@program("", "columns move left, rows move down by an arithmetic copy, a flat view moves by one")
def shifted_views(compile):
    @compile
    def f(a, b, c):
        a[1:].copy_(a[:-1] * 1.0)
        b[:, :-1].copy_(b[:, 1:] + 0.5)
        c.view(-1)[1:].copy_(c.view(-1)[:-1].clone())

    given = [square() for _ in range(3)]
    f(*given)
    return given


@program("", "a write through a transposed view")
def write_through_transpose(compile):
    @compile
    def f(x):
        x.t().copy_(x * 1.0)
        return x

    return f(square())


@program("", "rows by index, by table look-up and by concatenation")
def rows_by_index(compile):
    @compile
    def f(a, b, c, order):
        a.copy_(a[order])
        b.copy_(b.gather(0, order[:, None].expand(7, 7)))
        c.copy_(torch.cat([c[3:], c[:3]]))

    given = [square() for _ in range(3)]
    f(*given, torch.tensor([1, 0, 6, 5, 2, 3, 4]))
    return given


@program("", "out= is an operand whose rearrangement is read too")
def out_is_operand(compile):
    @compile
    def f(x, y):
        torch.add(x.mT * 1, x, out=x)
        torch.where(y > 20, y.flip(0), y.flip(1), out=y)

    given = [square(), square()]
    f(*given)
    return given


@program("", "a reduction and a rearrangement of the target in one value")
def sums_and_rearrangement(compile):
    @compile
    def f(a, b, c):
        a.copy_(a.sum(0, keepdim=True) + a.mT)
        b.copy_(b.softmax(0).mT)
        c.copy_(c.flip(1).cumsum(0))

    given = [square() for _ in range(3)]
    f(*given)
    return given


@program("", "two inputs take each other's values")
def exchanged(compile):
    @compile
    def f(a, b, c, d):
        t = a.clone()
        a.copy_(b)
        b.copy_(t)
        u = c.flip(0)
        c.copy_(d.flip(0) + 1)
        d.copy_(u)

    given = [square(), square() + 100, square() - 7, square() * 2]
    f(*given)
    return given


@program("", "three inputs hand their values on in a circle, each at the same element")
def circle(compile):
    @compile
    def f(a, b, c):
        x, y, z = a + 1, b + 2, c + 3
        a.copy_(y)
        b.copy_(z)
        c.copy_(x)

    given = [square(), square() + 100, square() - 7]
    f(*given)
    return given


@program("", "what is read before the write is the old value, also in a later kernel and through a view of other dtype")
def old_value_in_later_kernels(compile):
    @compile
    def f(x):
        bits = x.view(torch.int32)
        low = bits % 7
        flipped = x.mT + 1
        x.mul_(2)
        return low, flipped @ flipped, flipped.flip(0), bits.clone()

    x = square()
    return f(x), x


@program("", "an update that reads its own step first, as optimizers do")
def momentum(compile):
    @compile
    def f(p, m, g):
        m.mul_(0.9).add_(g)
        p.sub_(m.mT, alpha=0.1)
        return p.norm()

    p, m, g = square(), square() + 1, square().flip(0)
    return f(p, m, g), p, m


@program("", "a tensor made in the function takes its own rearrangement")
def local_tensor(compile):
    @compile
    def f(x):
        y = x + 1
        y.copy_(y.mT * 1.0)
        y[1:] = y[:-1].clone()
        return y, y.flip(0)

    return f(square())


@program("", "a buffer that shifts by one in every call")
def shifting_buffer(compile):
    class Queue(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("held", torch.zeros(5, 2))

        def forward(self, x):
            self.held[:-1] = self.held[1:].clone()
            self.held[-1] = x
            return self.held.mean(0)

    module = Queue()
    run = compile(module)
    return [run(torch.full((2,), float(i))) for i in range(4)], module.held


@program("", "16-bit and integer inputs take their own rearrangement")
def other_dtypes(compile):
    @compile
    def f(a, b, c):
        a.copy_(a.mT * 1)
        b.copy_(b.flip(0) + b)
        c.copy_(~c.mT)

    given = [square().bfloat16(), square().to(torch.int16), square() % 2 == 0]
    f(*given)
    return given


@program("", "the target's gradient flows through the rearrangement")
def gradient(compile):
    @compile
    def f(x):
        y = x * 2
        y.copy_(y.mT.exp().flip(0) / 1e9)
        return y.sum(0)

    x = (square() / 10).requires_grad_()
    y = f(x)
    y.sum().backward()
    return y, x


@program("", "running sums and products into tensors of other dtypes are computed in the dtype of out=")
def running_sums_into(compile):
    @compile
    def f(x, n):
        return (
            torch.cumsum(x, 0, out=torch.empty(0, dtype=torch.int16)),
            torch.cumsum(x, 1, out=torch.zeros(7, 7, dtype=torch.float64)),
            torch.cumprod(x, 0, out=torch.empty(0, dtype=torch.int64)),
            torch.cumsum(n, 0, out=torch.empty(0, dtype=torch.uint8)),
            torch.cumsum(n, 0, out=torch.empty(0, dtype=torch.float32)),
        )

    return f(square() * 0.4 + 0.3, torch.arange(300))


@program("", "sums, products and means into tensors of other dtypes are computed in the dtype of out=")
def reductions_into(compile):
    @compile
    def f(x):
        return (
            torch.sum(x, 0, out=torch.empty(0, dtype=torch.int32)),
            torch.sum(x, 0, out=torch.empty(0, dtype=torch.float64)),
            torch.prod(x, 1, out=torch.empty(0, dtype=torch.int64)),
            torch.mean(x, 0, out=torch.empty(0, dtype=torch.float64)),
            torch.nansum(x, 0, out=torch.empty(0, dtype=torch.float64)),
        )

    return f(square() / 3 + 0.6)


@program("", "variances and sums of exponentials into tensors of other dtypes are computed in the dtype of out=")
def variances_into(compile):
    @compile
    def f(x, n):
        return (
            torch.var(x * 1e4, 0, out=torch.empty(0, dtype=torch.float16)),
            torch.var(x, 1, out=torch.zeros(7, dtype=torch.float64)),
            torch.std(x * 1e4, [0, 1], out=torch.empty(0, dtype=torch.float16)),
            torch.logsumexp(n, 0, out=torch.empty(0, dtype=torch.float64)),
            torch.logsumexp(x, 1, out=torch.empty(0, dtype=torch.float64)),
            torch.logsumexp(x, 1, out=torch.empty(0)),
        )

    return f(square() / 3 + 0.6, torch.arange(30))


@program("", "several numbers become bytes before any and all ask for their truth, where out= has bytes")
def truth_into_bytes(compile):
    @compile
    def f(x, n):
        found = []
        for t in (x, n, x > 0.4, n.byte(), x.half()):
            for ask in (torch.any, torch.all):
                for dtype in (torch.uint8, torch.bool):
                    found += [ask(t, out=torch.empty((), dtype=dtype)), ask(t, 0, out=torch.empty(0, dtype=dtype))]
                    found += [ask(t, (-1,), True, out=torch.empty(0, dtype=dtype)), ask(t[:1], 0, out=torch.empty(0, dtype=dtype))]
        return found

    return f(torch.tensor([[0.3, 0.6], [0.2, 1.5]]), torch.tensor([[256, 512], [0, 3]]))


@program("", "arithmetic into an input of another dtype is computed as without out=, then cast")
def arithmetic_into(compile):
    @compile
    def f(x, a, b, c):
        torch.mul(x, 1.7, out=a)
        torch.sub(x, 0.5, out=b)
        torch.gt(x, 20, out=c)
        return torch.cat([x, x], out=torch.empty(0, dtype=torch.float64))

    given = [torch.zeros(7, 7, dtype=torch.bfloat16), torch.zeros(7, 7, dtype=torch.float64), torch.zeros(7, 7)]
    return f(square(), *given), given


@program("", "out= that cannot hold the result's dtype is refused", raises="RuntimeError: result type Float can't be cast")
def refused_out(compile):
    @compile
    def f(x):
        return torch.exp(x, out=torch.zeros(7, 7, dtype=torch.int64))

    return f(square())


# ---- memory that a call would see twice ----------------------------------------------------------------------


def outcome(f, *args):
    """The result or the type of the exception, and the arguments afterwards."""
    try:
        return f(*args), args
    except RuntimeError as e:
        return type(e).__qualname__, args


@program("", "in-place writes that partly overlap an operand are refused before anything is written")
def operand_in_part(compile):
    fs = [
        lambda x: x.add_(x.mT),
        lambda x: x.sub_(x[0]),
        lambda x: x.addcmul_(x.mT, x),
        lambda x: x.copy_(x.mT),
        lambda x: x.__setitem__(slice(1, None), x[:-1]),
        lambda x: torch._foreach_add_([x], [x.mT]),
        lambda x: torch.add(x[:-1], 1, out=x[1:]),
        lambda x: torch.where(x > 0, x.mT, x, out=x),
        lambda x: (x * 2).add_((x * 2).mT),
    ]
    return [outcome(compile(f), square()) for f in fs]


@program("", "what reads other elements than it writes shares no memory with what it writes")
def operand_as_whole(compile):
    order = torch.tensor([1, 0, 2, 3, 4, 5, 6])
    fs = [
        lambda x: x.scatter_(0, order[None], x),
        lambda x: x.scatter_add_(0, torch.zeros(7, 7, dtype=torch.int64), x),
        lambda x: x.index_copy_(0, order, x),
        lambda x: torch.index_select(x, 0, order, out=x),
        lambda x: torch.gather(x, 0, order[None], out=x[:1]),
        lambda x: torch.stack([x[0], x[1]], out=x[:2]),
        lambda x: torch.cat([x[:2], x[2:]], out=x),
        lambda x: torch.max(x, 0, out=(x[0], torch.empty(7, dtype=torch.int64))),
        lambda x: torch.take(x, order[:2], out=x[0, :2]),
    ]
    return [outcome(compile(f), square()) for f in fs]


@program("", "writes through memory that overlaps itself are refused where the program can catch that")
def target_overlaps_itself(compile):
    @compile
    def caught(x):
        y = x * 2
        try:
            y[0].expand(7, 7).add_(1)
        except RuntimeError:
            y += 100
        return y

    fs = [
        lambda x: x.view(-1).unfold(0, 3, 1).add_(1),
        lambda x: x[0].expand(7, 7).copy_(x + 1),
        lambda x: torch.add(x, x, out=x[2].expand(7, 7)),
        lambda x: torch.cumsum(x, 0, out=x[0].expand(7, 7)),
        lambda x: x[0].expand(7, 7).index_add_(0, torch.tensor([0, 1]), x[:2] * 1),
        lambda x: torch._foreach_add_([x[0].expand(7, 7)], 1.0),
        lambda x: torch.nn.functional.leaky_relu_(x[0].expand(7, 7)),
    ]
    return caught(square()), [outcome(compile(f), square()) for f in fs]


@program("", "where eager does not look, what comes out depends on the order in which its kernel goes")
def order_of_the_kernel(compile):
    fs = [
        lambda x: x[:, 1:].add_(x[:, :-1]),
        lambda x: torch.sigmoid(x[:, :3], out=x[:, 1:4]),
        lambda x: torch.sum(x, 0, out=x[0]),
        lambda x: x.sub_(x[:, :1]),
        lambda x: x.view(-1).as_strided((3, 3), (1, 1)).mul_(2),
    ]
    return [outcome(compile(f), square()) for f in fs]


@program("", "memory in common is a fact of the arguments of a call")
def operands_of_one_storage(compile):
    @compile
    def f(a, b):
        return a.add_(b)

    x = square()
    halves = square(), square()
    return (
        f(x[1:], x[:-1] * 1),
        outcome(f, x[1:], x[:-1]),
        f(halves[0][1:], halves[1][:-1]),
        f(x[:, :3], x[:, 3:6]),
        f(x[:, ::2], x[:, 1::2].mT[[0, 1, 2, 2]].mT),
        f(x, x),
        x,
    )


@program("", "neighbours in one storage are written and read in one graph")
def neighbours(compile):
    @compile
    def f(x):
        x[:, :3].add_(x[:, 3:6])
        x[:, ::2].mul_(x[:, :1].clone())
        x[1:].copy_(x[0])
        x.mul_(x)
        return x[:3].sub_(x[3:6])

    x = square()
    return f(x), x


@program("", "the operand that a product or scattered values are added to is the target")
def addend_is_target(compile):
    @compile
    def f(x, v):
        at = torch.tensor([2, 0, 1])
        torch.addmm(x, x + 1, x * 2, alpha=-1, out=x)
        torch.addmv(v, x + 1, v * 2, out=v)
        torch.addr(x, v + 1, v * 2, out=x)
        torch.index_add(x, 0, at, x * 2, out=x)
        torch.scatter(x, 0, at[None], x * 3, out=x)
        return x.sum(0)

    x, v = torch.arange(9.0).view(3, 3), torch.arange(3.0)
    return f(x, v), x, v


@program("", "a factor of a product is the target")
def factor_is_target(compile):
    @compile
    def f(x):
        try:
            torch.addmm(torch.ones(3, 3), x, x + 1, out=x)
        except RuntimeError as e:
            return str(e)[:40]

    x = torch.arange(9.0).view(3, 3)
    return f(x), x


@program("", "memory without elements overlaps nothing, whatever its strides")
def expanded_nothing(compile):
    @compile
    def f(x):
        y = x.expand(3, 0)
        y.copy_(y.flip(0))
        y.mul_(2)
        return y.sum(1)

    return f(torch.ones(1, 0))


@program("", "what a factory made is written to with a history, and what shows its memory")
def written_with_a_history(compile):
    @compile
    def whole(x):
        y = torch.rand(3, 3)
        y += x
        return y, x.sin()

    @compile
    def part(x):
        y = torch.ones(3, 3)
        v = y[1:]
        v += x[1:]
        return v, y, y.t(), y.detach()

    @compile
    def turned(x):
        y = torch.zeros(3, 2)
        y.t_()
        y.add_(x[:2])
        return (y,)

    @compile
    def by_hand(x):
        y = torch.empty(3, 3)
        torch.sin(x.detach(), out=y)
        return y.mul_(x), y

    torch.manual_seed(0)
    found = []
    for f in (whole, part, turned, by_hand):
        x = torch.randn(3, 3, requires_grad=True)
        results = f(x)
        sum(r.sin().sum() for r in results if r.requires_grad).backward()
        found.append((results, x.grad))
    return found


@program("", "a detached alias is written with a history that the tensor itself doesn't get")
def detached_and_written(compile):
    @compile
    def of_input(x, w):
        d = w.detach()
        d.mul_(x)
        return d, w

    @compile
    def of_factory(x, w):
        y = torch.ones(3, 3)
        d = y.detach()
        d.mul_(x)
        return y, d, d[0]

    @compile
    def of_result(x, w):
        y = x * 2
        d = y.detach()
        d.mul_(x)
        return y, d

    found = []
    for f in (of_input, of_factory, of_result):
        x, w = torch.arange(9.0).reshape(3, 3).requires_grad_(), torch.ones(3, 3)
        results = f(x, w)
        results[1 if f is of_factory else 0].sin().sum().backward()
        found.append((results, [r.requires_grad for r in results], x.grad, w))
    return found


@program("", "a view without a history is written outside of the graph that made it, gradients on or off when it was made")
def view_written_outside(compile):
    @compile
    def of_input(z):
        return z.t(), z[1:].t()

    @compile
    def of_result(z):
        y = z + 1
        return y, y.t(), y[0]

    @compile
    def without_gradients(z):
        y = z + 1
        with torch.no_grad():
            first = y.t()
            return y, first, first.detach()[0], z[0]

    @compile
    def view_of_that(z):
        with torch.no_grad():
            y = z + 1
            first = z.t()
        return first[0], first.detach().t(), y, y.t()

    found = []
    for f in (of_input, of_result, without_gradients, view_of_that):
        for around in (torch.enable_grad, torch.no_grad):
            for i in range(4):
                z = torch.ones(3, 3)
                with around():
                    results = f(z)
                if i >= len(results):
                    continue
                x = torch.full_like(results[i], 2.0).requires_grad_()
                try:
                    results[i].add_(x)
                    found.append((i, results[i], z.requires_grad))
                except RuntimeError as e:
                    found.append((i, str(e)[:60]))
    return found


@program("", "frames that a function mode of the program calls are captured, the views they make are written outside")
def written_under_a_function_mode(compile):
    @compile
    def f(x, w):
        z = w + 0.5
        z.t().add_(x)
        return z

    with Passed():
        x = torch.ones(3, 3, requires_grad=True)
        z = f(x, torch.ones(3, 3))
    z.sum().backward()
    return z, x.grad


@program("", "the version of an input goes up by one per write, also through views, of what has a gradient, and of nothing but itself")
def versions(compile):
    def f(w, same, p, leaf):
        for _ in range(3):
            w.add_(1)
        w.view(-1)[1:].mul_(2)
        w[0] = 3
        same.copy_(same)
        p.mul_(2)
        p.add_(w)
        with torch.no_grad():
            leaf[0].mul_(3)
            leaf -= 1
        return (p * leaf).sum()

    leaf = torch.ones(2, requires_grad=True)
    tensors = torch.ones(2), torch.ones(2), torch.ones(2, requires_grad=True) * 1, leaf
    g = compile(f)
    values = [g(*tensors), g(*tensors)]
    values[1].backward()
    return values, [t._version for t in tensors], leaf.grad


@program("", "in inference mode views of ordinary tensors are ordinary, also those of composite operators, and count their writes")
def versions_in_inference_mode(compile):
    @torch.inference_mode()
    def f(x, y, z):
        a, b, c = x.mT, y.swapaxes(0, 1), z.T.unflatten(0, (1, 3)).movedim(0, 1)
        a.mul_(2)
        b[0].add_(1)
        c += 1
        return a, b, c

    tensors = torch.ones(3, 3), torch.ones(3, 3), torch.ones(3, 3)
    g = compile(f)
    values = [g(*tensors), g(*tensors)]
    return values, [t._version for t in tensors], [t.is_inference() for r in values for t in r]


@program("", "results written into an empty tensor are laid out as new ones")
def resized_results(compile):
    @compile
    def f(x, y):
        return torch.add(x, x, out=torch.empty(0)), torch.mul(y, 2, out=torch.empty(0))

    return f(square().t(), torch.arange(24.0).view(2, 3, 4).permute(2, 0, 1))


@program("", "writes to an input count once, whoever else looks at it")
def counted_writes(compile):
    @compile
    def f(x):
        x.mul_(2)
        x[0] = x[1]
        return x.sin()

    x = square()
    with Passed():
        result = f(x)
    return result, x, x._version


@program("", "views made before a write to what needs a gradient only later")
def views_before_a_write(compile):
    @compile
    def by_the_base(x):
        y, read = x.mT, x[0]
        x.mul_(2)
        return y, read, read + 1

    @compile
    def by_the_view(x):
        y = x.mT
        y.add_(1)
        return y, x.mT

    @compile
    def inside(x):
        y = x.mT
        x.mul_(2)
        x.requires_grad_()
        return y, x.mT

    found = []
    for f in (by_the_base, by_the_view, inside):
        x = square()
        results = f(x)
        x.requires_grad_()
        found.append((x, results, [type(t.grad_fn).__name__ for t in results]))
    return found


@program("", "a float that needs a gradient fills integers: eager gives them a history")
def integers_with_a_history(compile):
    @compile
    def f(x, n):
        n[::2] = x
        print("written")
        return n.shape, n.dtype

    n = torch.arange(4)
    return f(torch.tensor(2.5, requires_grad=True), n), n.tolist()


@program("", "ranges fill an out= of as many elements in its shape, and give another the shape of a range")
def ranges_into_shapes(compile):
    fills = (
        lambda out: torch.arange(5, out=out),
        lambda out: torch.arange(0, 5, 1, out=out),
        lambda out: torch.linspace(0, 4, 5, out=out),
        lambda out: torch.logspace(0, 2, 5, out=out),
        lambda out: torch.arange(torch.tensor(5).item(), out=out),
    )
    outs = (
        lambda: torch.zeros(1, 5),
        lambda: torch.zeros(5, 1, dtype=torch.uint8),
        lambda: torch.zeros(5),
        lambda: torch.zeros(5, 2)[:, :1],
        lambda: torch.zeros(0),
    )
    found = []
    for fill in fills:

        @compile(fullgraph=True)  # else what a fake warns of breaks the graph
        def f(fill=fill):
            results = []
            for make in outs:
                out = make()
                made = fill(out)
                results.append((made, made + 1, out.shape, out * 2))
            return results

        found.append(f())
    return found
