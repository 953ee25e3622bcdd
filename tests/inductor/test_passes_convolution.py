"""Convolutions of inference: which are prepared or multiplied, that results and strides are eager's, that changed parameters are seen."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import dynamo
from dynamo import config, decisions
from inductor import _host
from inductor.compile import compile_graph
from inductor.passes.rewrite import rewrite
from inductor.runtime.layout import is_connected
from tests.inductor.helpers import assert_same

IMAGE = torch.randn(2, 6, 10, 9)
PACKED = "dynamo_debug.packed_convolution.default"


def inference(fn, x, parameters):
    """The graph of `fn(x, *parameters)` as the ahead-of-time stage hands it over when nothing needs a gradient."""
    gm = make_fx(fn, tracing_mode="fake")(x, *parameters)
    gm.meta |= {"is_inference": True, "static_inputs": list(range(1, 1 + len(parameters)))}
    return gm


def targets(fn, x, parameters):
    return [str(n.target) for n in rewrite(inference(fn, x, parameters)).graph.nodes if n.op == "call_function"]


def norm(x, mean, var, weight=None, bias=None, training=False):
    return torch.ops.aten.native_batch_norm(x, weight, bias, mean, var, training, 0.1, 1e-5)[0]


def conv(x, w, b=None, stride=1, padding=1, dilation=1, groups=1):
    return torch.ops.aten.convolution(x, w, b, [stride] * 2, [padding] * 2, [dilation] * 2, False, [0, 0], groups)


W, B, MEAN, VAR, GAMMA = torch.randn(8, 6, 3, 3), torch.randn(8), torch.randn(8), torch.rand(8) + 0.1, torch.randn(8)

FOLDED = {
    "plain": (lambda x, w: conv(x, w), (W,)),
    "bias": (lambda x, w, b: conv(x, w, b, stride=2), (W, B)),
    "norm": (lambda x, w, m, v: norm(conv(x, w), m, v), (W, MEAN, VAR)),
    "norm with weights": (lambda x, w, b, m, v, g: norm(conv(x, w, b), m, v, g, b).relu(), (W, B, MEAN, VAR, GAMMA)),
    "groups": (lambda x, w: conv(x, w, groups=2), (torch.randn(8, 3, 3, 3),)),
    "depthwise": (lambda x, w: conv(x, w, groups=6, dilation=2), (torch.randn(6, 1, 3, 3),)),
    "pointwise": (lambda x, w: conv(x, w, padding=0), (torch.randn(5, 6, 1, 1),)),
    "residual": (lambda x, w, m, v: (norm(conv(x, w), m, v) + x).relu(), (torch.randn(6, 6, 3, 3), MEAN[:6], VAR[:6])),
    "pool": (lambda x, w: torch.max_pool2d(conv(x, w).relu(), 3, 2, 1).mean((2, 3)), (W,)),
    "cat": (lambda x, w: torch.cat([conv(x, w), x], 1).sigmoid(), (W,)),
    "flatten": (lambda x, w: conv(x, w).relu().flatten(1) * 2, (W,)),
    "two outputs": (lambda x, w: (conv(x, w), conv(x, w).relu()), (W,)),
    "view and value": (lambda x, w: (lambda y: (y + 1, y.permute(0, 2, 3, 1) * 2))(conv(x, w)), (W,)),
    "pooled indices": (lambda x, w: torch.ops.aten.max_pool2d_with_indices(conv(x, w), [2, 2]), (W,)),
}


@pytest.mark.parametrize("name", FOLDED)
@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
def test_folded_convolutions_compute_the_same(name, form):
    fn, parameters = FOLDED[name]
    x = IMAGE.contiguous(memory_format=form)
    found = targets(fn, x, parameters)
    assert PACKED in found and "aten.convolution.default" not in found and "aten.native_batch_norm.default" not in found
    gm = inference(fn, x, parameters)
    with torch.no_grad():
        assert_same(compile_graph(gm, [x, *parameters])([x, *parameters]), fn(x, *parameters), rtol=1e-4, atol=1e-4)


PIXEL = torch.randn(3, 6, 1, 1)
FILTERS = torch.randn(8, 6, 1, 1)
MULTIPLIED = {
    "no bias": (lambda x, w: conv(x, w, padding=0), PIXEL, (FILTERS,)),
    "bias": (lambda x, w, b: conv(x, w, b, padding=0), PIXEL, (FILTERS, B)),
    "stride and dilation": (lambda x, w, b: conv(x, w, b, padding=0, stride=2, dilation=3).relu(), PIXEL, (FILTERS, B)),
    "weights that the graph computes": (lambda x, w: conv(x, w * 2, padding=0), PIXEL, (FILTERS,)),
    "norm": (lambda x, w, m, v: norm(conv(x, w, padding=0), m, v), PIXEL, (FILTERS, MEAN, VAR)),
    "view of the result": (lambda x, w: conv(x, w, padding=0).squeeze(3), PIXEL, (FILTERS,)),
    "expanded": (lambda x, w: conv(x.expand(4, 6, 1, 1), w, padding=0) + 1, PIXEL[:1], (FILTERS,)),
    "strided": (lambda x, w: conv(x[:, :, :1, 3:4], w[::2].transpose(2, 3), padding=0), IMAGE, (FILTERS,)),
    "squeeze and excite": (
        lambda x, w, v: x * conv(conv(x.mean((2, 3), keepdim=True), w, padding=0).relu(), v, padding=0).sigmoid(),
        IMAGE,
        (FILTERS, torch.randn(6, 8, 1, 1)),
    ),
}


@pytest.mark.parametrize("name", MULTIPLIED)
@pytest.mark.parametrize("form", [torch.contiguous_format, torch.channels_last])
def test_convolutions_of_one_pixel_are_products(name, form):
    fn, x, parameters = MULTIPLIED[name]
    x, parameters = x.to(memory_format=form), [p.to(memory_format=form) if p.dim() == 4 else p for p in parameters]
    found = targets(fn, x, parameters)
    assert {"aten.mm.default", "aten.addmm.default"} & set(found)
    assert not {PACKED, "aten.convolution.default"} & set(found)
    with torch.no_grad():  # strides are those of our own fakes: torch's have others for relu and norms of one pixel
        assert_same(dynamo.compile(fn, backend="inductor")(x, *parameters), fn(x, *parameters), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "fn, x, w",
    [
        (lambda x, w: conv(x, w, padding=1), PIXEL, FILTERS),  # eight pixels around it
        (lambda x, w: conv(x, w, padding=1), PIXEL, W),
        (lambda x, w: conv(x, w, padding=0), PIXEL.expand(3, 6, 1, 2), FILTERS),
        (lambda x, w: conv(x, w, padding=0, groups=2), PIXEL, FILTERS[:, :3]),
        (lambda x, w: conv(x, w, padding=0), PIXEL[:0], FILTERS),
        (lambda x, w: conv(x, w, padding=0), PIXEL.double(), FILTERS.double()),
    ],
)
def test_convolutions_that_are_no_products(fn, x, w):
    assert not {"aten.mm.default", "aten.addmm.default"} & set(targets(fn, x, (w,)))


@pytest.mark.parametrize(
    "fn, parameters",
    [
        (lambda x, w, m, v: norm(conv(x, w), m.clone(), v.clone(), training=True), (W, MEAN, VAR)),  # statistics of this batch
        (lambda x, w, m, v: (lambda y: norm(y, m, v) + y)(conv(x, w)), (W, MEAN, VAR)),  # the bare result is used too
        (lambda x, w, m, v: norm(conv(x, w), m * 2, v), (W, MEAN, VAR)),  # statistics that the graph computes
    ],
)
def test_norms_that_stay(fn, parameters):
    assert any("batch_norm" in t for t in targets(fn, IMAGE, parameters))


@pytest.mark.parametrize(
    "fn, x, parameters",
    [
        (lambda x, w: conv(x, w * 2), IMAGE, (W,)),  # weights that the graph computes
        (lambda x, w: conv(x.double(), w), IMAGE, (W.double(),)),
        (lambda x, w: torch.conv1d(x[:, :, 0], w), IMAGE, (torch.randn(8, 6, 3),)),
        (lambda x, w: torch.conv_transpose2d(x, w), IMAGE, (torch.randn(6, 8, 3, 3),)),
    ],
)
def test_convolutions_that_stay(fn, x, parameters):
    assert PACKED not in targets(fn, x, parameters)


def test_convolutions_of_arguments_and_of_training_stay():
    gm = inference(FOLDED["plain"][0], IMAGE, (W,))
    for meta in ({"static_inputs": []}, {"is_inference": False}):
        gm.meta |= meta
        assert PACKED not in rewrite(gm).code


def test_fuel():
    fn, parameters = FOLDED["norm"]
    with decisions.limited("-passes"):
        assert PACKED not in targets(fn, IMAGE, parameters)
    with decisions.limited("passes:0"):
        assert "aten.native_batch_norm.default" in targets(fn, IMAGE, parameters)
    fn, x, parameters = MULTIPLIED["bias"]
    with decisions.limited("-passes"):
        assert targets(fn, x, parameters) == ["aten.convolution.default"]


def block():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(6, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1)).eval()
    with torch.no_grad():
        module[1].running_mean.normal_()
        module[1].running_var.uniform_(0.5, 2)
    return module


def in_place(p):
    p.mul_(1.5)


def through_data(p):
    p.data[(0,) * p.dim()] += 1


def through_numpy(p):
    p.detach().numpy()[...] *= -1


def swapped(p):
    p.data = p.data.flip(0).clone()


@pytest.mark.parametrize("change", [in_place, through_data, through_numpy, swapped])
@pytest.mark.parametrize("name", ["0.weight", "1.running_mean", "1.running_var", "1.bias", "3.weight", "3.bias"])
def test_changed_parameters_are_seen(change, name):
    module = block()
    compiled = dynamo.compile(module, backend="inductor")
    changed = dict(module.named_parameters()) | dict(module.named_buffers())
    with torch.no_grad():
        for _ in range(2):
            assert_same(compiled(IMAGE), module(IMAGE), rtol=1e-4, atol=1e-4)
        change(changed[name])
        for _ in range(2):
            assert_same(compiled(IMAGE), module(IMAGE), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("size", [(1 << 19) - 1, 1 << 19, (1 << 19) + 1, 3_000_001, (1 << 21) + 32 * 1024])
def test_fingerprints_are_the_same_on_any_number_of_threads(size):
    assert is_connected()
    data, before = torch.randint(0, 256, (size,), dtype=torch.uint8), torch.get_num_threads()
    found = set()
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found |= {_host.fingerprint((data,), (size,)) for _ in range(20)}
    finally:
        torch.set_num_threads(before)
    assert len(found) == 1


def test_fingerprints_tell_large_contents_apart():
    size = 3_000_001
    data = torch.randint(0, 256, (size,), dtype=torch.uint8)
    found = {_host.fingerprint((data,), (size,))}
    places = [0, 32_767, 32_768, 65_536, size // 2, size - 2, size - 1]
    for place in places:  # one element of this part or that
        data[place] ^= 1
        found.add(_host.fingerprint((data,), (size,)))
        data[place] ^= 1
    swapped = torch.cat([data[65_536:131_072], data[:65_536], data[131_072:]])
    found.add(_host.fingerprint((swapped,), (size,)))
    found.add(_host.fingerprint((data,), (size - 1,)))
    assert len(found) == len(places) + 3


def test_freezing_trusts_the_parameters():
    module = block()
    with config.patch(freezing=True), torch.no_grad():
        compiled = dynamo.compile(module, backend="inductor")
        first = compiled(IMAGE)
        module[3].bias.add_(1)
        assert_same(compiled(IMAGE), first)


def test_gradients_keep_the_weights_as_they_are():
    module = block()
    compiled = dynamo.compile(module, backend="inductor")
    compiled(IMAGE).sum().backward()
    found = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    module(IMAGE).sum().backward()
    assert_same(found, [p.grad for p in module.parameters()], rtol=1e-4, atol=1e-4)


def test_nan_and_infinity_pass_through():
    x = IMAGE.clone()
    x[0, 0, 0, 0], x[1, 2, 5, 5] = torch.nan, torch.inf
    fn, parameters = FOLDED["norm with weights"]
    gm = inference(fn, x, parameters)
    assert_same(compile_graph(gm, [x, *parameters])([x, *parameters]), fn(x, *parameters), rtol=1e-4, atol=1e-4)
