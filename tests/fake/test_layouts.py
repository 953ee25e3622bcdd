"""Layouts of results: fakes against eager for calls on images in several layouts, the tables of the program generator and more.

A stride that a fake gets wrong becomes the stride of the compiled result.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from dynamo.fake import DataDependent, FakeMode, Unsupported
from minifier.fuzz.draw import tensor_ops as ops
from tests.fake.observe import facts

SHAPE = (2, 3, 4, 5)
LAYOUTS = ("dense", "channels last", "permuted", "transposed", "with gaps", "expanded")
INDEX = "torch.tensor([0, 2, 1])"
MORE = """
torch.stack([x,x],2) | torch.stack([x,y]) | torch.cat([x,y],1) | torch.cat([x,x.contiguous()],1) | x.roll((1,1),(2,3)) | x.roll(3) |
F.pad(x,(1,1,1,1),mode='reflect') | F.pad(x,(1,1,1,1),mode='replicate') | F.pad(x,(1,1,1,1),mode='circular') |
F.pad(x,(6,0,0,5),mode='replicate') | F.pad(x,(-1,5,4,1),mode='replicate') | F.pad(x,(0,5,1,1,3,0),mode='replicate') |
F.pad(x,(1,1,1,1,1,1)) | F.interpolate(x,scale_factor=2) | F.interpolate(x,scale_factor=2,mode='bilinear') |
F.interpolate(x,scale_factor=2,mode='bicubic') | F.avg_pool2d(x,2) | F.max_pool2d(x,2) | F.max_pool2d(x,2,return_indices=True)[1] |
F.adaptive_avg_pool2d(x,2) | F.adaptive_max_pool2d(x,2) | F.adaptive_avg_pool2d(x,1) | F.pixel_unshuffle(x.roll(0)[:,:,:,:4],2) |
F.lp_pool2d(x,2,2) | F.conv2d(x,torch.ones(4,3,2,2)) | F.conv2d(x,torch.ones(4,3,2,2).to(memory_format=torch.channels_last)) |
F.conv_transpose2d(x,torch.ones(3,4,2,2)) | F.batch_norm(x,torch.zeros(3),torch.ones(3)) |
F.batch_norm(x,torch.zeros(3),torch.ones(3),training=True) | F.instance_norm(x) | F.group_norm(x,3) | F.layer_norm(x,(5,)) |
F.layer_norm(x,(3,4,5)) | F.local_response_norm(x,2) | F.prelu(x,torch.ones(3)) | F.channel_shuffle(x,3) | F.unfold(x,2) |
torch.native_channel_shuffle(x,3) | F.channel_shuffle(x.unsqueeze(2),3) | torch.native_channel_shuffle(x.unsqueeze(2),3) |
F.channel_shuffle(x.unsqueeze(2).to(memory_format=torch.channels_last_3d),3) | F.channel_shuffle(x[:,:,0],3) |
F.grid_sample(x,torch.zeros(2,4,5,2)) | F.softmax(x,1) | F.dropout(x,0.5) | F.dropout2d(x) | F.alpha_dropout(x,0.5) | F.rrelu(x) |
F.glu(x[:,:2],1) | torch.rot90(x,1,(2,3)) | x.tril() | x.triu() | x.repeat(1,1,2,1) | x.flip(2) | x.fliplr() | x.sort(1)[0] |
x.sort(1)[1] | x.topk(2,1)[0] | x.cummax(2)[0] | x.cummin(2)[1] | x.logcumsumexp(1) | x.kthvalue(1,1)[0] | x.median(1)[0] |
x.mode(1)[0] | x.msort() | x.argsort(1) | x.unfold(2,2,1) | x.diff(dim=1) | x.gather(1,(x>0).long()) |
x.scatter(1,(x>0).long(),1.0) | x.scatter_add(1,(x>0).long(),x) | x.index_add(1,torch.tensor([0,1]),x[:,:2]) |
x.index_copy(1,torch.tensor([0,1]),x[:,:2]) | x.index_fill(1,torch.tensor([0]),1.0) | x.index_select(1,torch.tensor([0,1])) |
x[:,torch.tensor([0,1])] | x[torch.tensor([0,1])] | x[:,:,torch.tensor([0,1]),torch.tensor([0,1])] |
x[torch.tensor([0,1]),:,torch.tensor([0,1])] | x.masked_fill(x>0,1) | x.masked_scatter(x>0,y.contiguous()) | torch.where(x>0,x,y) |
torch.where(x>0,x,0.) | x.index_put((torch.tensor([0]),),torch.tensor(1.)) | x.take(torch.tensor([[1,2]])) |
x.take_along_dim((x>0).long(),1) | x.repeat_interleave(2,1) | x.tile((1,2)) | torch.kron(x,x) | x.clone() | x.contiguous() |
x.to(torch.float64) | x.double() | x.half().float() | x.clone(memory_format=torch.contiguous_format) |
x.to(memory_format=torch.channels_last) | torch.empty_like(x) | torch.zeros_like(x) | torch.rand_like(x) | x.new_zeros(x.shape) |
x.new_empty(x.shape) | torch.full_like(x,1) | torch.zeros_like(x,memory_format=torch.contiguous_format) | x.bernoulli(0.5) |
torch.normal(x,1.0) | torch.bernoulli(x.sigmoid()) | torch.multinomial(x.sigmoid().reshape(-1,5),2) | x.type_as(y) | x.float() |
x.bool() | x.reshape(2,-1) | x.flatten(1) | x.view_as(x) | x.squeeze() | x.unsqueeze(1) | x.expand(2,*x.shape) |
x.sum((2,3),keepdim=True) | x.mean((2,3)) | x.mean(1,keepdim=True) | x.amax((2,3),keepdim=True) | x.norm(dim=1,keepdim=True) |
x.var((0,2,3)) | x.argmax(1,keepdim=True) | x.std(1) | x.cumsum(1) | x.cumprod(2) | x.prod(1) | x.logsumexp(1) | x.any(1) |
torch.addcmul(x,y,y) | torch.lerp(x,y,0.5) | torch.addcdiv(x,y,y) | x.clamp(y,y) | x.nan_to_num() | torch.complex(x,y) |
torch.polar(x,y) | torch.view_as_complex(torch.stack([x,y],-1)) | torch.fft.fft(x) | torch.fft.fft2(x) | torch.fft.rfft(x) |
torch.fft.ifft(x) | torch.fft.fftshift(x) | x@x.mT | torch.matmul(x,torch.ones(5,6)) |
torch.einsum('bchw,cd->bdhw',x,torch.ones(3,4)) | torch.tensordot(x,torch.ones(3,4),([1],[0])) |
torch.linalg.inv(x@x.mT+torch.eye(4)) | torch.linalg.qr(x)[0] | torch.linalg.svdvals(x) |
torch.linalg.solve(x@x.mT+torch.eye(4),x) | torch.linalg.cholesky(x@x.mT+9*torch.eye(4)) | torch.linalg.det(x@x.mT) |
torch.cdist(x,x) | torch.bucketize(x,torch.tensor([0.,1.])) | torch.searchsorted(torch.tensor([0.,1.]),x) |
torch.isin(x,torch.tensor([0.])) | torch.histc(x) | F.embedding((x>0).long(),torch.ones(3,4)) | F.cosine_similarity(x,y,1) |
F.pairwise_distance(x,y) | F.normalize(x,dim=1) | F.cross_entropy(x,(x[:,0]>0).long(),reduction='none') |
F.nll_loss(x,(x[:,0]>0).long(),reduction='none') | F.mse_loss(x,y,reduction='none') | F.l1_loss(x,y,reduction='none') |
F.scaled_dot_product_attention(x,x,x) | torch.special.erfinv(x.tanh()) | torch.special.i0(x) | torch.special.entr(x) |
torch.polygamma(1,x.abs()+1) | torch.lgamma(x.abs()+1) | torch.digamma(x.abs()+1) | torch.igamma(x.abs()+1,y.abs()+1) |
torch.ldexp(x,y.long()) | torch.frexp(x)[0] | torch.frexp(x)[1] | torch.gcd(x.long(),y.long()) | torch.quantile(x,0.5,dim=1) |
torch.diag_embed(x) | x.diagonal() | torch.diagonal_scatter(x,x.diagonal()*0) | torch.select_scatter(x,x[:,0]*0,1,0) |
torch.slice_scatter(x,x[:,:1]*0,1,0,1) | torch.as_strided_scatter(x,torch.zeros(2),(2,),(1,)) | torch.block_diag(x[0,0]) |
torch.cartesian_prod(x[0,0,0],x[0,0,1]) | torch.trapezoid(x) | torch.cross(x[:,:,:,:3],y[:,:,:,:3],dim=1) |
torch.renorm(x,2,1,1.0) | x.fmod(2) | x.remainder(y) | torch.nanmedian(x,1)[0] | torch.aminmax(x,dim=1)[0] |
F.fractional_max_pool2d(x,2,output_size=2) | F.max_unpool2d(*F.max_pool2d(x,2,return_indices=True),2) | F.pdist(x[0,0]) |
F.hinge_embedding_loss(x,y,reduction='none') | F.poisson_nll_loss(x,y,reduction='none') |
torch.nn.functional.upsample(x,scale_factor=2,mode='nearest') | torch._adaptive_avg_pool2d(x,(2,2)) | torch.max_pool2d(x,2) |
torch.native_group_norm(x,None,None,2,3,20,3,1e-5)[0] | torch.native_layer_norm(x,(5,),None,None,1e-5)[1] | x.mT.contiguous() |
x.movedim(1,3) | torch.hstack([x,x]) | torch.dstack([x,x]) | torch.column_stack([x,x]) | torch.vstack([x,y]) |
torch.meshgrid(x[0,0,0],y[0,0,0],indexing='ij')[0].clone() | torch.baddbmm(x[0],x[0],x[0].mT@x[0]) |
torch.addmm(x[0,0],x[0,0],x[0,0].mT@x[0,0]) | torch.addbmm(x[0,0],x[0],x[0].mT@x[0]) | torch.addmv(x[0,0,:,0],x[0,0],x[0,0,0]) |
torch.addr(x[0,0],x[0,0,:,0],x[0,0,0],beta=0) | torch.addr(x[0,0],x[0,0,:,0],x[0,0,0]) |
torch.addr(x[0,0].mT,x[0,0,0],x[0,0,:,0],beta=0) | torch.addr(x[0,0].mT.contiguous().mT,x[0,0,:,0],x[0,0,0],beta=0,alpha=2) |
torch.mm(x[0,0],x[0,0].mT) | torch.bmm(x[0],x[0].mT) | torch.complex(x,y).angle() | torch.complex(x,y).conj().angle() |
torch.complex(x,y).abs() | torch.complex(x,y).sgn() | torch.complex(x,y)*x | torch.complex(x,y).isfinite() | x.angle() |
torch.polar(x.abs(),y).real | (torch.complex(x,y)*2).imag | torch.complex(x,y).reciprocal()
"""


def expressions() -> Iterator[str]:
    yield from (f"{name}(x)" for name in ops.UNARY)
    yield from (f"{name}(x, y)" for name in ops.BINARY)
    yield from (text.format(v="x", s="0.5") for text in ops.WITH_SCALAR)
    for d in ("(1,)", "(0, 2)"):
        yield from (text.format(v="x", d=d, d0=1) for text in ops.REDUCTIONS)
    for d in (1, -1):
        for k in ("", ", keepdim=True"):
            yield from (text.format(v="x", d=d, k=k) for text in ops.ONE_DIM)
        yield from (text.format(v="x", d=d, n=1) for text in ops.SAME_SHAPE)
    yield from (text.format(v="x") for text in (*ops.WHOLE, *ops.PADS))
    yield from (text.format(a="x", b="y", c="(x > 0)") for text in ops.TERNARY)
    for text in ops.ROWS_OF:
        if "one_hot" not in text:  # another operator on fakes
            yield text.format(v="x", d=1, i=INDEX, x="(x > 0).long()", w=f"x.index_select(1, {INDEX})")
    yield from (text.format(a="x", b="x.mT") for text in ops.MATMULS)
    yield from (text.strip() for text in MORE.split("|"))


def laid_out(layout: str, seed: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    t = torch.randn(SHAPE, generator=torch.Generator().manual_seed(seed)).to(dtype)
    layouts = {
        "dense": lambda: t,
        "channels last": lambda: t.to(memory_format=torch.channels_last),
        "permuted": lambda: t.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0),
        "transposed": lambda: t.mT.contiguous().mT,
        "with gaps": lambda: torch.stack([t, t], -1)[..., 0],
        "expanded": lambda: t[:1].expand(SHAPE),
    }
    return layouts[layout]()


def results(text: str, x: torch.Tensor, y: torch.Tensor, c: torch.Tensor | None = None) -> list[Any]:
    out = eval(text, {"torch": torch, "F": F, "x": x, "y": y, "c": c})
    return [facts(t, []) for t in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(t, torch.Tensor)]


def on_both(text: str, *tensors: torch.Tensor) -> tuple[list[Any], list[Any]] | None:
    """What the fakes give, and what eager gives. None: it is not for these dtypes."""
    mode = FakeMode()
    try:
        expected = results(text, *tensors)
    except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
        return None
    fakes = [mode.from_real(t) for t in tensors]
    with mode:
        return results(text, *fakes), expected


Case = tuple[str, str, tuple[torch.Tensor, ...]]  # its name, an expression, and what that is of


def differences(cases: list[Case]) -> tuple[int, list[str]]:
    """How many of them eager computes, and in which of those fakes differ."""
    compared, wrong = 0, []
    for name, text, tensors in cases:
        both = on_both(text, *tensors)
        if both is None:
            continue
        compared += 1
        found, expected = both
        if found != expected:
            wrong.append(f"{name} is {found} instead of {expected}")
    return compared, wrong


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_agree_with_eager(layout: str) -> None:
    wrong, compared = [], 0
    for text in expressions():
        for other in {layout, "dense"}:
            x, y = laid_out(layout, 0), laid_out(other, 1)
            mode = FakeMode()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    expected = results(text, x, y)
                except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
                    continue  # not for this shape or layout
                try:
                    fakes = mode.from_real(x), mode.from_real(y)
                    with mode:
                        found = results(text, *fakes)
                except (DataDependent, Unsupported):
                    continue
            compared += 1
            if found != expected:
                wrong.append(f"{text} of {layout} and {other}: {found} instead of {expected}")
    assert compared > 400
    assert not wrong, "\n".join(wrong)


MIXED = """
torch.where(c,x,y) | torch.where(c,y,0.) | torch.addcmul(x,y,y) | torch.addcdiv(x,y,y) | x.clamp(y,y) | x.clamp(min=y) | torch.clamp(x,y) |
x**y | torch.rsub(x,y) | torch.rsub(x,y,alpha=2) | F.mse_loss(x,y,reduction='none') | F.l1_loss(x,y,reduction='none') |
F.smooth_l1_loss(x,y,reduction='none') | F.huber_loss(x,y,reduction='none') | torch.div(x,y,rounding_mode='floor') | x+y*2 |
torch.logical_and(x,y) | torch.logical_xor(x,y) | x==y | x<y | x.ne(y) | torch.isclose(x,x) | torch.hypot(x,y) | torch.xlogy(x,y) |
torch.special.xlog1py(x,y) | torch.copysign(x,y) | torch.nextafter(x,y) | torch.fmax(x,y) | torch.logaddexp(x,y) | torch.heaviside(x,y) |
x+1.5 | x/2 | x==1.5 | x.sqrt() | x.exp() | x.float() | x.double() | x.sigmoid() | x.masked_fill(c,2) | torch.threshold(x,0,1) |
torch.sub(x,y,alpha=3) | torch.float_power(x,y) | torch.true_divide(x,y) | torch.fmod(x,y) | torch.remainder(x,y) | torch.atan2(x,y) |
F.leaky_relu(x) | F.hardtanh(x) | F.gelu(x) | F.softplus(x) | F.prelu(x,torch.ones(3)) | x.nan_to_num() | torch.lerp(x,x,0.5)
"""


RARE = """
| torch.logaddexp2(x,y) | torch.igamma(x,y) | torch.igammac(x,y) | torch.gcd(x,y) | torch.special.zeta(x,y) | torch.complex(x,y) |
torch.polar(x,y) | torch.lerp(x,y,0.5) | torch.addcdiv(c,x,y) | torch.addcmul(c,x,y) | torch.where(c,x,1)
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (torch.float32, torch.bfloat16),
        (torch.bfloat16, torch.float32),
        (torch.int64, torch.float32),
        (torch.float32, torch.float64),
        (torch.bool, torch.int64),
    ],
)
def test_layouts_of_operands_of_two_dtypes_agree_with_eager(first: torch.dtype, second: torch.dtype) -> None:
    """An operand that is brought to the common dtype is copied first, and the copy of one with gaps is laid out anew."""
    texts = [f"{name}(x, y)" for name in ops.BINARY] + [text.strip() for text in MIXED.split("|")]
    cases: list[Case] = []
    for layout, other in itertools.product(LAYOUTS, LAYOUTS):
        x, y, c = laid_out(layout, 0, first), laid_out(other, 1, second), laid_out("transposed", 2) > 0
        for text in texts:
            cases.append((f"{text} of {layout} and {other}", text, (x, y, c)))
    compared, wrong = differences(cases)
    assert compared > 1000
    assert not wrong, "\n".join(wrong)


