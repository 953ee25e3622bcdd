"""What a tracer relies on: facts of fakes, conversion, devices, aliasing, autograd, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from dynamo.fake import DataDependent, FakeMode, FakeTensor, NoMeta, Unsupported
from tests.models.running import tensors

CUDA = torch.device("cuda", 0)


def on_gpu(*shape: int) -> FakeTensor:
    return torch.ops.aten.empty.memory_format(list(shape), device=CUDA)


def test_from_real_keeps_every_fact() -> None:
    real = torch.randn(4, 6, dtype=torch.float64)[1:, ::2].requires_grad_()
    fake = FakeMode().from_real(real)
    assert isinstance(fake, FakeTensor)
    assert (fake.shape, fake.stride(), fake.storage_offset()) == (real.shape, real.stride(), real.storage_offset())
    assert (fake.dtype, fake.device, fake.requires_grad, fake.is_leaf) == (real.dtype, real.device, True, True)
    assert not fake.is_meta and fake.is_cpu and fake.type() == real.type() and fake.grad is None


def test_from_real_is_memoised_and_shares_storage() -> None:
    mode, base = FakeMode(), torch.randn(10)
    view = base[2:5]
    fake, fake_view = mode.from_real(base), mode.from_real(view)
    assert mode.from_real(base) is fake
    assert fake_view.untyped_storage()._cdata == fake.untyped_storage()._cdata
    assert fake_view.storage_offset() == 2


def test_non_leaf_stays_non_leaf_and_is_no_view() -> None:
    real = torch.randn(3, requires_grad=True).view(3, 1) * 2
    fake = FakeMode().from_real(real)
    assert not fake.is_leaf and fake.grad_fn is not None and not fake._is_view()


def test_parameter_becomes_a_fake() -> None:
    assert FakeMode().from_real(torch.nn.Parameter(torch.ones(2))).requires_grad


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(2).to_sparse(),
        lambda: torch.nested.nested_tensor([torch.ones(2)]),
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
    ],
)
def test_unusual_tensors_are_refused(make: object) -> None:
    with pytest.raises(Unsupported):
        FakeMode().from_real(make())  # type: ignore[operator]


def test_views_and_in_place_like_eager() -> None:
    with FakeMode():
        x = torch.randn(3, 4)
        y = x.t()
        assert y._is_view() and y._base is x and y.stride() == (1, 4)
        before = x._version
        y.add_(1)
        assert x._version == before + 1
        x.t_()
        assert x.shape == (4, 3) and x.meta.shape == (4, 3)
        x.resize_(5, 5)
        assert x.shape == (5, 5)
        out = torch.empty(0)
        torch.add(x, 1, out=out)
        assert out.shape == (5, 5)
        out.set_(y)
        assert out.untyped_storage()._cdata == y.untyped_storage()._cdata


def test_data_setter_moves_both_halves() -> None:
    with FakeMode():
        x = torch.randn(3)
        x.data = torch.zeros(2, 2, dtype=torch.float64)
        assert (x + 1).shape == (2, 2) and (x + 1).dtype is torch.float64


def test_autograd_through_fakes() -> None:
    mode = FakeMode()
    w = mode.from_real(torch.randn(5, 4, requires_grad=True))
    with mode:
        loss = F.linear(torch.randn(2, 4), w).relu().sum()
        (grad,) = torch.autograd.grad(loss, w)
    assert grad.shape == (5, 4) and grad.device == w.device and not grad.requires_grad


def test_real_tensors_mix_in() -> None:
    with FakeMode():
        assert isinstance(torch.ones(2), FakeTensor)
    mode = FakeMode()
    real = torch.randn(3)
    with mode:
        assert isinstance(real + 1, FakeTensor)


def test_device_rule() -> None:
    with FakeMode():
        gpu, cpu = on_gpu(2, 3), torch.ones(2, 3)
        assert (gpu + torch.tensor(1.0)).device == CUDA
        assert (torch.tensor(1.0) * gpu).is_cuda
        assert gpu.cpu().is_cpu and torch.zeros_like(gpu).device == CUDA
        assert gpu.new_ones(2).device == CUDA
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            gpu + cpu
        assert gpu[torch.tensor([0, 1])].device == CUDA
        cpu.copy_(gpu)
        assert cpu.is_cpu


def test_gpu_autograd_needs_no_gpu() -> None:
    with FakeMode():
        x = on_gpu(2, 3).requires_grad_()
        (grad,) = torch.autograd.grad((x * 2).sum(), x)
        assert grad.device == CUDA


def test_constants_fold_until_written() -> None:
    with FakeMode():
        t = torch.tensor([1, 2, 3])
        assert t.constant is not None and t.tolist() == [1, 2, 3]
        assert torch.tensor(7).item() == 7 and bool(torch.tensor(True))
        t[0] = 5
        assert t.constant is None
        with pytest.raises(DataDependent):
            t.tolist()


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x.sum().item(),
        lambda x: bool(x.sum()),
        lambda x: x.nonzero(),
        lambda x: x.unique(),
        lambda x: x[x > 0],
        lambda x: torch.equal(x, x),
        lambda x: x.masked_select(x > 0),
        lambda x: x.repeat_interleave(torch.ones(3, dtype=torch.int64) * 2),
        lambda x: x.numpy(),
    ],
)
def test_value_questions_are_refused(use: object) -> None:
    with FakeMode(), pytest.raises(DataDependent):
        use(torch.randn(3))  # type: ignore[operator]


def test_custom_op_with_and_without_fake() -> None:
    with torch.library._scoped_library("fake_test", "FRAGMENT") as lib:
        lib.define("double(Tensor x) -> Tensor")
        lib.impl("double", lambda x: x * 2, "CPU")
        with FakeMode(), pytest.raises(NoMeta):
            torch.ops.fake_test.double(torch.ones(2))
        torch.library.register_fake("fake_test::double", lambda x: torch.empty_like(x), lib=lib)
        with FakeMode():
            assert torch.ops.fake_test.double(torch.ones(2, 3)).shape == (2, 3)


@pytest.mark.parametrize(
    "use",
    [
        lambda x, m: torch.histogram(x, 5, range=(-1.0, 1.0), density=True),
        lambda x, m: torch.geqrf(x),
        lambda x, m: torch.geqrf(x.t()),
        lambda x, m: torch.histogramdd(x, [3, 4, 2])[0],
        lambda x, m: torch._masked_softmax(x, m, -1),
    ],
)
def test_a_kernel_without_shapes_is_asked_with_zeros(use: Callable[..., Any]) -> None:
    x, m = torch.randn(4, 3), torch.zeros(4, 3, dtype=torch.bool)
    state = torch.get_rng_state()
    with FakeMode() as mode:
        found = use(mode.from_real(x), mode.from_real(m))
    assert torch.equal(torch.get_rng_state(), state)
    expected = use(x, m)
    for fake, real in zip(tensors(found), tensors(expected), strict=True):
        assert type(fake) is FakeTensor
        assert (fake.shape, fake.stride(), fake.dtype) == (real.shape, real.stride(), real.dtype)


@pytest.mark.parametrize(
    "use", [lambda x: x.to_sparse(), lambda x: x.to_sparse(1), lambda x: torch.ops.aten._to_sparse(x), lambda x: x.to_mkldnn()]
)
def test_kernels_that_make_other_tensors_have_no_fake(use: Callable[..., Any]) -> None:
    for x in (torch.randn(3, 4), torch.randn(1, 4).expand(3, 4)):
        with FakeMode() as mode, pytest.raises(NoMeta):
            use(mode.from_real(x))


def test_layouts_that_whole_numbers_tell_are_not_guessed() -> None:
    """How long the rows are is told by their lengths: zeros and ones give different results."""
    offsets, values = torch.tensor([0, 2, 5]), torch.randn(5, 2)
    with FakeMode() as mode, pytest.raises(NoMeta):
        torch.ops.aten._padded_dense_to_jagged_forward(mode.from_real(values.view(1, 5, 2)), [mode.from_real(offsets)])


def test_autocast_reaches_the_fake_device() -> None:
    with FakeMode():
        x = torch.randn(3, 3)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert (x @ x).dtype is torch.bfloat16


def test_inference_and_no_grad() -> None:
    mode = FakeMode()
    w = mode.from_real(torch.randn(4, 3, requires_grad=True))
    with mode, torch.no_grad():
        assert not (w * 2).requires_grad
    with mode, torch.inference_mode():
        y = F.linear(torch.randn(2, 3), torch.randn(4, 3))
        assert y.shape == (2, 4) and y.is_inference()


@pytest.mark.parametrize("use", [lambda: torch.ones(2, 3) + torch.ones(4), lambda: torch.ones(2, 3) @ torch.ones(4, 5)])
def test_shape_errors_are_eager_s(use: object) -> None:
    with pytest.raises(RuntimeError) as eager:
        use()  # type: ignore[operator]
    with FakeMode(), pytest.raises(RuntimeError) as fake:
        use()  # type: ignore[operator]
    assert str(fake.value)[:30] == str(eager.value)[:30]


def test_complex_and_fft_and_sdpa() -> None:
    with FakeMode():
        z = torch.randn(4, dtype=torch.complex64).conj()
        assert z.is_conj() and (z * 2).dtype is torch.complex64 and torch.fft.rfft(torch.ones(8)).shape == (5,)
        q = torch.randn(2, 4, 8, 16)
        assert F.scaled_dot_product_attention(q, q, q).shape == q.shape


def test_deepcopy_and_repr() -> None:
    import copy

    mode = FakeMode()
    x = mode.from_real(torch.ones(2, requires_grad=True))
    y = copy.deepcopy(x)
    assert y is not x and y.requires_grad and "FakeTensor((2,), torch.float32, cpu" in repr(y)
