"""Results that eager's kernels lay out otherwise than torch's rules for tensors without data say, and what is made of such results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from repro_corpus.program import Compile, program

LAST = torch.channels_last


def numbers(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float64).sin() + 0.1).to(dtype).view(shape)


def with_gradients(results: Any, *leaves: torch.Tensor) -> list[Any]:
    given = [r for r in (results if isinstance(results, (tuple, list)) else [results]) if r.requires_grad]
    found = torch.autograd.grad(given, leaves, [torch.ones_like(r) for r in given]) if given and leaves else ()
    return [results, *found]


@program("", "convolutions over permuted sequences, which are no images whose channels are last")
def sequences(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, w: torch.Tensor) -> Any:
        y = F.conv1d(x.transpose(1, 2), w, padding=1)
        return y, y * 2 if y.is_contiguous() else y, F.conv_transpose1d(y, w)

    found = []
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for weight in (numbers(3, 3, 3), numbers(3, 3, 3).transpose(1, 2).contiguous().transpose(1, 2), numbers(3, 3, 3).permute(2, 1, 0)):
            x, w = numbers(2, 5, 3).to(dtype), weight.to(dtype)
            found.append(f(x, w))
            leaves = x.requires_grad_(), w.detach().requires_grad_()
            found.append(with_gradients(f(*leaves)[0], *leaves))
    return found


@program("", "convolutions of images and volumes in double, and of small volumes, channels last")
def images_and_volumes(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor, w: torch.Tensor) -> Any:
        return (F.conv2d, F.conv3d)[x.dim() - 4](x, w), (F.conv_transpose2d, F.conv_transpose3d)[x.dim() - 4](x, w)

    found = []
    for dtype in (torch.float32, torch.float64):
        for batch in (1, 2):
            x, w = numbers(batch, 4, 5, 5).to(memory_format=LAST).to(dtype), numbers(4, 4, 3, 3).to(dtype)
            leaves = x.detach().requires_grad_(), w.detach().requires_grad_()
            found += [f(x, w), f(x.contiguous(), w.to(memory_format=LAST)), with_gradients(f(*leaves), *leaves)]
            volume = numbers(batch, 2, 4, 4, 4).to(memory_format=torch.channels_last_3d).to(dtype)
            found.append(f(volume, numbers(2, 2, 3, 3, 3).to(dtype)))
    return found


@program("", "max_pool1d with and without gradients and indices, of permuted sequences; integers are refused in one of the ways")
def pooled_sequences(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> Any:
        y = F.max_pool1d(x.transpose(1, 2), 2)
        return y, y * 2 if y.is_contiguous() else y

    @compile
    def with_indices(x: torch.Tensor) -> Any:
        return F.max_pool1d(x.transpose(1, 2), 2, return_indices=True), torch.max_pool1d(x.mT, 2), torch.ops.aten.max_pool1d(x.mT, [2])

    leaf = numbers(2, 6, 3).requires_grad_()
    found = [f(leaf), with_gradients(f(leaf)[0], leaf), f(leaf.detach()), with_indices(leaf), with_indices(leaf.detach())]
    with torch.no_grad():
        found.append(f(leaf))
    try:
        f(torch.zeros(2, 6, 3, dtype=torch.int64))
    except NotImplementedError as error:
        found.append(str(error))
    return found


@program("", "one_hot of permuted indices, asked whether it is contiguous")
def classes(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> Any:
        y = F.one_hot(x.t(), 4)
        return y * 2 if y.is_contiguous() else y

    return f(torch.arange(6).view(2, 3) % 4)


_MATRICES: dict[str, Callable[..., Any]] = {
    "svd": lambda x, y: [part.abs() if part.dim() == 1 else part.stride() for part in torch.linalg.svd(x)],
    "svd alone": lambda x, y: torch.linalg.svd(x, full_matrices=False)[2].abs(),
    "svdvals": lambda x, y: torch.svd(x, compute_uv=False),
    "householder": lambda x, y: torch.linalg.householder_product(y, y[0, :3] * 0.1),
    "ormqr": lambda x, y: torch.ormqr(y, y[0, :3] * 0.1, y),
    "ldexp": lambda x, y: torch.ldexp(x.t()[:, None], y.expand(2, 4, 3).permute(1, 0, 2)),
    "normal": lambda x, y: [torch.normal(x.t(), y.abs()[:, :1]).stride(), torch.normal(x.t(), 1.0).stride()],
    "nonzero_static": lambda x, y: [torch.nonzero_static(x, size=4), torch.nonzero_static(x[:0], size=2)],
    "view_copy": lambda x, y: torch.view_copy(x.t(), (-1, 2)),
    "index_fill": lambda x, y: y.expand(2, 4, 3).permute(2, 0, 1)[::2].index_fill(1, torch.tensor([0]), torch.tensor(2.0)),
    "cross entropy": lambda x, y: F.binary_cross_entropy(x.t().sigmoid(), x.t().contiguous().sigmoid(), reduction="none"),
    "its weight": lambda x, y: F.binary_cross_entropy(x.t().contiguous().sigmoid(), x.t().sigmoid(), x.t().abs(), reduction="none"),
    "no index": lambda x, y: [
        x.t().scatter_add(0, torch.zeros(0, 1, dtype=torch.uint8), x[:0, :1]),
        x.t().gather(0, x[:0].to(torch.uint8)),
    ],
    "indexed": lambda x, y: [x.t()[None][:, torch.tensor([0, 2])], x[:, None][:, :, torch.tensor([1, 0])], y.t()[torch.tensor([[1], [0]])]],
}


@program("", "operators on permuted, expanded and gapped operands")
def operators(compile: Compile) -> Any:
    found = []
    for number, (name, f) in enumerate(_MATRICES.items()):
        f.__code__ = f.__code__.replace(co_name=f"of_matrices_{number}")
        compiled = compile(f)
        for x in (numbers(3, 4), numbers(4, 3).t()):
            found.append((name, compiled(x, numbers(4, 3))))
    return found


@program("", "unpooled images and batch norms with their update, whose memory format is kept")
def formats(compile: Compile) -> Any:
    @compile
    def f(x: torch.Tensor) -> Any:
        pooled, where = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(pooled, where, 2), F.batch_norm(x[0], torch.zeros(4), torch.ones(4), training=True)

    return f(numbers(2, 4, 4, 4)), f(numbers(2, 4, 4, 4).to(memory_format=LAST))


@program("", "an operator that fills an argument, whose form without writes lays out its result otherwise")
def forms_without_writes(compile: Compile) -> Any:
    found: list[Any] = []
    for training in (True, False):
        f = compile(lambda x, training=training: F.rrelu(x, training=training))
        for x in (numbers(3, 4).t(), numbers(2, 3, 4, 5).to(memory_format=LAST), numbers(4, 8)[:, ::2]):
            leaf = x.detach().requires_grad_()
            found += [f(x), with_gradients(f(leaf), leaf), f(x).view(-1)]
    return found


@program("pytorch#197815", "strides of dims of one element, of results that ATen computes from whole tensors")
def dims_of_one_element(compile: Compile) -> Any:
    ones = (
        numbers(1, 5).t(),
        numbers(1, 4, 1, 3).permute(3, 2, 1, 0),
        numbers(2, 1, 3).transpose(0, 2),
        numbers(3, 1, 4, 4).to(memory_format=LAST),
    )
    found: list[Any] = []
    for function in (
        torch.rand_like,
        torch.randn_like,
        lambda x: torch.randint_like(x, 9),
        lambda x: torch.sort(x, 0),
        lambda x: x.cummax(0),
    ):
        f = compile(function)
        for x in ones:
            results = f(x)
            found += [(r, r.stride()) for r in (results if isinstance(results, tuple) else [results])]
    return found