def drawn(rng: random.Random, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor that broadcasts to `shape`: permuted, a part of a larger one, every second element, expanded."""
    sizes = [1 if rng.random() < 0.3 else s for s in shape]
    if rng.random() < 0.3:
        sizes = sizes[rng.randrange(len(shape)) :]
    order = rng.sample(range(len(sizes)), len(sizes))
    larger, step = rng.choice([0, 0, 2]), rng.choice([1, 1, 2])
    whole = torch.ones([sizes[i] * step + larger for i in order], dtype=dtype)
    part = whole[tuple(slice(0, sizes[i] * step, step) for i in order)].permute([order.index(i) for i in range(len(sizes))])
    return part.expand(shape) if rng.random() < 0.2 else part


def test_layouts_of_broadcast_operands_of_two_dtypes_agree_with_eager() -> None:
    texts = [f"{name}(x, y)" for name in ops.BINARY] + [text.strip() for text in (MIXED + RARE).split("|")]
    dtypes = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float64, torch.complex64)
    cases: list[Case] = []
    for seed in range(250):
        rng = random.Random(seed)
        shape = [rng.choice((1, 2, 3, 4)) for _ in range(rng.choice((2, 3, 4)))]
        x, y, c = (drawn(rng, shape, dtype) for dtype in (rng.choice(dtypes), rng.choice(dtypes), torch.bool))
        for text in texts:
            cases.append((f"{seed}: {text}", text, (x, y, c)))
    compared, wrong = differences(cases)
    assert compared > 10_000
    assert not wrong, "\n".join(wrong)


def test_layouts_of_indexed_tensors_agree_with_eager() -> None:
    """The iterator looks at the indices too: of a dimension of one element that is first in memory, torch's meta kernel has the strides."""
    cases: list[Case] = []
    for seed in range(3000):
        rng = random.Random(seed)
        shape = [rng.choice((1, 1, 2, 3)) for _ in range(rng.choice((2, 3, 4)))]
        x = drawn(rng, shape, torch.float32)
        picked = [rng.choice((1, 2, 3)) for _ in range(rng.choice((1, 1, 2)))]
        y, c = (drawn(rng, picked, rng.choice((torch.int64, torch.int32))) for _ in range(2))
        for index in (y, c):
            index.untyped_storage().fill_(0)
        where = ", ".join(rng.choice(("None", "y", "c")) for _ in shape[: rng.choice((1, len(shape)))])
        for op in ("index.Tensor", "_unsafe_index.Tensor"):
            cases.append((f"{seed}: {op}(x, [{where}])", f"torch.ops.aten.{op}(x, [{where}])", (x, y, c)))
    compared, wrong = differences(cases)
    assert compared > 4000
    assert not wrong, "\n".join(wrong)
