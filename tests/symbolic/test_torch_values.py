"""Torch inside the symbolic interpreter, each program against eager: layers, optimizers, regions, modes, operators, attributes.

What a single call becomes is tested by the capture cases; here are the mechanisms that take several calls, gradients or state.
"""

from __future__ import annotations

import contextlib
import copy
import math
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

import dynamo
from dynamo.graph.transforms import _unit_matrices
from dynamo.symbolic.torch import policy

Tensor = torch.Tensor


@pytest.fixture(autouse=True)
def _same_modes() -> Iterator[None]:
    yield
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert torch.get_default_dtype() is torch.float32


def compiled(fn: Any, fullgraph: bool = True) -> Any:
    return dynamo.compile(fn, backend="eager", fullgraph=fullgraph)


def leaf(*shape: int) -> Tensor:
    return torch.randn(*shape, requires_grad=True)


def same(fn: Any, *args: Any, fullgraph: bool = True, calls: int = 1) -> Any:
    """Run a function or module eagerly and compiled on copies; compare results, gradients, parameters and buffers."""
    twin = copy.deepcopy(fn) if isinstance(fn, nn.Module) else fn
    run = compiled(twin, fullgraph)
    for _ in range(calls):
        ours, theirs = copy.deepcopy(args), copy.deepcopy(args)
        torch.manual_seed(1)
        expected = fn(*theirs)
        torch.manual_seed(1)
        actual = run(*ours)
        torch.testing.assert_close(actual, expected)
        if isinstance(expected, Tensor) and expected.requires_grad:
            expected.sum().backward()
            actual.sum().backward()
        for a, b in zip(_tensors(ours), _tensors(theirs), strict=True):
            torch.testing.assert_close(a.grad, b.grad)
    if isinstance(fn, nn.Module):
        for (name, p), q in zip(fn.named_parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(q.grad, p.grad, msg=lambda text, name=name: f"{name}: {text}")
        torch.testing.assert_close(list(twin.buffers()), list(fn.buffers()))
    return actual


def _tensors(args: tuple[Any, ...]) -> list[Tensor]:
    return [a for a in args if isinstance(a, Tensor)]


# ---- layers -----------------------------------------------------------------------------------------------

IMAGE = (2, 3, 6, 6)
SEQUENCE = (5, 2, 3)
LAYERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "LSTM": (lambda: nn.LSTM(3, 4, 2, bidirectional=True), SEQUENCE),
    "GRU": (lambda: nn.GRU(3, 4, batch_first=True), SEQUENCE),
    "RNN": (lambda: nn.RNN(3, 4), SEQUENCE),
    "LSTMCell": (lambda: nn.LSTMCell(3, 4), (2, 3)),
    "TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.1), 2),
        (2, 4, 8),
    ),
    "TransformerEncoder.eval": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval(), (2, 4, 8)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3), (5, 3)),
    "BatchNorm1d.eval": (lambda: nn.BatchNorm1d(3).eval(), (5, 3)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True), IMAGE),
    "circular Conv2d": (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), IMAGE),
    "ConvTranspose2d": (lambda: nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), IMAGE),
    "MaxPool2d with indices": (lambda: nn.MaxPool2d(2, return_indices=True), IMAGE),
    "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(2, output_size=3), IMAGE),
    "Dropout": (lambda: nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.AlphaDropout(0.2), nn.RReLU()), (5, 3)),
    "weight_norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), (5, 3)),
    "spectral_norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)), (5, 3)),
    "orthogonal": (lambda: nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)), (5, 3)),
    "spectral_norm as a hook": (lambda: nn.utils.spectral_norm(nn.Linear(3, 4)), (5, 3)),
}


def _encoder() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.1), 2)


@pytest.mark.parametrize("name", LAYERS)
def test_layer_is_one_graph(name: str) -> None:
    make, shape = LAYERS[name]
    same(make(), leaf(*shape), calls=2)


def test_embedding_bag() -> None:
    same(nn.EmbeddingBag(10, 3), torch.randint(0, 10, (2, 4)))


