"""The short forms of functions: how far they are from eager, and what they make of infinities and NaN."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from dynamo.trace import session
from inductor.ir.nest import Nest
from inductor.lowering.graph import lower_graph
from tests.inductor.helpers import assert_same, compiled
from tests.inductor.triton.seam import compiled_for, interpreted, kernels_of, refusals

SPECIAL = [math.inf, -math.inf, math.nan, 0.0, -0.0, 3e38, -3e38, 1e-30, -1e-30, 13.9, -13.9, 100.0, -100.0]


def values(dtype: torch.dtype) -> torch.Tensor:
    return torch.cat([torch.tensor(SPECIAL), torch.linspace(-9, 9, 4083)]).to(dtype)


def gelu(x: torch.Tensor) -> torch.Tensor:
    """As eager's kernel for GPUs has it; that for processors makes NaN of infinity."""
    wide = x.float()
    return (0.5 * wide * (1 + torch.erf(wide * math.sqrt(0.5)))).to(x.dtype)


FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "erf": torch.erf,
    "tanh": torch.tanh,
    "exp": torch.exp,
    "sigmoid": torch.sigmoid,
    "gelu": F.gelu,
    "gelu of tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_rounded_to_16_bits_is_one_of_the_nearest_two(name: str, dtype: torch.dtype) -> None:
    x = values(dtype)
    with interpreted():
        (found,) = compiled(lambda x: FUNCTIONS[name](x), [x])(x)
    expected = {"gelu": gelu}.get(name, FUNCTIONS[name])(x)
    torch.testing.assert_close(found, expected, rtol=1.01 * torch.finfo(dtype).eps, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", ["erf", "tanh"])
def test_float32_is_within_units_of_the_last_place(name: str) -> None:
    x = values(torch.float32)
    with interpreted():
        (found,) = compiled(lambda x: FUNCTIONS[name](x), [x])(x)
    torch.testing.assert_close(found.double(), FUNCTIONS[name](x.double()), rtol=3 * 2**-23, atol=1e-37, equal_nan=True)


def with_nan(x: torch.Tensor, *places: tuple[int, int]) -> torch.Tensor:
    for place in places:
        x[place] = math.nan
    return x


def with_large(x: torch.Tensor, value: float) -> torch.Tensor:
    """Has an element without a square in every row but the first, at the beginning or the end."""
    x[1, 5], x[2, -1] = value, -value
    return x


def log_sum(x: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(x, -1)


LONG: dict[str, tuple[Callable[..., object], list[torch.Tensor]]] = {
    "argmax of floats": (lambda x: x.argmax(-1), [with_nan(torch.randn(4, 9001), (1, 77), (1, 8999), (2, 9000))]),
    "argmin of whole numbers": (lambda x: x.argmin(-1), [torch.randint(-50, 50, (3, 8192))]),
    "argmax of equal numbers": (lambda x: x.argmax(-1), [torch.full((2, 6000), -math.inf)]),
    "argmax over everything": (lambda x: (x.argmax(), *x.max(1)), [torch.randn(3, 5000)]),
    "moments": (lambda x: torch.var_mean(x, -1), [torch.randn(3, 40001) + 100]),
    "moments of what has no square": (lambda x: torch.var(x, -1), [with_large(torch.randn(3, 40001), 1e25)]),
    "moments of doubles that have no square": (lambda x: torch.var(x, -1), [with_large(torch.randn(3, 5001).double(), 1e173)]),
    "moments of columns that have no square": (lambda x: torch.var(x.t(), 0), [with_large(torch.randn(3, 5001), 1e25)]),
    "moments of short rows that have no square": (lambda x: torch.var(x, -1), [with_large(torch.randn(3, 301), 1e25)]),
    "layer norm": (lambda x, w, b: F.layer_norm(x, (4104,), w, b), [torch.randn(3, 4104) * 3 + 50, torch.randn(4104), torch.randn(4104)]),
    "layer norm of bfloat16": (lambda x: F.layer_norm(x, (9000,)), [(torch.randn(2, 9000) + 5).bfloat16()]),
    "log of a sum of powers": (log_sum, [with_nan(torch.randn(3, 40000) * 30, (1, 7))]),
    "of infinities": (log_sum, [torch.tensor([[math.inf], [-math.inf]]).expand(2, 33000).contiguous()]),
    "odd rows": (lambda x: torch.softmax(x, -1), [torch.randn(8, 3001).bfloat16()]),
    "short odd rows": (lambda x: (torch.softmax(x, -1), x.exp() - x.sum(-1, keepdim=True)), [torch.randn(8, 1001).bfloat16()]),
    "odd rows of two types": (lambda x, y: (torch.softmax(x * y, -1), x + y), [torch.randn(8, 1001), torch.randn(8, 1001).bfloat16()]),
    "odd rows that are walked": (lambda x: (torch.softmax(x, -1), x.amax(-1)), [torch.randn(16, 4101).half()]),
    "the ends of odd rows": (lambda x: (x * 2 - x.sum(-1, keepdim=True), x.argmax(-1)), [torch.eye(8, 6145).flip(1) - torch.eye(8, 6145)]),
    "odd rows with weights": (lambda x, w: F.layer_norm(x, (5003,), w), [torch.randn(8, 5003) + 9, torch.randn(5003)]),
    "the log of odd rows": (log_sum, [torch.randn(8, 50257).bfloat16()]),
    "two rows in one": (lambda x, y: torch.softmax(x + y, -1) * y, [torch.randn(3, 5000), torch.randn(3, 5000)]),
}


@pytest.mark.parametrize("name", LONG)
def test_long_rows(name: str) -> None:
    fn, given = LONG[name]
    with interpreted(), session() as store:
        found = compiled(fn, given)(*given)
    assert_same(found, fn(*given))
    assert refusals(store) == []


def test_a_row_of_two_tiles_has_no_loop_without_iterations() -> None:
    ((_, text),) = kernels_of(lambda x: torch.softmax(x, -1), [torch.randn(264, 5027)])

    assert "edge" in text
    assert re.findall(r"range\((\d+), \1,", text) == []


def nll_gradient(x: torch.Tensor, t: torch.Tensor, g: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Of cross entropy: every row has one gradient that is not zero, and the sum of them."""
    picked = torch.ops.aten.nll_loss_backward(g, x, t, None, 2, 3, w)
    return torch.ops.aten._log_softmax_backward_data(picked, x, 1, x.dtype)


def test_a_sum_of_one_value_needs_no_loop() -> None:
    torch.manual_seed(0)
    x, t = torch.log_softmax(torch.randn(160, 4001), -1), torch.tensor([0, 4000, 3, 17, 3, 4, 2047, 2048] * 20)
    given = [x, t, torch.tensor(2.0), torch.tensor(6.0)]
    (_, text), *rest = kernels_of(nll_gradient, given)
    assert not rest
    assert "tl.reduce" not in text
    with session() as store, interpreted():
        (found,) = compiled(nll_gradient, given)(*given)
    assert refusals(store) == []
    torch.testing.assert_close(found, nll_gradient(*given))


def test_a_sum_of_what_is_not_read_is_over_plain_rows() -> None:
    """In pieces Triton makes it anew for the edges, a minute per kernel."""

    def fn(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return x - (torch.arange(x.shape[1]) < n.unsqueeze(1)).float().sum(1, keepdim=True)

    ((kernel, _),) = kernels_of(fn, [torch.empty(600, 9001), torch.empty(600, dtype=torch.int64)])
    assert kernel.granule is None


def test_one_value_is_not_rounded_in_pairs(tmp_path: Path) -> None:
    for _, text in kernels_of(lambda x: x.sum() / 5, [torch.empty(5, dtype=torch.bfloat16)]):
        assert compiled_for(text, 90, tmp_path) is not None
        assert "round_bf16" not in text


def test_log_softmax_of_a_gpu_keeps_its_sums() -> None:
    """Eager's kernel for processors rounds them to the type of the result."""
    casts = []
    for device in ("cpu", "cuda:0"):
        with FakeTensorMode():
            gm = make_fx(lambda x: torch.log_softmax(x, -1))(torch.empty(5, 5, dtype=torch.bfloat16, device=device))
        program, _ = lower_graph(gm, device)
        casts.append(sum(e.op == "cast" and e.type == "bf16" for step in program.steps if isinstance(step, Nest) for e in step.exprs()))
    assert casts == [3, 1]


POWERS: dict[str, Callable[[torch.Tensor], torch.Tensor | tuple[torch.Tensor, ...]]] = {
    "softmax": lambda x: x.softmax(1),
    "scaled": lambda x: (x * 0.5 + 1).softmax(1),
    "log softmax": lambda x: x.log_softmax(1),
    "with another sum": lambda x: (x.softmax(1), x.sum(1), x.argmax(1), x.cumsum(1)),
    "over another value": lambda x: (x - x[:, :1] + 3).exp().sum(1),
    "of less than all": lambda x: F.pad(x, (0, 5), value=0.5).softmax(1),
}


@pytest.mark.parametrize("columns", [5, 511, 515, 1001, 1032, 3001])
@pytest.mark.parametrize("name", POWERS)
def test_what_lies_behind_a_row_changes_no_power(name: str, columns: int) -> None:
    """Rows with infinities and NaN, among them one that is infinite throughout."""
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(16, columns).to(dtype)
        x[1], x[2, 3], x[3, 4], x[4, 0], x[5, columns - 1] = -math.inf, -math.inf, math.inf, math.nan, math.inf
        x[6], x[7, 0] = -1e30, -math.inf
        with interpreted():
            found = compiled(lambda x: POWERS[name](x), [x])(x)
        expected = POWERS[name](x)
        for f, e in zip(found, expected if isinstance(expected, tuple) else [expected], strict=True):
            tolerance = 1e-5 if dtype is torch.float32 else 0.02
            torch.testing.assert_close(f, e, rtol=tolerance, atol=tolerance, equal_nan=True)


def test_a_value_read_before_is_not_read_again_under_a_condition() -> None:
    given = [torch.randn(2048, 4096), torch.randint(0, 4096, (2048,))]
    texts = [text for _, text in kernels_of(lambda x, t: F.cross_entropy(x, t, reduction="none"), given)]
    (loads,) = {text.count("tl.load(in1 + x") for text in texts}
    assert loads == 1
