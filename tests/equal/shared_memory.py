"""Programs whose tensors share memory: views of views, writes under grad, `out=`, `.data`, `set_`, `resize_`, `as_strided`."""

from __future__ import annotations

import torch

from repro_corpus.program import program


@program("", "an image is normalised tile by tile through views of views")
def tiles(compile):
    @compile
    def f(image):
        tiles = image.unfold(0, 2, 2).unfold(1, 2, 2)
        for row in range(tiles.shape[0]):
            tile = tiles[row, row].mT
            tile.sub_(tile.mean()).clamp_(-1, 1)
        return tiles.diagonal(dim1=0, dim2=1), image

    return f(torch.arange(36.0).view(6, 6))


@program("", "columns of a copy are scaled in place one by one with select")
def scaled_by_select(compile):
    @compile
    def f(x):
        y = x.clone()
        for i in range(y.shape[1]):
            y.select(1, i).mul_(i + 1)
        y.view(-1)[::3].neg_()
        return y, y.T[1:]

    x = torch.randn(3, 4, requires_grad=True)
    y, part = f(x)
    if y.requires_grad:
        (y.sum() + (part**2).sum()).backward()
    return y, part, x.grad, y.grad_fn is None, part.grad_fn is None


@program("", "a ring buffer: a slice, a scalar index, a wrap-around and a view handed out before it is written")
def ring_buffer(compile):
    class Ring:
        def __init__(self, size):
            self.data, self.at = torch.zeros(size, 2), 0

        def push(self, rows):
            for row in rows:
                self.data[self.at % len(self.data)] = row
                self.at += 1
            return self.data[: self.at]

    ring = Ring(3)
    push = compile(ring.push)
    early = ring.data[1:]
    first = push(torch.ones(2, 2))
    second = push(torch.full((2, 2), 5.0))
    return early, first, second, ring.data, ring.at, ring.data._version


@program("", "results are written into parts of one preallocated tensor with out=")
def parts_as_out(compile):
    @compile
    def f(a, b, store):
        torch.mm(a, b, out=store[0])
        torch.add(store[0], 1, out=store[1])
        low, high = torch.empty(2), torch.empty(2, dtype=torch.int64)
        torch.max(store[1], 0, out=(low, high))
        torch.stack([low, high.float()], out=store[2])
        return store.sum(0), low, high

    store = torch.zeros(3, 2, 2)
    return f(torch.arange(4.0).view(2, 2), torch.eye(2) * 2, store), store


@program("", "data replaces the memory of a parameter; earlier views look at the old one")
def data_replaced(compile):
    weight = torch.nn.Parameter(torch.ones(3))
    old = weight.data

    @compile
    def f(x):
        y = weight * x
        weight.data = weight.data * 2 + x
        old.add_(10)
        return y, weight * x

    results = f(torch.arange(3.0))
    return results, weight, old, weight._version, weight.is_leaf


@program("", "set_ makes two tensors share a storage")
def storage_shared(compile):
    @compile
    def f(x, y):
        y.set_(x)
        y[0] = 7
        z = torch.empty(0).set_(x.untyped_storage(), 1, (2,), (1,))
        z.add_(1)
        return x + 0, y, z

    x, y = torch.zeros(4), torch.ones(2)
    return f(x, y), x, y


@program("", "resize_ of a buffer keeps what it had and gives it room")
def resized(compile):
    @compile
    def f(n):
        x = torch.arange(4.0)
        tail = x[2:]
        x.resize_(2, 2)
        x[1, 0] = -1
        x.resize_(n)
        x.fill_(3)
        return x, tail

    return f(2), f(3)


@program("", "overlapping windows by as_strided are read, summed, and added to through index_add")
def windows(compile):
    @compile
    def f(x):
        seen = x.as_strided((4, 3), (1, 1))
        means = seen.mean(1)
        x.as_strided((2,), (3,), 1).mul_(10)
        x.index_add_(0, torch.tensor([0, 0, 5]), torch.ones(3))
        return means, seen, seen * 1

    x = torch.arange(6.0)
    return f(x), x


@program("", "two arguments are halves, one tensor twice, and a view with its base")
def aliased_arguments(compile):
    @compile
    def f(a, b):
        a.add_(1)
        b.mul_(2)
        return a + b, a

    x = torch.arange(6.0)
    y = torch.arange(6.0)
    z = torch.arange(6.0)
    return f(x[:3], x[3:]), x, f(y, y), y, f(z, z.view(6)), z, f(z[:4], z[2:]), z