def test_attention_with_padding() -> None:
    m = nn.MultiheadAttention(8, 2, batch_first=True)
    same(lambda q, k: m(q, k, k, key_padding_mask=torch.zeros(2, 4, dtype=torch.bool))[0], leaf(2, 3, 8), leaf(2, 4, 8))


def test_transformer_with_causal_mask() -> None:
    m = nn.Transformer(8, 2, 1, 1, 16, batch_first=True, dropout=0.0)
    same(lambda s, t: m(s, t, tgt_mask=nn.Transformer.generate_square_subsequent_mask(3), tgt_is_causal=True), leaf(2, 4, 8), leaf(2, 3, 8))


def test_all_kinds_of_forward_hooks() -> None:
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    m.register_forward_pre_hook(lambda mod, args, kwargs: ((args[0] * 2,), kwargs), with_kwargs=True)
    m[0].register_forward_hook(lambda mod, args, kwargs, out: out + 1, with_kwargs=True, always_call=True)
    same(m, leaf(2, 3))


def test_global_forward_hook() -> None:
    hook = nn.modules.module.register_module_forward_hook(lambda mod, args, out: out + 1)
    try:
        same(nn.Linear(3, 3), leaf(2, 3))
    finally:
        hook.remove()
    same(nn.Linear(3, 3), leaf(2, 3))


