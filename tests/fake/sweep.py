"""Compare fakes with eager over torch's operator database. Used by test_op_db.py."""

from __future__ import annotations

import contextlib
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_map

from dynamo.fake import DataDependent, FakeMode, FakeTensor, NoMeta, Unsupported
from dynamo.fake.overlap import Overlap
from tests.fake.observe import facts, gradients
from tests.samples import draw

SAMPLES = 6
# What a narrowed query ends the process with, in eager of torch 2.15: a division by zero.
NOT_NARROWED = frozenset({"torch.ops.aten._scaled_dot_product_flash_attention_for_cpu"})
DTYPES = (torch.float32, torch.int64, torch.bool)


@dataclass(frozen=True)
class Finding:
    op: str
    dtype: torch.dtype
    kind: str
    detail: str


def run_eager(op: Any, sample: Any) -> tuple[list[Any], Any]:
    inputs, _ = tree_flatten((sample.input, sample.args, sample.kwargs))
    tensors = [x for x in inputs if isinstance(x, torch.Tensor)]
    out = op(sample.input, *sample.args, **sample.kwargs)
    return observed(out, tensors), out


def run_fake(op: Any, sample: Any) -> list[Any]:
    mode = FakeMode()

    def fake(x: Any) -> Any:
        return mode.from_real(x) if isinstance(x, torch.Tensor) else x

    args = tree_map(fake, (sample.input, sample.args, sample.kwargs))
    tensors = [x for x in tree_flatten(args)[0] if isinstance(x, FakeTensor)]
    with mode:
        out = op(args[0], *args[1], **args[2])
        return observed(out, tensors)


def observed(out: Any, tensors: list[Any]) -> list[Any]:
    results = [facts(x, tensors, every_stride=True) for x in tree_flatten(out)[0]]
    return results + [facts(x, tensors) for x in gradients(out, tensors)]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def sweep(names: set[str] | None = None) -> Iterator[Finding]:
    for info in op_db:
        if names is not None and info.name not in names:
            continue
        for dtype in DTYPES:
            if dtype in info.supported_dtypes("cpu"):
                yield from _one(info, dtype)


def _one(info: Any, dtype: torch.dtype) -> Iterator[Finding]:
    label = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
    grad = dtype is torch.float32 and info.supports_autograd
    with quiet():
        samples = draw(info, dtype, SAMPLES, requires_grad=grad)
    for sample in [v for s in samples for v in variants(s, info.name not in NOT_NARROWED)]:
        kind, detail = compare(info.op, sample)
        if kind:
            yield Finding(label, dtype, kind, detail)
            break


def variants(sample: Any, narrows: bool = True) -> Iterator[Any]:
    """The sample, its non-contiguous twin, a transposed and a reversed one, channels last, a drawn one, and two with a dim of one element
    whose stride is that of a longer one, where they differ."""
    yield sample
    rng = random.Random(str([tuple(t.shape) for t in _leaves(sample) if isinstance(t, torch.Tensor)]))
    for relaid in (_every_second, _transposed, _reversed, _channels_last, partial(_drawn, rng)):
        with quiet():
            other = sample.transform(relaid)
        if any(a is not b for a, b in zip(_leaves(other), _leaves(sample), strict=True)):
            yield other
    if narrows and isinstance(sample.input, torch.Tensor) and any(n > 1 for n in sample.input.shape):
        shape = sample.input.shape
        at = rng.choice([k for k, n in enumerate(shape) if n > 1])
        with quiet():
            narrow = sample.transform(partial(_narrowed, shape, at))
            yield narrow
            if len(shape) > 1:
                yield narrow.transform(_turned)


def _narrowed(shape: torch.Size, at: int, t: Any) -> Any:
    """The first element of a dim, of what has the shape of the input."""
    if not isinstance(t, torch.Tensor) or t.layout is not torch.strided or t.shape != shape:
        return t
    return _relaid(t, t.detach().narrow(at, 0, 1))


def _turned(t: Any) -> Any:
    """The last dim is the slowest in memory."""
    if not isinstance(t, torch.Tensor) or t.layout is not torch.strided or t.dim() < 2:
        return t
    return _relaid(t, t.detach().transpose(0, -1).clone(memory_format=torch.contiguous_format).transpose(0, -1))


def _leaves(sample: Any) -> list[Any]:
    return tree_flatten((sample.input, sample.args, sample.kwargs))[0]


def _relaid(t: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    return new.detach().requires_grad_(t.requires_grad)


def _every_second(t: Any) -> Any:
    if not isinstance(t, torch.Tensor) or t.dim() < 1 or t.layout is not torch.strided:
        return t
    wide = torch.stack([t.detach(), t.detach()], -1)
    return _relaid(t, wide[..., 0])


def _transposed(t: Any) -> Any:
    if not isinstance(t, torch.Tensor) or t.dim() < 2 or t.layout is not torch.strided:
        return t
    return _relaid(t, t.detach().mT.contiguous().mT)


def _reversed(t: Any) -> Any:
    if not isinstance(t, torch.Tensor) or t.dim() < 3 or t.layout is not torch.strided:
        return t
    last_first = tuple(range(t.dim()))[::-1]
    return _relaid(t, t.detach().permute(last_first).contiguous().permute(last_first))


def _drawn(rng: random.Random, t: Any) -> Any:
    """Dims in any order in memory, gaps, repeated elements, any strides of dims of one element."""
    if not isinstance(t, torch.Tensor) or t.dim() < 1 or t.layout is not torch.strided or not t.numel():
        return t
    if rng.random() < 0.15:
        return _relaid(t, t.detach().narrow(rng.randrange(t.dim()), 0, 1).clone().expand(t.shape))
    order, step = rng.sample(range(t.dim()), t.dim()), rng.choice((1, 1, 2))
    whole = t.new_zeros([t.shape[i] * step for i in order])
    part = whole[(slice(None, None, step),) * t.dim()].permute([order.index(i) for i in range(t.dim())])
    strides = [s if n > 1 else rng.choice((s, 1, 7)) for s, n in zip(part.stride(), part.shape, strict=True)]
    return _relaid(t, part.copy_(t.detach()).as_strided(t.shape, strides))


def _channels_last(t: Any) -> Any:
    if not isinstance(t, torch.Tensor) or t.dim() != 4 or t.layout is not torch.strided:
        return t
    return _relaid(t, t.detach().contiguous(memory_format=torch.channels_last))


def compare(op: Any, sample: Any) -> tuple[str, str]:
    """('', '') if the fake tells the truth, otherwise what kind of difference and where."""
    with quiet():
        try:
            real, _ = run_eager(op, sample)
        except (RuntimeError, ValueError, TypeError, NotImplementedError, AssertionError, IndexError):
            return "", ""
        try:
            fake = run_fake(op, sample)
        except DataDependent as e:
            return "data-dependent", str(e)
        except NoMeta as e:
            return "no-meta", str(e)
        except (Unsupported, Overlap) as e:
            return "unsupported", str(e)
        except Exception as e:  # noqa: BLE001 - any other exception is the finding
            return "raised", f"{type(e).__name__}: {str(e)[:160]}"
    if len(real) != len(fake):
        return "count", f"{len(real)} {len(fake)}"
    for r, f in zip(real, fake, strict=True):
        if isinstance(r, tuple) and isinstance(f, tuple) and r != f:
            return "facts", f"eager {r} fake {f}"
    return "", ""