@program("", "swap of two rows by tuple assignment, once with copies and once without")
def swapped_rows(compile):
    @compile
    def f(x):
        x[0], x[1] = x[1].clone(), x[0].clone()
        x[2], x[3] = x[3], x[2]
        first, second = x[:2]
        first, second = second, first
        first += second
        return first, x

    return f(torch.arange(8.0).view(4, 2))


@program("", "complex numbers through real views: real, imag, view_as_real, conj and a write to each")
def complex_views(compile):
    @compile
    def f(z):
        z.real.add_(1)
        z.imag[0] = 5
        torch.view_as_real(z)[..., 1].neg_()
        c = z.conj()
        z.mul_(1j)
        return c, c.real, c.imag * 1, z.is_conj(), c.is_conj(), c.imag.is_neg()

    z = torch.complex(torch.arange(3.0), torch.ones(3))
    return f(z), z


@program("", "a view made under no_grad and one made of a leaf are written to: eager's errors")
def refused_writes(compile):
    @compile
    def f(x, how):
        if how == 0:
            x[0].add_(1)
        elif how == 1:
            y = x * 1
            a, _ = y.unbind(0)
            a.mul_(2)
        elif how == 2:
            y = x * 1
            with torch.no_grad():
                v = y[0]
            v.mul_(2)
            return v.grad_fn is None, y
        elif how == 3:
            y = x.exp()
            y.add_(1)
            y.sum().backward()
        return x * 2

    found = []
    for how in range(4):
        x = torch.ones(2, 2, requires_grad=True)
        try:
            found.append(f(x, how))
        except RuntimeError as e:
            found.append(str(e)[:60])
        found.append(x)
    return found


@program("", "two arguments share memory, and one is scaled by what needs a gradient: both have a history afterwards")
def scaled_by_a_parameter(compile):
    @compile
    def f(gain, x, same):
        x.mul_(gain)
        return same + 1

    gain = torch.full((), 2.0, requires_grad=True)
    x = torch.ones(2, 2)
    same = x.view_as(x)
    result = f(gain, x, same)
    if result.requires_grad:
        result.sum().backward()
    return result, x, same, gain.grad, x.requires_grad, same.requires_grad


@program("", "one of two arguments that share memory, one of which is written, gets another shape in place")
def turned_beside_a_view(compile):
    forms = {
        "itself": lambda p, b, c: (b.copy_(b), b.transpose_(0, -1), c + 1)[2],
        "before": lambda p, b, c: (b.mul_(2), b.t_(), b.sum(-1) * c.sum())[2],
        "after": lambda p, b, c: (b.t_(), b.mul_(2), c * 1)[2],
        "other": lambda p, b, c: (c.mul_(2), b.transpose_(0, 1), b.sum(-1))[2],
        "both": lambda p, b, c: (c.t_(), c.mul_(2), b.unsqueeze_(0), b.sum(-1) + c.sum())[3],
        "back": lambda p, b, c: (b.t_(), c.mul_(2), b.t_(), b + 1)[3],
        "beside a parameter": lambda p, b, c: (b.mul_(2), b.t_(), p * c.sum())[2],
        "kept": lambda p, b, c: (b.mul_(2), b.t_(), p.sin() * (c * 2).sum() * b.sum())[2],
    }
    found = []
    for form in forms.values():
        for other in (lambda b: b.view_as(b), lambda b: b[1:], lambda b: b.detach()):
            p = torch.full((), 3.0, requires_grad=True)
            b = torch.arange(9.0).reshape(3, 3)[:2].clone()
            c = other(b)
            result = compile(form)(p, b, c)
            if result.requires_grad:
                result.backward()
            found += [result, b, c, p.grad, b._version, c._version]
    return found


@program("", "arguments that share memory are written several times: each write counts")
def written_several_times(compile):
    forms = (
        lambda b, c: (c.mul_(2), b.mul_(2), c + 1)[2],
        lambda b, c: (b.copy_(b), b.copy_(b), b.zero_(), c + 1)[3],
        lambda b, c: (b[0].mul_(2), b.view(-1).mul_(2), c + 1)[2],
        lambda b, c: (b.mul_(2), b.unsqueeze_(0), c.mul_(2), b.squeeze_(0), c + 1)[4],
    )
    found = []
    for form in forms:
        for other in (lambda b: b.view_as(b), lambda b: b[1:], lambda b: b.detach()):
            b = torch.ones(2, 3)
            c = other(b)
            found += [compile(form)(b, c), b, c, b._version, c._version]
    return found


@program("", "rows of one buffer are added to each other: which ones changes from call to call")
def rows_of_one_buffer(compile):
    @compile
    def f(x, y):
        x.add_(y)
        return x.sum(), x._version, y._version

    buffer = torch.arange(24.0).view(6, 4)
    return [f(buffer[i], buffer[j]) for i in range(6) for j in range(6)], buffer


