"""The programs of "TorchDynamo and TorchInductor Tutorial" (the oldest text), with `.cuda()` dropped and sizes made small."""

from __future__ import annotations

import pytest
import torch

import dynamo
from tests.seeds.running import equal_to_eager, ran

BASIC = """
import torch
import torch._dynamo as dynamo

def foo(x, y):
    a = torch.sin(x)
    b = torch.cos(x)
    return a + b
opt_foo1 = dynamo.optimize("inductor")(foo)
print(opt_foo1(torch.randn(10, 10), torch.randn(10, 10)))

@dynamo.optimize("inductor")
def opt_foo2(x, y):
    a = torch.sin(x)
    b = torch.cos(x)
    return a + b
print(opt_foo2(torch.randn(10, 10), torch.randn(10, 10)))

class MyModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(100, 10)

    def forward(self, x):
        return torch.nn.functional.relu(self.lin(x))

mod = MyModule()
opt_mod = dynamo.optimize("inductor")(mod)
print(opt_mod(torch.randn(10, 100)))
"""

SPEEDUPS = """
import time
import torch
import torch._dynamo as dynamo

def timed(fn):
    start = time.perf_counter()
    result = fn()
    return result, time.perf_counter() - start

def generate_data(b):
    return (
        torch.randn(b, 3, 64, 64).to(torch.float32),
        torch.randint(1000, (b,)),
    )

N_ITERS = 2

from torchvision.models import resnet18
def init_model():
    return resnet18().to(torch.float32)

def eval(mod, inp):
    return mod(inp)

model = init_model()
eval_opt = dynamo.optimize("inductor")(eval)

inp = generate_data(2)[0]
print("eager:", timed(lambda: eval(model, inp))[1])
print("dynamo:", timed(lambda: eval_opt(model, inp))[1])

eager_times = []
dynamo_times = []
for i in range(N_ITERS):
    inp = generate_data(2)[0]
    _, eager_time = timed(lambda: eval(model, inp))
    eager_times.append(eager_time)
    print(f"eager eval time {i}: {eager_time}")
print("~" * 10)
for i in range(N_ITERS):
    inp = generate_data(2)[0]
    _, dynamo_time = timed(lambda: eval_opt(model, inp))
    dynamo_times.append(dynamo_time)
    print(f"dynamo eval time {i}: {dynamo_time}")
print("~" * 10)

model = init_model()
opt = torch.optim.Adam(model.parameters())

def train(mod, data):
    pred = mod(data[0])
    loss = torch.nn.CrossEntropyLoss()(pred, data[1])
    loss.backward()

train_opt = dynamo.optimize("inductor")(train)
for i in range(N_ITERS):
    inp = generate_data(2)
    opt.zero_grad(True)
    _, dynamo_time = timed(lambda: train_opt(model, inp))
    opt.step()
    print(f"dynamo train time {i}: {dynamo_time}")
"""

COMPARISON = """
import torch
import torch._dynamo as dynamo
import scipy

def f1(x, y):
    if x.sum() < 0:
        return -y
    return y

def test_fns(fn1, fn2, args):
    out1 = fn1(*args)
    out2 = fn2(*args)
    return torch.allclose(out1, out2)

inp1 = torch.randn(5, 5)
inp2 = torch.randn(5, 5)

dynamo_f1 = dynamo.optimize("inductor")(f1)
print("dynamo 1, 1:", test_fns(f1, dynamo_f1, (inp1, inp2)))
print("dynamo 1, 2:", test_fns(f1, dynamo_f1, (-inp1, inp2)))
print("~" * 10)

def f2(x, y):
    return x + y

inp1 = torch.randn(5, 5)
inp2 = 3

dynamo_f2 = dynamo.optimize("inductor")(f2)
print("dynamo 2:", test_fns(f2, dynamo_f2, (inp1, inp2)))
print("~" * 10)

def f3(x):
    x = x * 2
    x = scipy.fft.dct(x.numpy())
    x = torch.from_numpy(x)
    x = x * 2
    return x

inp1 = torch.randn(5, 5)
inp2 = torch.randn(5, 5)
dynamo_f3 = dynamo.optimize("inductor")(f3)
print("dynamo 3:", test_fns(f3, dynamo_f3, (inp2,)))
"""

GRAPHS = """
import torch
import torch._dynamo as dynamo
from typing import List
from torchvision.models import resnet18

def init_model():
    return resnet18().to(torch.float32)

def custom_backend(gm: torch.fx.GraphModule, example_inputs: List[torch.Tensor]):
    print("custom backend called with FX graph:")
    gm.graph.print_tabular()
    return gm.forward

# Reset since we are using a different backend (a custom one).
dynamo.reset()
opt_model = dynamo.optimize(custom_backend)(init_model())
opt_model(torch.randn(2, 3, 64, 64))
"""

