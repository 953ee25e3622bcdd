"""Operands of several types that a kernel does or does not bring together, and arguments of layers that only eager's kernels look at."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from repro_corpus.program import program

KINDS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def _tried(compile, make, calls):
    """Each call compiled alone and made twice: results and gradients, or the type of the exception."""
    out = []
    for call in calls:
        f = compile(call)
        for _ in range(2):
            x, p = make()
            try:
                y = f(x, p)
                if y.requires_grad:
                    y.float().sum().backward()
                out.append((y, x.grad, p.grad))
            except Exception as e:  # noqa: BLE001  # compared, whatever it is
                out.append(type(e).__name__)
    return out


def _for_pairs(compile, shape, calls, tracked=False):
    def make(a, b):
        return lambda: (torch.linspace(0.1, 0.9, 8).view(shape).to(a).requires_grad_(tracked), torch.full(shape[-1:], 0.5, dtype=b))

    return [_tried(compile, make(a, b), calls) for a in KINDS for b in KINDS if a is not b]


@program("", "parameters and statistics of norms in another type than the input", tolerance=(2e-2, 2e-2))
def norms(compile):
    calls = [
        lambda x, p: F.layer_norm(x, p.shape, p, p),
        lambda x, p: F.layer_norm(x, p.shape, None, p),
        lambda x, p: F.layer_norm(x, p.shape, p, torch.ones_like(p, dtype=x.dtype)),
        lambda x, p: F.group_norm(x, 2, p, p),
        lambda x, p: F.rms_norm(x, p.shape, p),
        lambda x, p: F.batch_norm(x, p, p),
        lambda x, p: F.batch_norm(x, p.clone(), p.clone(), training=True),
        lambda x, p: F.batch_norm(x, p, p, torch.ones_like(p, dtype=x.dtype)),
        lambda x, p: F.batch_norm(x, None, None, p, p, training=True),
    ]
    return _for_pairs(compile, (2, 4), calls)


@program("", "losses of operands, weights and targets of two types, with gradients", tolerance=(2e-2, 2e-2))
def losses(compile):
    calls = [
        lambda x, p: F.cross_entropy(x, torch.tensor([1, 0]), p),
        lambda x, p: F.nll_loss(x, torch.tensor([1, 0]), p),
        lambda x, p: F.binary_cross_entropy(x, p.expand(2, 4)),
        lambda x, p: F.binary_cross_entropy(x, x.detach(), p),
        lambda x, p: F.binary_cross_entropy_with_logits(x, p.expand(2, 4)),
        lambda x, p: F.binary_cross_entropy_with_logits(x, p.expand(2, 4).double()),
        lambda x, p: F.binary_cross_entropy_with_logits(x, x.detach(), p),
        lambda x, p: F.binary_cross_entropy_with_logits(x, x.detach(), pos_weight=p),
        lambda x, p: F.binary_cross_entropy_with_logits(x, x.detach(), p, reduction="none"),
        lambda x, p: F.huber_loss(x, p.expand(2, 4)),
        lambda x, p: F.smooth_l1_loss(x, p.expand(2, 4)),
        lambda x, p: F.soft_margin_loss(x, p.expand(2, 4)),
        lambda x, p: F.mse_loss(x, p.expand(2, 4)),
    ]
    return _for_pairs(compile, (2, 4), calls, tracked=True)


@program("", "copies by index, products, steps and samples of operands of two types", tolerance=(2e-2, 2e-2))
def operands(compile):
    calls = [
        lambda x, p: x.index_copy(0, torch.tensor([0]), p[None]),
        lambda x, p: x.index_put((torch.tensor([0]),), p),
        lambda x, p: torch.heaviside(x - 0.5, p),
        lambda x, p: torch.heaviside(x - 0.5, p[0]),
        lambda x, p: torch.linalg.cross(x[:, :3], p[:3].expand(2, 3)),
        lambda x, p: F.grid_sample(x[None, None], p[:2].expand(1, 2, 2, 2), align_corners=False),
        lambda x, p: F.embedding_bag(torch.tensor([[0, 1]]), x, per_sample_weights=p[None, :2], mode="sum"),
        lambda x, p: x.lerp(p.expand(2, 4), 0.5),
    ]
    return _for_pairs(compile, (2, 4), calls)


@program("", "products of two types raise though nothing reads them")
def unread_products(compile):
    def unread(product):
        def call(x, p):
            try:
                product(x, p)
            except RuntimeError:
                x = x + 1
            return x * 2

        return call

    square = lambda p: p.expand(4, 4)  # noqa: E731  # as short as the rows
    whole = lambda p: p.expand(2, 4)  # noqa: E731
    calls = [
        lambda x, p: torch.einsum("abc,acd->abd", x[None], square(p)[None]),
        lambda x, p: torch.baddbmm(p, x[None], square(p)[None]),
        lambda x, p: torch.dot(x[0], p),
        lambda x, p: torch.addr(p, x[0], p),
        lambda x, p: F.bilinear(x, x, p.expand(3, 4, 4)),
        lambda x, p: F.scaled_dot_product_attention(x, whole(p), whole(p)),
        lambda x, p: torch.linalg.cross(x[:, :3], whole(p)[:, :3]),
        lambda x, p: torch.linalg.multi_dot([x, square(p), square(p)]),
        lambda x, p: torch.lerp(x, p, 0.5),
        lambda x, p: x.index_add(0, torch.tensor([0]), p[None]),
        lambda x, p: x.scatter(0, torch.zeros(1, 4, dtype=torch.long), p[None]),
        lambda x, p: x.masked_scatter(x > 0, whole(p)),
        lambda x, p: x.index_put((torch.tensor([0]),), p),
        lambda x, p: F.layer_norm(x, (4,), p, p),
        lambda x, p: F.batch_norm(x, p, p),
        lambda x, p: F.prelu(x, p[:1]),
        lambda x, p: F.grid_sample(x[None, None], p[:2].expand(1, 2, 2, 2), align_corners=False),
        lambda x, p: F.mse_loss(x, whole(p)),
        lambda x, p: F.binary_cross_entropy(x.sigmoid(), whole(p)),
        lambda x, p: F.embedding_bag(torch.tensor([[0, 1]]), x, per_sample_weights=p[None, :2], mode="sum"),
        lambda x, p: torch.searchsorted(x[0], p),
        lambda x, p: torch.searchsorted(x[0], p.float() + 1j),
        lambda x, p: torch.bucketize(x, p),
        lambda x, p: torch.histogram(x.reshape(-1), p),
        lambda x, p: torch.addcmul(x, p, p),
        lambda x, p: torch.polar(x.float(), whole(p)),
        lambda x, p: torch.copysign(x, p),
        lambda x, p: x @ square(p),
        lambda x, p: x.t().mm(p.expand(2, 4)),
        lambda x, p: F.linear(x, square(p)),
        lambda x, p: F.linear(x, square(p).to(x.dtype), p),
        lambda x, p: torch.addmm(p, x, square(p).to(x.dtype)),
        lambda x, p: torch.addmm(p.to(x.dtype), x, square(p)),
        lambda x, p: torch.addbmm(p.to(x.dtype), x[None], square(p)[None]),
        lambda x, p: torch.bmm(x[None], square(p)[None]),
        lambda x, p: x @ p,
        lambda x, p: x @ square(p).long(),
        lambda x, p: torch.cdist(x, square(p)),
        lambda x, p: F.conv1d(x[None], p.expand(3, 2, 4)),
        lambda x, p: F.conv_transpose1d(x[None], p.expand(2, 3, 4)),
    ]
    return _for_pairs(compile, (2, 4), [unread(c) for c in calls])


@program("", "a product of two types that nothing reads, behind a write to an argument, in another graph, and under autocast")
def unread_products_and_effects(compile):
    def written(x, p):
        x.mul_(2)
        x @ p
        return x + 1

    def drawn(x, p):
        y = torch.rand(2)
        x @ p
        return x + y.sum()

    def cast_apart(x, p):
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ x
        y @ x
        return x + 1

    def cast(x, p):
        with torch.autocast("cpu", torch.bfloat16):
            x @ p
            torch.func.jvp(lambda t: t @ t, (x,), (x,))
        return x + 1

    def in_a_transform(x, p):
        torch.func.vmap(lambda row: row @ p)(x)
        return x + 1

    found = []
    for fn in (written, drawn, cast_apart, cast, in_a_transform):
        f = compile(fn)
        for kind in (torch.bfloat16, torch.float64, torch.float32):
            x, p = torch.ones(4, 4), torch.ones(4, 4, dtype=kind)
            torch.manual_seed(0)
            try:
                found.append(f(x, p))
            except RuntimeError as e:
                found.append(str(e)[:40])
            found += [x, x._version, torch.rand(1)]
    return found


@program("", "arguments of layers that are refused: strides, dilations, factors and groups of zero, too many of them")
def arguments(compile):
    calls = [
        lambda x, _: F.conv2d(x, torch.ones(3, 2, 2, 2), stride=0),
        lambda x, _: F.conv_transpose2d(x, torch.ones(2, 3, 2, 2), stride=0),
        lambda x, _: F.max_pool2d(x, 2, dilation=0),
        lambda x, _: F.max_pool2d(x, (2, 2, 2)),
        lambda x, _: F.avg_pool2d(x, (2, 2, 2)),
        lambda x, _: F.pixel_shuffle(x, 0),
        lambda x, _: F.pixel_unshuffle(x, 0),
        lambda x, _: F.channel_shuffle(x, 3),
        lambda x, _: F.channel_shuffle(x, 0),
        lambda x, _: F.group_norm(x, 0),
        lambda x, _: F.celu(x, 0),
    ]
    return _tried(compile, lambda: (torch.arange(32.0).view(1, 2, 4, 4), torch.ones(1)), calls)


@program("", "parts that do not fit the view they are put into, indices that are no vector, reductions over no dims")
def places(compile):
    calls = [
        lambda x, _: x.select_scatter(x[:, 0], 0, 0),
        lambda x, _: x.select_scatter(x[0], 0, 3),
        lambda x, _: x.select_scatter(x[0], 0, -1),
        lambda x, _: x.slice_scatter(x[:1], 0, 1),
        lambda x, _: x.slice_scatter(x[:2], 0, 1),
        lambda x, _: x.diagonal_scatter(x[0, :1]),
        lambda x, _: x.diagonal_scatter(x[:, 0], 1),
        lambda x, _: torch.as_strided_scatter(x, x[0, :1], (2,), (1,)),
        lambda x, _: torch.as_strided_scatter(x, x[0, :2], (2,), (1,)),
        lambda x, _: x.index_select(0, torch.tensor([[0]])),
        lambda x, _: x.index_select(0, torch.tensor(1)),
        lambda x, _: x.logsumexp(()),
        lambda x, _: x.logsumexp((), keepdim=True),
        lambda x, _: x[0, 0].logsumexp(()),
    ]
    return _tried(compile, lambda: (torch.arange(12.0).view(3, 4), torch.ones(1)), calls)


@program("", "a margin loss with fewer labels than classes")
def few_labels(compile):
    @compile
    def f(x, labels):
        return F.multilabel_margin_loss(x, labels, reduction="none"), F.multilabel_margin_loss(x[0] * 2, labels[0])

    x = torch.arange(8.0).view(2, 4).requires_grad_()
    out = [f(x, torch.tensor(labels)) for labels in ([[0, 1, -1, 2], [3, -1, 0, 0]], [[-1, 0, 1, 2], [3, 2, 1, 0]])]
    sum(y.sum() for pair in out for y in pair).backward()
    return out, x.grad


@program("", "without elements no kernel is asked, so types that it lacks are none of its business")
def no_elements(compile):
    calls = [
        lambda x: x.softmax(0),
        lambda x: x.log_softmax(1),
        lambda x: torch.mv(x, x[0]),
        lambda x: F.grid_sample(x.reshape(0, 1, 4, 4), x.reshape(0, 3, 3, 2)),
        lambda x: F.gelu(x),
        lambda x: F.glu(x, 0),
    ]
    out = []
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float64):
        for call in calls:
            try:
                out.append(compile(call)(torch.empty(2, 0, dtype=dtype)))
            except RuntimeError as e:
                out.append(str(e))
    return out


@program("", "any and all put truth into bool and uint8, and refuse other results")
def truth_into(compile):
    out = []
    for name in ("any", "all"):
        for dims in ((), (0,), ((0, 1),)):
            for given in (torch.bool, torch.uint8, torch.int64, torch.float32):
                for made in (torch.bool, torch.uint8, torch.int64, torch.float32):
                    call = compile(lambda x, r, name=name, dims=dims: getattr(torch, name)(x, *dims, out=r))
                    result = torch.zeros(0, dtype=made)
                    try:
                        out.append(call(torch.tensor([[1, 0, 2], [0, 0, 1]], dtype=given), result) is result)
                    except RuntimeError as e:
                        out.append(str(e))
                    out.append(result)
    return out


@program("", "real numbers are compared with complex ones, alone and among other work")
def beside_complex(compile):
    calls = (
        lambda x: x == 1j,
        lambda x: x != 2 + 0j,
        lambda x: torch.where((x + 1).eq(2 + 0j), x * 2, x - 1),
        lambda x: (x == torch.tensor(1j)).any() | (x.sum() == 1j),
        lambda x: x < 1j,
    )
    out = []
    for call in calls:
        f = compile(call)
        for kind in (*KINDS[1:], torch.int64, torch.uint8, torch.bool):  # of float16 torch warns, once in a process
            try:
                out.append(f(torch.tensor([0, 1, 2]).to(kind)))
            except RuntimeError as e:
                out.append(type(e))
    return out


@program("", "tensors of one number, made in a function, keep the digits of their type beside wider ones", tolerance=(1e-13, 0.0))
def digits_of_made_numbers(compile):
    def made(x):
        low = [torch.full((), 1e-3, dtype=kind) for kind in (torch.float32, torch.bfloat16, torch.float16)]
        numbers = (*low, torch.scalar_tensor(0.1), torch.tensor(1 / 3), torch.ones(()) * 0.7, torch.full((), 16777217.0))
        return [y for n in numbers for y in (x * n, x + n.double(), n.expand(2) / x, torch.where(n > 0.001, x, n), x**n, x == n)]

    f = compile(made)
    return [f(x) for x in (torch.tensor(0.78, dtype=torch.float64), torch.tensor([0.78, 3.0], dtype=torch.float64))]
