"""Fakes against eager: every operator of torch's database, eight layouts, forward and backward."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("expecttest")

from dynamo.fake.pointwise_rules import words  # noqa: E402
from tests.fake.sweep import sweep  # noqa: E402

# ops whose answer depends on values, at least for one of the samples
DATA_DEPENDENT = words(
    """allclose argwhere bincount combinations corrcoef cov equal index_fill index_put item linalg.lstsq
    linalg.lstsq.grad_oriented masked_select narrow nn.functional.ctc_loss nn.functional.gaussian_nll_loss
    nn.functional.one_hot nonzero repeat_interleave unique unique_consecutive"""
)
# (op, kind): torch's own meta kernel is missing or lays the result out otherwise; values are never affected
KNOWN = frozenset(
    {
        ("geqrf", "no-meta"),
        ("histogram", "no-meta"),
        ("histogramdd", "no-meta"),
        ("max.reduction_no_dim", "facts"),
        ("min.reduction_no_dim", "facts"),
        ("ormqr", "facts"),
        ("fft.ihfft2", "facts"),
        ("fft.ihfftn", "facts"),
        ("tensor_split", "raised"),
        ("prod", "facts"),
        ("linalg.householder_product", "facts"),
    }
)
# the same of torch 2.11: quantile compares the range of q with aten.equal, the gradient of index_fill calls aten._unique, which
# has no meta kernel, and that of _fft_c2c gives a contiguous result where the kernel keeps the strides of its input
KNOWN_IN_2_11 = frozenset(
    {
        ("quantile", "data-dependent"),
        ("nanquantile", "data-dependent"),
        ("index_fill", "no-meta"),
        ("fft.fft2", "facts"),
        ("fft.fftn", "facts"),
        ("fft.ifft2", "facts"),
        ("fft.ifftn", "facts"),
    }
)
# the same since torch 2.15: gradients of what chooses fill in place, but out of place for tensors of a subclass, and that is row-major
CHOOSING = words("clamp clamp_max clamp_min fmax fmin max.binary maximum min.binary minimum")
KNOWN_SINCE_2_15 = frozenset((op, "facts") for op in CHOOSING)


def test_fakes_agree_with_eager() -> None:
    known = KNOWN
    if torch.__version__ < (2, 12):
        known |= KNOWN_IN_2_11
    if torch.__version__ >= (2, 15):
        known |= KNOWN_SINCE_2_15
    wrong = [
        f
        for f in sweep()
        if (f.op, f.kind) not in known and not (f.kind == "data-dependent" and f.op in DATA_DEPENDENT) and f.kind != "unsupported"
    ]
    assert not wrong, "\n".join(f"{f.op} {f.dtype} {f.kind}: {f.detail}" for f in wrong)
