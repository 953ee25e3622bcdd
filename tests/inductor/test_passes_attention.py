"""Written-out attention: which forms are found, which near misses are not, and that results and gradients are eager's."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dynamo
from dynamo import decisions
from dynamo.trace import session
from dynamo.trace.events import Decided
from tests.inductor.helpers import assert_same

B, H, L, D = 2, 3, 5, 8
CAUSAL = torch.zeros(L, L).masked_fill(torch.ones(L, L).triu(1).bool(), torch.finfo(torch.float32).min)
LATER = torch.ones(L, L).triu(1).bool()


def heads(needs_grad=False):
    torch.manual_seed(0)
    return [torch.randn(B, H, L, D).requires_grad_(needs_grad) for _ in range(3)]


def fused(fn, *args):
    """How many attentions were fused."""
    with session() as store:
        dynamo.compile(fn, backend="inductor")(*args)
    return len({d.what for d in store.of(Decided) if d.stage == "passes" and d.what.startswith("attention") and d.taken})


def nano_gpt(q, k, v):
    att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
    att = att.masked_fill(LATER, float("-inf"))
    att = F.softmax(att, dim=-1)
    att = F.dropout(att, 0.0)
    return (att @ v).transpose(1, 2).contiguous().view(B, L, H * D)


def bert(q, k, v):
    scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(D)
    scores = scores + CAUSAL[None, None]
    probs = nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    probs = nn.functional.dropout(probs, p=0.1, training=False)
    return torch.matmul(probs, v).transpose(1, 2).contiguous()


def gpt2(q, k, v):
    scores = torch.matmul(q, k.transpose(-1, -2)) * 0.125
    probs = F.softmax(scores + CAUSAL, dim=-1).type(v.dtype)
    return torch.matmul(probs, v).transpose(1, 2).reshape(B, L, H * D)


FORMS = {
    "nanoGPT": nano_gpt,
    "bert": bert,
    "gpt2": gpt2,
    "no scale": lambda q, k, v: (q @ k.mT).softmax(-1) @ v,
    "scaled queries": lambda q, k, v: torch.softmax((q / 3) @ k.permute(0, 1, 3, 2), -1) @ v,
    "two scales": lambda q, k, v: (2 * (q @ k.mT) / 5).softmax(-1) @ v,
    "mask first": lambda q, k, v: (CAUSAL + q @ k.mT / 2).softmax(-1) @ v,
    "two masks": lambda q, k, v: ((q @ k.mT / 2 + CAUSAL).masked_fill(LATER, -1e38)).softmax(3) @ v,
    "in place": lambda q, k, v: (q @ k.mT).mul_(0.5).masked_fill_(LATER, -math.inf).softmax(-1) @ v,
    "one tensor": lambda q, k, v: (q @ q.mT).softmax(-1) @ q,
    "viewed": lambda q, k, v: ((q @ k.mT).softmax(-1) @ v).view(B * H, L, D),
    "longer keys": lambda q, k, v: (q[:, :, :2] @ k.mT).softmax(-1) @ v,
    "twice": lambda q, k, v: (((q @ k.mT).softmax(-1) @ v) @ k.mT).softmax(-1) @ v,
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("needs_grad", [False, True])
def test_forms_are_fused(name, needs_grad):
    fn = FORMS[name]
    q, k, v = heads(needs_grad)
    with torch.set_grad_enabled(needs_grad):
        expected = fn(q, k, v)
        assert fused(fn, q, k, v) == (2 if name == "twice" else 1)
        found = dynamo.compile(fn, backend="inductor")(q, k, v)
    assert_same(found, expected, rtol=1e-5, atol=1e-5)
    if needs_grad:
        wanted = [t for t in (q, k, v) if t is q or name != "one tensor"]
        weights = torch.randn_like(expected)
        assert_same(
            torch.autograd.grad((found * weights).sum(), wanted),
            torch.autograd.grad((expected * weights).sum(), wanted),
            rtol=1e-4,
            atol=1e-5,
            strides=False,  # autograd promises no layout of gradients
        )


def biased(q, k, v):
    return ((q @ k.mT) + q.mean() * CAUSAL.clamp(min=-1)).softmax(-1) @ v


NEAR_MISSES = {
    "other dim": lambda q, k, v: (q @ k.mT).softmax(-2) @ v,
    "probabilities are returned": lambda q, k, v: (lambda p: (p @ v, p))((q @ k.mT).softmax(-1)),
    "scores are used again": lambda q, k, v: (lambda s: s.softmax(-1) @ v + s.sum())(q @ k.mT),
    "mask is scaled": lambda q, k, v: ((q @ k.mT + CAUSAL.clamp(min=-9)) * 2).softmax(-1) @ v,
    "fills with a near value": lambda q, k, v: (q @ k.mT).masked_fill(LATER, -5.0).softmax(-1) @ v,
    "scaled by a tensor": lambda q, k, v: ((q @ k.mT) * q.mean()).softmax(-1) @ v,
    "other dtype of the softmax": lambda q, k, v: (q @ k.mT).softmax(-1, dtype=torch.float64).float() @ v,
    "double": lambda q, k, v: (q.double() @ k.double().mT).softmax(-1) @ v.double(),
    "three dims": lambda q, k, v: (q[0] @ k[0].mT).softmax(-1) @ v[0],
    "shared heads": lambda q, k, v: (q @ k[:, :1].mT).softmax(-1) @ v,
    "other head size": lambda q, k, v: (q @ k.mT).softmax(-1) @ v[..., :4],
    "probabilities on the right": lambda q, k, v: v.mT @ (q @ k.mT).softmax(-1),
    "keys change meanwhile": lambda q, k, v: (lambda c: (lambda s: (c.add_(1), s.softmax(-1) @ c)[1])(q @ c.mT))(k * 1),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_stay(name):
    fn = NEAR_MISSES[name]
    q, k, v = heads()
    assert fused(fn, q, k, v) == 0
    assert_same(dynamo.compile(fn, backend="inductor")(q, k, v), fn(q, k, v), rtol=1e-5, atol=1e-5)


def test_a_mask_with_a_gradient_stays():
    q, k, v = heads(needs_grad=True)
    assert fused(biased, q, k, v) == 0


def test_dropout_of_training_stays():
    q, k, v = heads()
    assert fused(lambda q, k, v: F.dropout((q @ k.mT).softmax(-1), 0.5) @ v, q, k, v) == 0


def test_fuel():
    q, k, v = heads()
    with decisions.limited("-passes"):
        assert fused(gpt2, q, k, v) == 0
        assert_same(dynamo.compile(gpt2, backend="inductor")(q, k, v), gpt2(q, k, v), rtol=1e-5, atol=1e-5)


def test_strides_are_those_of_the_calls():
    q, k, v = heads()
    fn = FORMS["no scale"]
    assert dynamo.compile(fn, backend="inductor")(q, k, v).stride() == fn(q, k, v).stride()