@program("pytorch#139789", "arguments share memory from the second call on, then otherwise: apart, elsewhere, reversed, one tensor")
def sharing_changes(compile):
    @compile
    def f(x, y):
        x.mul_(2)
        return x + y

    base = torch.ones(12)
    pairs = [(0, 2), (0, 4), (0, 3), (4, 0), (2, 4), (6, 8), (8, 6), (3, 3)]
    results = [f(torch.ones(4), torch.ones(4)), *[f(base[i : i + 4], base[j : j + 4]) for i, j in pairs], f(base[:4], base[:4].clone())]
    results += [f(base[::3], base[1::3]), f(base[1::3], base[::3]), f(base[::3], base[2:6])]
    return results, base


@program("", "the same parts of buffers of other sizes, and of other element sizes")
def parts_of_other_buffers(compile):
    @compile
    def f(x, y):
        y.add_(x[1])
        return x - y

    buffers = [torch.arange(n, dtype=dtype) for n in (8, 80, 9) for dtype in (torch.float32, torch.float64)]
    return [f(b[i : i + 4], b[i + 2 : i + 6]) for b in buffers for i in (0, 2)], buffers


@program("", "a module's buffer, or a part of it, is also its argument, and one of them is written")
def buffer_as_argument(compile):
    class Accumulates(torch.nn.Module):
        def __init__(self, writes):
            super().__init__()
            self.writes = writes
            self.register_buffer("total", torch.ones(8))
            self.scale = torch.nn.Parameter(torch.ones(4), requires_grad=False)

        def forward(self, x):
            (x if self.writes == "x" else self.total).mul_(2)
            return x + self.total[:4] + self.scale

    results = []
    for writes in ("x", "total"):
        module = Accumulates(writes)
        compiled = compile(module)
        total, scale = module.total, module.scale
        for x in (torch.ones(4), total[:4], total[2:6], scale, scale[:], total[4:], torch.ones(4)):
            results.append(compiled(x))
        results += [total, scale]
    return results


@program("", "a parameter's row and another one: optimizers over views of one flat tensor")
def flat_parameters(compile):
    flat = torch.arange(12.0)
    parameters = [torch.nn.Parameter(flat[i : i + 4]) for i in (0, 4, 8)]
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    step = compile(optimizer.step)
    for k in range(3):
        for i, p in enumerate(parameters):
            p.grad = torch.full((4,), float(i + k))
        step()
    return flat, parameters


@program("", "one graph for views at other offsets: what changes their shape in place leaves the offset")
def reshaped_at_other_offsets(compile):
    forms = {
        "t_": lambda x: x.t_(),
        "transpose_": lambda x: x.transpose_(0, 1) + 1,
        "unsqueeze_": lambda x: x.unsqueeze_(1) * 2,
        "squeeze_": lambda x: x[:1].squeeze_(0).mul_(2),
        "swapaxes_": lambda x: x.swapaxes_(0, 1).mul_(2),
        "written after": lambda x: x.t_()[1].add_(1),
        "view before": lambda x: (x[1:], x.t_(), x.mul(2))[0],
    }
    found = {}
    for name, form in forms.items():
        base = torch.arange(24.0).view(12, 2)
        compiled = compile(form)
        parts = [base[i : i + 2] for i in (0, 2, 5, 8)]
        found[name] = [compiled(x) for x in parts], parts, base, [(x.storage_offset(), x.stride()) for x in parts]
    return found


@program("", "as_strided beyond the tensor that it is called on: read and written, beside writes to what it reaches")
def reached_by_as_strided(compile):
    @compile
    def reads(x, y):
        y.mul_(3)
        return x.as_strided((8,), (1,), 0) + 1

    @compile
    def writes(x):
        return x.as_strided((2,), (1,), 3).add_(5)

    @compile
    def inside(x):
        return x[1:].as_strided((2,), (2,), 1).add_(5), x * 2

    found = []
    for i in (0, 2, 3):
        base = torch.arange(12.0)
        found += [reads(base[:4], base[4:]), reads(base[:4], base[i : i + 4]), writes(base[i : i + 4]), inside(base[i : i + 5]), base]
    return found