def test_buffer_registered_in_forward() -> None:
    class M(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            self.register_buffer("seen", x.detach() * 2)
            return x + self.seen

    same(M(), leaf(2, 3))


def test_functional_call() -> None:
    m = nn.Linear(3, 3)
    same(lambda x: torch.func.functional_call(m, {"weight": torch.eye(3)}, (x,)), leaf(2, 3))
    assert isinstance(m.weight, nn.Parameter)


def test_module_and_parameter_made_inside() -> None:
    def f(x: Tensor) -> Any:
        p = nn.Parameter(x.detach() * 2)
        return (nn.Linear(3, 2)(x) + (p + x).sum()).detach(), isinstance(p, nn.Parameter), p.requires_grad

    same(f, leaf(2, 3), fullgraph=False)


def test_compiled_callables_are_inlined() -> None:
    g, m = compiled(lambda x: x * 2), compiled(nn.Tanh())
    same(lambda x: g(x) + m(x), leaf(2, 3))


# ---- optimizers -------------------------------------------------------------------------------------------

optim = torch.optim
OPTIMIZERS: list[tuple[Any, dict[str, Any]]] = [
    (optim.SGD, {"lr": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    (optim.SGD, {"lr": 0.1, "momentum": 0.9, "foreach": True}),
    (optim.Adam, {"lr": 0.01}),
    (optim.Adam, {"lr": 0.01, "foreach": True}),
    (optim.Adam, {"lr": 0.01, "amsgrad": True, "foreach": False}),
    (optim.Adam, {"lr": 0.01, "fused": True}),
    (optim.AdamW, {"lr": 0.01}),
    (optim.RMSprop, {"lr": 0.01}),
    (optim.Adagrad, {"lr": 0.01}),
    (optim.Adadelta, {}),
    (optim.NAdam, {}),
    (optim.RAdam, {}),
    (optim.Adamax, {}),
    (optim.ASGD, {}),
    (optim.Rprop, {}),
]


@pytest.mark.parametrize("cls, options", OPTIMIZERS, ids=lambda v: v.__name__ if isinstance(v, type) else " ".join(v))
def test_optimizer_step_is_one_graph(cls: Any, options: dict[str, Any]) -> None:
    eager = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    ours = copy.deepcopy(eager)
    x = torch.randn(5, 3)
    optimizers = [cls(m.parameters(), **options) for m in (eager, ours)]
    step, clear = compiled(lambda o: o.step()), compiled(lambda o: o.zero_grad())
    for _ in range(4):
        for m in (eager, ours):
            m(x).square().sum().backward()
        optimizers[0].step()
        step(optimizers[1])
        optimizers[0].zero_grad()
        clear(optimizers[1])
        assert all(p.grad is None for p in ours.parameters())
        for p, q in zip(eager.parameters(), ours.parameters(), strict=True):
            torch.testing.assert_close(q, p, rtol=1e-4, atol=1e-5)


def test_whole_training_step() -> None:
    def train(wrap: Callable[[Any], Any]) -> list[Tensor]:
        torch.manual_seed(0)
        m = nn.Linear(3, 2)
        optimizer = optim.SGD(m.parameters(), lr=0.1)

        def step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = m(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = wrap(step)
        return [run(torch.ones(5, 3)) for _ in range(3)]

    torch.testing.assert_close(train(lambda f: compiled(f, fullgraph=False)), train(lambda f: f))


def test_clip_grad_norm() -> None:
    eager = nn.Linear(3, 2)
    eager(torch.randn(5, 3)).sum().backward()
    ours = copy.deepcopy(eager)
    for p, q in zip(eager.parameters(), ours.parameters(), strict=True):
        q.grad = p.grad.clone()
    norm = compiled(lambda m: nn.utils.clip_grad_norm_(m.parameters(), 0.1))(ours)
    torch.testing.assert_close(norm, nn.utils.clip_grad_norm_(eager.parameters(), 0.1))
    torch.testing.assert_close(ours.weight.grad, eager.weight.grad)


# ---- checkpoints ------------------------------------------------------------------------------------------


class Count(TorchDispatchMode):
    """Counts the calls of one operator."""

    def __init__(self, op: Any) -> None:
        super().__init__()
        self.op = op
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += func is self.op
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_computes_again_in_backward(reentrant: bool) -> None:
    y = compiled(lambda x: checkpoint(lambda v: v.sin().exp(), x, use_reentrant=reentrant) * 2)(leaf(3))
    with Count(torch.ops.aten.sin.default) as count:
        y.sum().backward()
    assert count.calls == 1


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_of_a_module_with_dropout(reentrant: bool) -> None:
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.BatchNorm1d(4), nn.Linear(4, 3))

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.body, x, use_reentrant=reentrant) * 2

    same(M(), leaf(4, 3), calls=2)


def test_reentrant_checkpoint_without_gradient_in() -> None:
    m = nn.Linear(3, 3)
    y = compiled(lambda x: checkpoint(m, x, use_reentrant=True))(torch.randn(2, 3))
    assert not y.requires_grad


def test_checkpoint_with_keywords_and_nested_results() -> None:
    def body(x: Tensor, *, k: int, y: Tensor) -> Any:
        return {"a": x * k, "b": (x + y, k)}

    def f(x: Tensor, y: Tensor) -> Tensor:
        out = checkpoint(body, x, k=3, y=y, use_reentrant=False)
        return out["b"][0] * out["b"][1] + out["a"]

    same(f, leaf(2, 3), leaf(2, 3))


def test_nested_and_sequential_checkpoints() -> None:
    m = nn.Sequential(*(nn.Linear(3, 3) for _ in range(4)))

    def inner(x: Tensor) -> Tensor:
        return checkpoint(lambda y: m[0](y).sin(), x, use_reentrant=False) + m[1](x)

    same(lambda x: checkpoint(inner, x, use_reentrant=False), leaf(2, 3))
    same(lambda x: checkpoint_sequential(m, 2, x, use_reentrant=False), leaf(2, 3))


def test_checkpoint_region_is_marked_in_the_graph() -> None:
    nodes: list[Any] = []

    def backend(gm: torch.fx.GraphModule, _: Any) -> Any:
        nodes.extend(gm.graph.nodes)
        return gm

    dynamo.compile(lambda x: checkpoint(torch.sin, x, use_reentrant=False), backend=backend, fullgraph=True)(leaf(3))
    (region,) = [n for n in nodes if "checkpoint" in n.meta]
    assert region.meta["checkpoint"] == {"use_reentrant": False}


def test_checkpoint_with_effects_breaks() -> None:
    seen: list[int] = []

    def body(x: Tensor) -> Tensor:
        seen.append(1)
        return x.sin()

    def f(x: Tensor) -> Tensor:
        return checkpoint(body, x, use_reentrant=False) + 1

    with pytest.raises(dynamo.GraphBreakError, match="DD022"):
        compiled(f)(leaf(3))
    dynamo.reset()
    compiled(f, fullgraph=False)(leaf(3)).sum().backward()
    assert seen == [1, 1]


# ---- autograd functions -----------------------------------------------------------------------------------


class Scaled(torch.autograd.Function):
    """Takes an object, a dict and a flag besides a tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, owner: Any, config: dict[str, int], flag: bool = True) -> Tensor:
        ctx.config = config
        ctx.save_for_backward(x)
        return x * config["a"] + owner.k

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return g * ctx.config["a"] * x.cos(), None, None, None


class Owner:
    k = 2


def test_function_with_objects_as_arguments() -> None:
    owner = Owner()
    same(lambda x: Scaled.apply(x, owner, {"a": 3}), leaf(2, 3))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 2


def test_function_that_changes_its_input() -> None:
    def f(x: Tensor) -> Tensor:
        y = x * 1
        z = Doubled.apply(y)
        return z + y + (1 if z is y else 0)

    same(f, leaf(2, 3))


class Noisy(torch.autograd.Function):
    calls: list[int] = []

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        Noisy.calls.append(1)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 2


def test_function_with_effects_runs_once() -> None:
    f = compiled(lambda x: Noisy.apply(x.sin()) + 1, fullgraph=False)
    f(leaf(3)).sum().backward()
    assert Noisy.calls == [1]


def test_function_under_custom_autocast() -> None:
    class Cast(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * 2

    same(lambda x: Cast.apply(x), leaf(2, 3))


# ---- modes ------------------------------------------------------------------------------------------------


def test_inference_mode_around_a_layer() -> None:
    m = nn.Linear(3, 3)

    def f(x: Tensor) -> Any:
        with torch.inference_mode():
            y = m(x)
            inside = y.is_inference(), torch.is_inference_mode_enabled()
        return y.clone(), inside, torch.is_inference_mode_enabled()

    same(f, torch.randn(2, 3))


def test_inference_mode_across_a_break() -> None:
    def f(x: Tensor) -> Any:
        with torch.inference_mode():
            y = x * 2
            dynamo.graph_break()
            z = y + 1
        return z, torch.is_inference_mode_enabled(), z.is_inference(), y.is_inference()

    same(f, torch.randn(2, 3), fullgraph=False)


def test_graph_that_raises_leaves_modes_as_they_were() -> None:
    def f(x: Tensor, i: Tensor) -> Tensor:
        with torch.no_grad():
            return x[i]

    run = compiled(f)
    run(torch.randn(3), torch.tensor([0]))
    with pytest.raises(IndexError):
        run(torch.randn(3), torch.tensor([7]))
    assert torch.is_grad_enabled()


def test_autocast_of_a_network() -> None:
    class M(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))

        def forward(self, x: Tensor) -> Tensor:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.body(x)
            return y.float()

    same(M(), leaf(2, 3), calls=2)


def _deterministic(x: Tensor) -> Any:
    torch.use_deterministic_algorithms(True)
    inside = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(False)
    return x * 2, inside


def _default_dtype(x: Tensor) -> Any:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    y = torch.ones(3)
    torch.set_default_dtype(before)
    return y, torch.ones(2) + x.sum()


def _sdpa(q: Tensor) -> Tensor:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel([SDPBackend.MATH]):
        return F.scaled_dot_product_attention(q, q, q)


def _cudnn(x: Tensor) -> Tensor:
    with torch.backends.cudnn.flags(enabled=False):
        return x * 2


def _random_state(x: Tensor) -> Any:
    torch.manual_seed(5)
    a, state = torch.rand(3), torch.get_rng_state()
    b = torch.rand(3)
    torch.set_rng_state(state)
    with torch.random.fork_rng(devices=[]):
        c = torch.rand(3)
    return a + x.sum(), b, c, torch.rand(3)


@pytest.mark.parametrize("f", [_deterministic, _default_dtype, _sdpa, _cudnn, _random_state], ids=lambda f: f.__name__)
def test_mode(f: Any) -> None:
    same(f, leaf(1, 2, 4, 8))


def test_switch_of_a_backend_is_guarded() -> None:
    f = compiled(lambda x: x + 1 if torch.backends.cuda.math_sdp_enabled() else x - 1)
    x = torch.zeros(2)
    try:
        assert f(x)[0] == 1
        torch.backends.cuda.enable_math_sdp(False)
        assert f(x)[0] == -1
    finally:
        torch.backends.cuda.enable_math_sdp(True)
    assert f(x)[0] == 1


def test_tracing_draws_no_random_numbers() -> None:
    def f(x: Tensor) -> Tensor:
        torch.manual_seed(5)
        return x + torch.rand(3) + F.dropout(x, 0.5)

    before = torch.get_rng_state()
    with contextlib.suppress(RuntimeError):
        dynamo.compile(f, backend=_refuse, fullgraph=True)(torch.zeros(3))
    assert torch.equal(torch.get_rng_state(), before)


def _refuse(gm: Any, _: Any) -> Any:
    raise RuntimeError("not this one")


# ---- operators --------------------------------------------------------------------------------------------


def test_custom_operators() -> None:
    @torch.library.custom_op("dynamo_test::scale", mutates_args=())
    def scale(x: Tensor, k: int) -> Tensor:
        return x.clone() * k

    scale.register_fake(lambda x, k: torch.empty_like(x))
    scale.register_autograd(lambda ctx, g: (g * 3, None))

    @torch.library.custom_op("dynamo_test::bump", mutates_args=("x",))
    def bump(x: Tensor) -> None:
        x.add_(1)

    def f(x: Tensor) -> Tensor:
        y = x.detach() * 2
        bump(y)
        return scale(x, 3) + torch.ops.dynamo_test.scale(x, 3) + torch.ops.dynamo_test.scale.default(x, 3) + y

    same(f, leaf(2, 3))


def test_operator_overloads_and_scripted_functions() -> None:
    @torch.jit.script
    def scripted(x: Tensor) -> Tensor:
        return x * 2 + 1

    same(lambda x: torch.ops.aten.sin(x) + torch.ops.aten.add.Tensor(x, x, alpha=2) + scripted(x), leaf(2, 3))


def test_python_function_as_an_argument_is_inlined() -> None:
    def distance(a: Tensor, b: Tensor) -> Tensor:
        return (a - b).norm(dim=-1)

    same(lambda a: F.triplet_margin_with_distance_loss(a, a + 1, a * 2, distance_function=distance), leaf(2, 3))


def test_distributions() -> None:
    same(lambda x: torch.distributions.Normal(x, 1.0, validate_args=False).rsample() * 2, leaf(2, 3))
    same(lambda x: torch.distributions.Categorical(logits=x, validate_args=False).entropy(), leaf(2, 3))


def test_associative_scan_is_unrolled() -> None:
    from torch._higher_order_ops.associative_scan import associative_scan

    def f(a: Tensor, b: Tensor) -> Tensor:
        return associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (a, b), dim=1, combine_mode="generic")[1]

    a, b = torch.rand(2, 5), torch.rand(2, 5)
    expected = [b[:, 0]]
    for i in range(1, 5):
        expected.append(a[:, i] * expected[-1] + b[:, i])
    torch.testing.assert_close(compiled(f)(a, b), torch.stack(expected, 1))


def test_legacy_constructors_and_factories() -> None:
    def f(x: Tensor) -> Tensor:
        made = torch.FloatTensor([1, 2, 3]) + torch.Tensor([1.0, 2, 3]) + torch.as_tensor([1.0, 2, 3]) + torch.tensor(2)
        return made + x.new_tensor([1, 2, 3]) + x.new_full((3,), 2.0) + torch.zeros_like(torch.Tensor(3))

    same(f, torch.randn(2, 3))


def test_out_arguments() -> None:
    def f(x: Tensor) -> Any:
        out, values, indices = torch.empty(2, 3), torch.empty(2), torch.empty(2, dtype=torch.long)
        torch.mul(x, 2, out=out)
        torch.max(x, 1, out=(values, indices))
        return out, values, indices

    same(f, torch.randn(2, 3))


# ---- attributes of tensors --------------------------------------------------------------------------------


def test_in_place_result_is_the_tensor_itself() -> None:
    def f(x: Tensor) -> Any:
        y = x.add_(1)
        return y is x, x.contiguous() is x, x.to(x.dtype) is x, y * 2

    same(f, torch.randn(2, 3))


def test_requires_grad_of_locals_and_inputs() -> None:
    def f(x: Tensor) -> Any:
        w = torch.ones(3)
        w.requires_grad_()
        first = w.requires_grad
        w.requires_grad = False
        x.requires_grad_(True)
        return x * w, first, w.requires_grad, x.is_leaf

    same(f, torch.randn(2, 3), fullgraph=False)
    x = torch.randn(2, 3)
    compiled(f, False)(x)[0].sum().backward()
    assert x.grad is not None


def test_gradient_attribute() -> None:
    w = leaf(3)
    w.sum().backward()

    def f(x: Tensor) -> Any:
        g = w.grad
        w.grad = g * 2
        return x + g, w.grad is g

    result, same_object = compiled(f)(torch.zeros(3))
    assert not same_object
    torch.testing.assert_close(result, torch.ones(3))
    torch.testing.assert_close(w.grad, torch.full((3,), 2.0))


def test_user_attributes() -> None:
    def f(x: Tensor) -> Any:
        y = x * 2
        y.tag = 1
        x.other = y
        return y, hasattr(x, "missing"), getattr(x, "missing", 3), y.tag

    x = torch.randn(3)
    y, *rest = compiled(f)(x)
    assert rest == [False, 3, 1]
    assert x.other is y
    assert y.tag == 1


def test_data_is_replaced() -> None:
    def f(x: Tensor) -> Tensor:
        z = (x * 2).detach()
        z.data = x.detach() + 1
        return z

    same(f, torch.randn(2, 3))


# ---- builtin functions ------------------------------------------------------------------------------------


def test_builtin_functions_of_tensors_are_known_by_their_names() -> None:
    found = [getattr(space, name) for space in policy.SPACES for name in dir(space) if not name.startswith("__")]
    functions = [op for op in found if isinstance(op, types.BuiltinFunctionType)]
    assert len(functions) > 1000
    assert [op for op in functions if not policy.is_graph_op(op, op.__name__)] == []


@pytest.mark.parametrize("fn", [math.sin, len, torch._C._get_default_device, torch.Tensor.sin])
def test_other_functions_of_such_a_name_are_not_of_tensors(fn: Any) -> None:
    assert not policy.is_graph_op(fn, fn.__name__)


# ---- what must not happen ---------------------------------------------------------------------------------

_WITHOUT_PEER = """
import sys, torch, torch.nn as nn, dynamo
from torch.utils.checkpoint import checkpoint
m, x = nn.Linear(3, 3), torch.randn(2, 3, requires_grad=True)
def run(f, *args): return dynamo.compile(f, backend="eager", fullgraph=True)(*args)
def modes(x):
    with torch.autocast("cpu"), torch.inference_mode():
        return m(x)
for reentrant in (True, False):
    run(lambda x: checkpoint(m, x, use_reentrant=reentrant).sum(), x).backward()
run(modes, x)
for layer, shape in ((nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), (2, 4, 8)), (nn.LSTM(3, 4), (5, 2, 3))):
    run(layer, torch.randn(shape))
    run(layer.eval(), torch.randn(shape))
assert not {"torch._dynamo", "torch._inductor"} & set(sys.modules), "the peer was imported"
"""


def test_torch_s_own_compiler_is_not_loaded() -> None:
    subprocess.run([sys.executable, "-c", _WITHOUT_PEER], check=True)


@pytest.mark.parametrize("numels, chunk", [((3,), None), ((1, 2, 1), None), ((4, 0, 3), 2), ((2, 5), 7), ((0,), None), ((3, 3), 4)])
def test_unit_matrices_are_those_of_torch(numels: tuple[int, ...], chunk: int | None) -> None:
    own = torch.func.jacrev.__globals__["_chunked_standard_basis_for_"]
    tensors = [torch.ones(n, dtype=torch.float64) for n in numels]
    for ours, theirs in zip(_unit_matrices(tensors, numels, chunk), own(tensors, numels, chunk), strict=True):
        assert all(a.dtype is b.dtype and a.shape == b.shape and torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))