BAR = """
import torch
import torch._dynamo as dynamo
from typing import List

def custom_backend(gm: torch.fx.GraphModule, example_inputs: List[torch.Tensor]):
    print("custom backend called with FX graph:")
    gm.graph.print_tabular()
    return gm.forward

def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b

opt_bar = dynamo.optimize(custom_backend)(bar)
inp1 = torch.randn(10)
inp2 = torch.randn(10)
opt_bar(inp1, inp2)
opt_bar(inp1, -inp2)
"""


def test_functions_and_modules() -> None:
    with ran(BASIC) as program:
        names, x = program.names, torch.randn(10, 10)

        equal_to_eager(names["foo"], names["opt_foo1"], x, x)
        equal_to_eager(names["foo"], names["opt_foo2"], x, x)
        equal_to_eager(names["mod"], names["opt_mod"], torch.randn(10, 100))
        assert program.graphs[:3] == [["sin", "cos", "add"], ["sin", "cos", "add"], ["linear", "relu"]]
        assert program.breaks == []


def test_resnet_evaluation_and_training() -> None:
    with ran(SPEEDUPS) as program:
        names = program.names
        image, label = names["generate_data"](2)

        equal_to_eager(names["eval"], names["eval_opt"], names["model"].eval(), image)
        assert program.printed.count("dynamo train time") == 2

        gradients = []
        for train in (names["train"], names["train_opt"]):
            torch.manual_seed(2)
            model = names["init_model"]()
            train(model, (image, label))
            gradients.append([p.grad for p in model.parameters()])
        torch.testing.assert_close(gradients[1], gradients[0])


def test_comparison_with_other_captures() -> None:
    with ran(COMPARISON) as program:
        assert program.printed.count("True") == 4
        assert "False" not in program.printed

        names, x, y = program.names, torch.ones(5, 5), torch.randn(5, 5)
        for sign in (1, -1):
            equal_to_eager(names["f1"], names["dynamo_f1"], sign * x, y)
        equal_to_eager(names["f2"], names["dynamo_f2"], y, 3)
        equal_to_eager(names["f3"], names["dynamo_f3"], y)
        assert next(line for _, line in program.breaks) == "if x.sum() < 0:"


def test_custom_backend_sees_one_graph_of_resnet() -> None:
    with ran(GRAPHS) as program:
        assert program.printed.count("custom backend called with FX graph:") == 1
        assert program.printed.count("conv2d") >= 20


def test_bar_gives_the_three_graphs_of_the_text() -> None:
    with ran(BAR) as program:
        graphs = sorted(program.graphs, key=len, reverse=True)

        assert graphs == [["abs", "add", "truediv", "sum", "lt"], ["mul", "mul"], ["mul"]]
        assert program.printed.count("custom backend called with FX graph:") == 3
        assert program.breaks == [("DD001", "if b.sum() < 0:")]
        for sign in (1, -1):
            equal_to_eager(program.names["bar"], program.names["opt_bar"], torch.randn(10), sign * torch.ones(10))


def test_explain_gives_six_values() -> None:
    with ran(BAR + "\nresult = dynamo.explain(bar, torch.randn(10), torch.ones(10))\n") as program:
        explanation, out_guards, graphs, ops_per_graph, break_reasons, explanation_verbose = program.names["result"]

    assert explanation.startswith("Dynamo produced 2 graphs with 1 graph break")
    assert [len(ops) for ops in ops_per_graph] == [5, 1]
    assert [isinstance(graph, torch.fx.GraphModule) for graph in graphs] == [True, True]
    assert [reason.id for reason in break_reasons] == ["DD001"]
    assert any("L['a']" in guard.source for guard in out_guards)
    assert explanation_verbose.startswith(explanation)


def test_nopython_raises_the_break() -> None:
    program = BAR + "\nstrict = dynamo.optimize('inductor', nopython=True)(bar)\n"
    with ran(program) as done, pytest.raises(dynamo.GraphBreakError, match="DD001"):
        done.names["strict"](torch.randn(10), torch.randn(10))


def test_nopython_accepts_resnet() -> None:
    program = GRAPHS + "\nopt_model = dynamo.optimize('inductor', nopython=True)(model := init_model())\n"
    with ran(program) as done:
        equal_to_eager(done.names["model"].eval(), done.names["opt_model"].eval(), torch.randn(2, 3, 64, 64))


def test_export_raises_the_break() -> None:
    program = BAR + "\ntry:\n    dynamo.export(bar, torch.randn(10), torch.randn(10))\nexcept Exception as e:\n    error = e\n"
    with ran(program) as done:
        assert isinstance(done.names["error"], dynamo.GraphBreakError)


def test_export_of_resnet_is_one_graph() -> None:
    program = GRAPHS + "\nmodel = init_model().eval()\nmodel_exp = dynamo.export(model, torch.randn(2, 3, 64, 64))\n"
    with ran(program) as done:
        x = torch.randn(2, 3, 64, 64)
        graph_module = done.names["model_exp"][0]

        torch.testing.assert_close(graph_module(x), done.names["model"](x))