@program("", "rows with gradients: one is written, the other is read or needs the gradient")
def rows_with_gradients(compile):
    @compile
    def scaled(x, y, w):
        z = w * y
        x.mul_(2)
        return z

    @compile
    def joined(x, y, w):
        x.add_(w)
        return x * y

    @compile
    def written_before(x, y, w):
        x.mul_(2)
        return w.sin() * y

    @compile
    def written_around(x, y, w):
        x.mul_(2)
        z = w * y
        x.add_(1)
        return z

    found = []
    for f in (scaled, joined, written_before, written_around):
        for i, j in ((0, 1), (1, 2), (2, 2), (3, 0)):
            base, w = torch.arange(16.0).view(4, 4), torch.ones(4, requires_grad=True)
            z = f(base[i], base[j], w)
            try:
                z.sum().backward()
            except RuntimeError as e:
                found.append(str(e)[:40])
            found += [z, w.grad, base.detach().clone(), base.requires_grad, base[3].requires_grad]
    return found


@program("", "as_strided counts from where memory begins: of copies of what begins elsewhere, and of what was written")
def places_in_other_memory(compile):
    def copied(x, y):
        y.copy_(x)
        return y.as_strided((2,), (1,), 3) + 0

    def copied_once_more(x, y):
        y[:] = x
        return torch.as_strided_copy(y, (2,), (2,), 1), torch.as_strided_scatter(y, x[:2], (2,), (1,), 3)

    def copied_then_written(x, y):
        y.copy_(x)
        y.as_strided((2,), (1,), 3).add_(1)
        return y * 1

    def copied_behind(x, y):
        v = y.as_strided((2,), (1,), 3)
        y.data.copy_(x)
        return v.add_(1), y

    def part_written(x, y):
        z = x[1:]
        z.mul_(2)
        return z.as_strided((2,), (1,), 3) + 0, x

    def beside_the_written(x, y):
        z = (y + x)[2:]
        z.mul_(2)
        return z.as_strided((3,), (1,), 0) + 1, z

    def beside_a_sum(x, y):
        z = (x + y).view(2, 3)[1]
        z.copy_(x[:3])
        z.as_strided((2,), (2,), 0).add_(5)
        return z

    fresh = [
        lambda x: x.clone(),
        lambda x: x[2:].clone(),
        lambda x: (x + 1)[2:].clone(),
        lambda x: x.clone().view(-1, 2)[1:],
        lambda x: torch.cat(x.split(2)),
        lambda x: torch.cat([x]),
        lambda x: x * 1,
        lambda x: x.neg().neg(),
        lambda x: x.double().float(),
        lambda x: torch.where(torch.ones(6) > 0, x, x),
        lambda x: torch.as_strided_scatter(x * 1, x[:2], (2,), (1,), 3),
        lambda x: x.mul_(2),
        lambda x: x[1:].mul_(2),
    ]
    bodies = [copied, copied_once_more, copied_then_written, copied_behind, part_written, beside_the_written, beside_a_sum]
    found = []
    for make in fresh:
        scope = {"make": make, "torch": torch}
        exec("def f(x, y):\n    return make(x).as_strided((2,), (1,), 2) * 2", scope)
        bodies.append(scope["f"])
    for body in bodies:
        x, leaf = torch.arange(24.0)[2:8], torch.arange(24.0, requires_grad=True)
        f = compile(body)
        found.append((f(x, torch.zeros(6)), x))
        out = f((leaf * 1)[2:8], torch.zeros(6))
        total = sum(t.sum() for t in (out if isinstance(out, tuple) else (out,)))
        if total.requires_grad:
            total.backward()
        found.append(leaf.grad)
    return found


@program("", "as_strided writes to a tensor whose dimensions lie in another order, with and without gradients")
def places_in_another_order(compile):
    def added(x, w):
        x.as_strided((2,), (1,), 4).add_(1)
        return x + w

    def scaled(x, w):
        x.as_strided((2, 2), (3, 1), 0).mul_(w[:2, :2])
        return x * w

    def of_a_value(x, w):
        y = x.mul(w).t()
        y.as_strided((3,), (2,), 1).fill_(0.5)
        return y, x

    found = []
    for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad):
        for fn in (added, scaled, of_a_value):
            leaf = torch.linspace(-1, 1, 9).reshape(3, 3).requires_grad_()
            x = (leaf * 1).t()
            with mode():
                results = compile(fn)(x, torch.linspace(1, 2, 9).reshape(3, 3))
            result = results[0] if isinstance(results, tuple) else results
            if result.requires_grad:
                result.sum().backward()
            found.append((result, x, leaf.grad))
    return found


@program("", "a number is read from a tensor made of numbers, after a write through `.data`")
def constant_written_through_data(compile):
    @compile
    def f(x):
        n = torch.tensor(3)
        n.data.add_(1)
        many = torch.tensor([1, 2])
        many.data[0] = 4
        many[1:].data.fill_(5)
        return x * n.item(), x[: int(many[0])], many.tolist()

    return f(torch.ones(9))
