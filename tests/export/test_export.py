"""What an exported graph promises besides its values: checks with names, options, stacks, state, and the hand-over to torch.export."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

import dynamo
from dynamo.export import ArgumentError, ExportError
from tests.export.forms import FORMS, Box, Frozen, Pair, Point

pytestmark = pytest.mark.timeout(120)
ONES = torch.ones(2)


def scaled(x: torch.Tensor, d: Any, *rest: Any, k: int = 2, how: str = "sum", **named: Any) -> Any:
    y = x * k + d["y"]
    for r in rest:
        y = y + r
    for n in named.values():
        y = y + n
    return y.sum() if how == "sum" else y


# ---- wrong arguments ----------------------------------------------------------------------------------------

WRONG: dict[str, tuple[Any, Any, str]] = {
    "shape": ((ONES, {"y": ONES}), ((torch.ones(3), {"y": ONES}), {}), r"x: expected a tensor float32\[2\] on cpu, got float32\[3\]"),
    "dtype": ((ONES, {"y": ONES}), ((ONES, {"y": ONES.double()}), {}), r"d\['y'\]: expected a tensor float32\[2\] .* got float64"),
    "device": ((ONES, {"y": ONES}), ((ONES.to("meta"), {"y": ONES}), {}), "x: .* on cpu, got .* on meta"),
    "no tensor": ((ONES, {"y": ONES}), ((ONES, {"y": 3}), {}), r"d\['y'\]: expected a tensor .*, got a int"),
    "container": ((ONES, {"y": ONES}), ((ONES, [ONES]), {}), "d: expected a dict, got a list"),
    "key": ((ONES, {"y": ONES}), ((ONES, {"z": ONES}), {}), r"d: expected keys \['y'\], got keys \['z'\]"),
    "number": ((ONES, {"y": ONES}), ((ONES, {"y": ONES}), {"k": 3}), "k: expected 2, got 3"),
    "string": ((ONES, {"y": ONES}), ((ONES, {"y": ONES}), {"how": "no"}), "how: expected 'sum', got 'no'"),
    "more items": ((ONES, {"y": ONES}, ONES), ((ONES, {"y": ONES}, ONES, ONES), {}), "rest: expected 1 item, got 2 items"),
    "item": ((ONES, {"y": ONES}, ONES), ((ONES, {"y": ONES}, torch.ones(1)), {}), r"rest\[0\]: expected a tensor"),
    "other name": ((ONES, {"y": ONES}), ((ONES, {"y": ONES}), {"w": ONES}), r"named: expected keys \[\], got keys \['w'\]"),
}


@pytest.mark.parametrize("aten_graph", [False, True], ids=["captured", "aten"])
@pytest.mark.parametrize("what", WRONG)
def test_the_wrong_argument_is_named(what: str, aten_graph: bool) -> None:
    example, (args, kwargs), words = WRONG[what]
    gm, _ = dynamo.export(scaled, *example, aten_graph=aten_graph)
    with pytest.raises(ArgumentError, match=f"argument {words}") as caught:
        gm(*args, **kwargs)
    assert caught.value.id == "EXP001" and "\n" not in str(caught.value)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    ("f", "good", "bad", "words"),
    [
        (lambda p: p.x * p.y, Point(ONES, 3), Point(ONES, 4), "p.y: expected 3, got 4"),
        (lambda p: p.t * p.scale, Frozen(ONES, 2.0), Frozen(torch.ones(1), 2.0), r"p\.t: expected a tensor float32\[2\]"),
        (lambda p: p.u * 2, Pair(ONES, 1), (ONES, 1), "p: expected a Pair, got a tuple"),
        (lambda b: b.t * b.k, Box(ONES, 2), Box(ONES, 3), "b.k: expected 2, got 3"),
        (lambda b: ONES * b.k, Box(None, 2), Box(None, 3), "b.k: expected == 2, got 3"),
        (lambda x: x + 1 if x.requires_grad else x, ONES, ONES.clone().requires_grad_(), "requires_grad=False"),
        (lambda x: x + 1 if x.is_contiguous() else x, torch.ones(2, 2), torch.ones(2, 2)[:, :1].expand(2, 2), r"strides \[2, 1\]"),
    ],
    ids=[
        "dataclass value",
        "dataclass tensor",
        "named tuple",
        "attribute",
        "attribute of an object",
        "asked for gradients",
        "asked for strides",
    ],
)
def test_facts_inside_objects_are_checked(f: Any, good: Any, bad: Any, words: str) -> None:
    gm, _ = dynamo.export(f, good)
    gm(good)
    with pytest.raises(ArgumentError, match=words):
        gm(bad)


def test_facts_that_nobody_asked_for_are_not_checked() -> None:
    gm, _ = dynamo.export(lambda x: x * 2, torch.ones(2, 2))
    weights = torch.ones(2, 2).t().requires_grad_()
    gm(weights).sum().backward()
    assert weights.grad is not None


def test_two_arguments_that_were_one_object_must_be() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y if x is y else x - y

    gm, _ = dynamo.export(f, ONES, ONES)
    torch.testing.assert_close(gm(ONES, ONES), ONES * 2)
    with pytest.raises(ArgumentError, match="argument y: expected the same object as x"):
        gm(ONES, ONES.clone())
    gm, _ = dynamo.export(f, ONES, ONES.clone())
    with pytest.raises(ArgumentError, match="argument y: expected another object than x"):
        gm(ONES, ONES)


def test_two_arguments_that_happened_to_be_one_object_need_not_be() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * y

    gm, _ = dynamo.export(f, ONES.clone(), *[ONES.clone()])
    for same in (True, False):
        x, own = torch.full((2,), 3.0), torch.full((2,), 3.0)
        found, expected = gm(x, x if same else ONES), f(own, own if same else ONES)
        torch.testing.assert_close(found, expected)
    gm, _ = dynamo.export(lambda x, y: x - y, ONES, ONES)
    torch.testing.assert_close(gm(ONES, ONES * 3), ONES * -2)


def test_an_aten_graph_that_writes_refuses_shared_memory() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * y

    gm, _ = dynamo.export(f, ONES.clone(), ONES, aten_graph=True)
    x = ONES.clone()
    with pytest.raises(ArgumentError, match="argument y: expected other memory than that of x"):
        gm(x, x)


def test_python_itself_refuses_a_call_that_does_not_fit_the_signature() -> None:
    gm, _ = dynamo.export(scaled, ONES, {"y": ONES})
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'd'"):
        gm(ONES)


# ---- what can't be exported ---------------------------------------------------------------------------------

LOG: list[int] = []


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        return x


class OtherShape(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("b", torch.zeros(1))

    def forward(self, x: Any) -> Any:
        self.b = x + 1
        return x


@pytest.mark.parametrize(
    ("f", "words"),
    [
        (lambda x: LOG.append(1), "changes .*LOG"),
        (lambda x: setattr(x, "note", 1), "changes x"),
        (Counts(), "changes Counts.calls|changes .*calls"),
        (OtherShape(), "changes .*b"),
        (lambda x: lambda: x, "the result holds function"),
        (lambda x: x.view(7), "raises for these inputs"),
    ],
    ids=["global list", "attribute of a tensor", "attribute of a module", "buffer of another shape", "function as a result", "exception"],
)
def test_what_cannot_be_exported_says_so(f: Any, words: str) -> None:
    with pytest.raises(ExportError, match=words + r".*\[DD094\]"):
        dynamo.export(f, ONES)
    assert LOG == []


def test_a_break_is_the_error_of_fullgraph() -> None:
    with pytest.raises(dynamo.GraphBreakError, match="data-dependent branch"):
        dynamo.export(lambda x: x + 1 if x.sum() > 0 else x, ONES)


def test_exporting_changes_nothing() -> None:
    module = nn.BatchNorm1d(2)
    before = {k: v.clone() for k, v in module.state_dict().items()}
    state = torch.get_rng_state()
    x = torch.randn(3, 2)
    copy = x.clone()
    torch.set_rng_state(state)
    dynamo.export(lambda x: module(x.add_(1)) + torch.rand(3, 2), x)
    assert torch.equal(torch.get_rng_state(), state) and torch.equal(x, copy)
    assert all(torch.equal(before[k], v) for k, v in module.state_dict().items())


# ---- options ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tracing_mode", ["symbolic", "fake", "real"])
def test_tracing_modes_are_accepted(tracing_mode: str) -> None:
    gm, _ = dynamo.export(torch.sin, ONES, tracing_mode=tracing_mode, assume_static_by_default=True)
    torch.testing.assert_close(gm(ONES), ONES.sin())


def test_unknown_tracing_mode() -> None:
    with pytest.raises(ValueError, match="tracing_mode is symbolic, fake or real"):
        dynamo.export(torch.sin, ONES, tracing_mode="no")


def test_decomposition_table() -> None:
    def silu(x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(x)

    f = nn.functional.silu
    plain, _ = dynamo.export(f, ONES, aten_graph=True)
    split, _ = dynamo.export(f, ONES, aten_graph=True, decomposition_table={torch.ops.aten.silu.default: silu})
    targets = [[n.target for n in gm.graph.nodes if n.op == "call_function"] for gm in (plain, split)]
    assert targets[0] == [torch.ops.aten.silu.default]
    assert targets[1] == [torch.ops.aten.sigmoid.default, torch.ops.aten.mul.Tensor]
    torch.testing.assert_close(split(ONES), plain(ONES))


def test_gradients_go_through_both_graphs() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.GELU(), nn.LayerNorm(3))
    x = torch.randn(4, 2, requires_grad=True)
    expected = torch.autograd.grad(module(x).sin().sum(), [x, *module.parameters()])
    for aten_graph in (False, True):
        gm, _ = dynamo.export(module, x, aten_graph=aten_graph)
        found = torch.autograd.grad(gm(x).sin().sum(), [x, *gm.parameters()])
        torch.testing.assert_close(found, expected)


def test_an_aten_graph_never_gives_gradients_that_the_program_cut() -> None:
    def f(x: torch.Tensor) -> Any:
        return x.detach() * 2, x * 3

    x = torch.ones(2, requires_grad=True)
    gm, _ = dynamo.export(f, x, aten_graph=True)
    assert [t.requires_grad for t in gm(x)] == [False, False]
    assert not gm.graph._codegen.call.has_gradients


# ---- the graph ----------------------------------------------------------------------------------------------


def inner(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1  # a line of the user's


@pytest.mark.parametrize("aten_graph", [False, True], ids=["captured", "aten"])
def test_nodes_know_the_lines_of_the_user(aten_graph: bool) -> None:
    gm, _ = dynamo.export(lambda x: inner(x) * 2, ONES, aten_graph=aten_graph)
    stacks = [n.meta["stack_trace"] for n in gm.graph.nodes if n.op.startswith("call_")]
    assert len(stacks) == 3 and all("test_export.py" in s for s in stacks)
    assert "in inner" in stacks[0] and "# a line of the user's" in stacks[0]
    assert stacks[0].index("test_nodes_know") < stacks[0].index("in inner")
    assert "call of" not in stacks[0]


def test_state_has_the_names_and_the_order_of_the_module() -> None:
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).eval()
    module.register_buffer("unused", torch.zeros(1))
    module.register_buffer("passing", torch.zeros(1), persistent=False)
    gm, _ = dynamo.export(module.forward, torch.ones(3, 2))
    for exported in (gm, dynamo.export(module[:2].eval(), torch.ones(3, 2)).graph_module):
        assert [n for n in exported.state_dict() if n != "unused"] == [n for n in module.state_dict() if n != "unused"]
        assert [n for n, _ in exported.named_parameters()] == [n for n, _ in module.named_parameters()]
    gm.load_state_dict(module.state_dict())
    assert "passing" in dict(gm.named_buffers())


def test_guards_come_as_data() -> None:
    _, guards = dynamo.export(scaled, ONES, {"y": ONES}, k=2)
    assert ("d['y']", "Tensor float32[2] stride [1] on cpu") in guards
    assert ("k", "== 2") in guards
    assert any(source == "global state" for source, _ in guards)
    assert any(source.startswith("scaled") for source, _ in guards)


def test_interpreters_run_the_graph() -> None:
    gm, _ = dynamo.export(scaled, ONES, {"y": ONES})
    torch.testing.assert_close(torch.fx.Interpreter(gm).run(ONES, {"y": ONES}), gm(ONES, {"y": ONES}))


@pytest.mark.parametrize("name", ["positional", "list, tuple and dict", "dataclass", "module with parameters", "stars", "modes"])
def test_an_exported_graph_is_compiled_and_exported_again(name: str) -> None:
    form = next(f for f in FORMS if f.name.startswith(name) or f.name == "star and double star")
    f = form.make()
    args, kwargs = form.calls()[0]
    gm, _ = dynamo.export(f, *args, **kwargs)
    expected = gm(*args, **kwargs)
    again, _ = dynamo.export(gm, *args, **kwargs)
    torch.testing.assert_close(again(*args, **kwargs), expected)
    dynamo.reset()
    torch.testing.assert_close(dynamo.compile(gm, backend="aot_eager")(*args, **kwargs), expected)


def test_modes_are_put_back_when_the_graph_raises() -> None:
    @dynamo.allow_in_graph
    def fails(x: torch.Tensor) -> torch.Tensor:
        if type(x) is torch.Tensor and armed:
            raise KeyError("at run time")
        return x * 2

    armed: list[int] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return fails(x)

    gm, _ = dynamo.export(f, ONES)
    armed.append(1)
    with pytest.raises(KeyError):
        gm(ONES)
    assert torch.is_grad_enabled()


# ---- torch.export -------------------------------------------------------------------------------------------


class Everything(nn.Module):
    count: torch.Tensor
    scale: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.norm = nn.BatchNorm1d(2)
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("scale", torch.ones(2) * 3, persistent=False)

    def forward(self, x: Any, pair: Any, *, d: Any, flag: bool = True) -> Any:
        self.count = self.count + 1
        d["z"].add_(1)
        return {"y": self.norm(self.linear(x)) * self.scale + self.count, "rest": [pair[0] + d["z"], 3, None]}


def test_handed_over_to_torch_export() -> None:
    torch.manual_seed(0)
    mine = Everything()
    reference = Everything()
    reference.load_state_dict(mine.state_dict())
    example = (torch.randn(3, 2), (ONES, 2)), {"d": {"z": ONES.clone()}}
    exported = dynamo.export(mine, *example[0], aten_graph=True, **example[1])
    program = dynamo.export.to_exported_program(exported)
    assert isinstance(program, torch.export.ExportedProgram)
    signature = program.graph_signature
    assert signature.parameters == ["linear.weight", "linear.bias", "norm.weight", "norm.bias"] or set(signature.parameters) == {
        n for n, _ in mine.named_parameters()
    }
    assert set(signature.buffers_to_mutate.values()) == {"count", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"}
    assert list(signature.user_inputs_to_mutate.values()) == ["d_z"]
    assert set(signature.non_persistent_buffers) == {"scale"}
    module = program.module()
    for _ in range(2):
        x, z, own = torch.randn(3, 2), ONES.clone(), ONES.clone()
        found = module(x, (ONES, 2), d={"z": z}, flag=True)
        expected = reference(x, (ONES, 2), d={"z": own})
        torch.testing.assert_close((found["y"], found["rest"][0], z), (expected["y"], expected["rest"][0], own))
        assert found["rest"][1:] == [3, None]


def test_hand_over_needs_an_aten_graph_and_forms_that_torch_knows() -> None:
    with pytest.raises(ExportError, match="aten_graph=True"):
        dynamo.export.to_exported_program(dynamo.export(torch.sin, ONES))
    with pytest.raises(ExportError, match="register"):
        dynamo.export.to_exported_program(dynamo.export(lambda p: p.x + 1, Point(ONES, 3), aten_graph=True))


def test_nothing_of_the_peer_is_imported() -> None:
    program = (
        "import sys, torch, dynamo, io\n"
        "r = dynamo.export(torch.nn.Linear(2, 2), torch.ones(1, 2), aten_graph=True)\n"
        "f = io.BytesIO(); dynamo.export.save(r, f); f.seek(0); dynamo.export.load(f)(torch.ones(1, 2))\n"
        "assert 'sympy' not in sys.modules\n"
        "dynamo.export.to_exported_program(r)\n"
        "print([m for m in ('torch._dynamo', 'torch._inductor', 'torch._functorch.aot_autograd') if m in sys.modules])\n"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert out.stdout.strip() == "[]"
