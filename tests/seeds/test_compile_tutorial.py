"""The programs of "Introduction to torch.compile", with `.cuda()` dropped and sizes made small."""

from __future__ import annotations

import copy
import traceback

import pytest
import torch

import dynamo
from tests.seeds.running import equal_to_eager, ran

USAGE = """
import torch

def foo(x, y):
    a = torch.sin(x)
    b = torch.cos(y)
    return a + b
opt_foo1 = torch.compile(foo)
print(opt_foo1(torch.randn(10, 10), torch.randn(10, 10)))

t1 = torch.randn(10, 10)
t2 = torch.randn(10, 10)

@torch.compile
def opt_foo2(x, y):
    a = torch.sin(x)
    b = torch.cos(y)
    return a + b
print(opt_foo2(t1, t2))

t = torch.randn(10, 100)

class MyModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(100, 10)

    def forward(self, x):
        return torch.nn.functional.relu(self.lin(x))

mod = MyModule()
opt_mod = torch.compile(mod)
print(opt_mod(t))
"""

NESTED = (
    USAGE
    + """
def nested_function(x):
    return torch.sin(x)

@torch.compile
def outer_function(x, y):
    a = nested_function(x)
    b = torch.cos(y)
    return a + b

print(outer_function(t1, t2))

class OuterModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner_module = MyModule()
        self.outer_lin = torch.nn.Linear(10, 2)

    def forward(self, x):
        x = self.inner_module(x)
        return torch.nn.functional.relu(self.outer_lin(x))

outer_mod = OuterModule()
opt_outer_mod = torch.compile(outer_mod)
print(opt_outer_mod(t))
"""
)

DISABLED = """
import torch

def complex_conjugate(z):
    return torch.conj(z)

@torch.compiler.disable(recursive=False)
def complex_function(real, imag):
    # Assuming this function cause problems in the compilation
    z = torch.complex(real, imag)
    return complex_conjugate(z)

def outer_function():
    real = torch.tensor([2, 3], dtype=torch.float32)
    imag = torch.tensor([4, 5], dtype=torch.float32)
    z = complex_function(real, imag)
    return torch.abs(z)

# Try to compile the outer_function
try:
    opt_outer_function = torch.compile(outer_function)
    print(opt_outer_function())
except Exception as e:
    print("Compilation of outer_function failed:", e)
"""

DENSENET = """
import time
import torch
from torchvision.models import densenet121

def timed(fn):
    start = time.perf_counter()
    result = fn()
    return result, time.perf_counter() - start

def generate_data(b):
    return (
        torch.randn(b, 3, 32, 32).to(torch.float32),
        torch.randint(1000, (b,)),
    )

N_ITERS = 1

def init_model():
    return densenet121().to(torch.float32)

model = init_model()

# Reset since we are using a different mode.
import torch._dynamo
torch._dynamo.reset()

model_opt = torch.compile(model, mode="reduce-overhead")

inp = generate_data(2)[0]
with torch.no_grad():
    print("eager:", timed(lambda: model(inp))[1])
    print("compile:", timed(lambda: model_opt(inp))[1])
"""

TRAINING = """
import torch
from torchvision.models import resnet18

def init_model():
    torch.manual_seed(0)
    return resnet18(num_classes=10)

def generate_data(b):
    return torch.randn(b, 3, 32, 32), torch.randint(10, (b,))

def train(mod, data):
    opt.zero_grad(True)
    pred = mod(data[0])
    loss = torch.nn.CrossEntropyLoss()(pred, data[1])
    loss.backward()
    opt.step()

model = init_model()
opt = torch.optim.Adam(model.parameters())
train_opt = torch.compile(train, mode="reduce-overhead")
"""

COMPARISON = """
import torch
import torch._dynamo
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

# Reset since we are using a different mode.
torch._dynamo.reset()

compile_f1 = torch.compile(f1)
print("compile 1, 1:", test_fns(f1, compile_f1, (inp1, inp2)))
print("compile 1, 2:", test_fns(f1, compile_f1, (-inp1, inp2)))
print("~" * 10)

def f2(x, y):
    return x + y

inp1 = torch.randn(5, 5)
inp2 = 3

compile_f2 = torch.compile(f2)
print("compile 2:", test_fns(f2, compile_f2, (inp1, inp2)))
print("~" * 10)

def f3(x):
    x = x * 2
    x = scipy.fft.dct(x.numpy())
    x = torch.from_numpy(x)
    x = x * 2
    return x

inp1 = torch.randn(5, 5)
inp2 = torch.randn(5, 5)
compile_f3 = torch.compile(f3)
print("compile 3:", test_fns(f3, compile_f3, (inp2,)))
"""

BAR = """
import torch
import torch._dynamo
from typing import List

def custom_backend(gm: torch.fx.GraphModule, example_inputs: List[torch.Tensor]):
    print("custom backend called with FX graph:")
    gm.graph.print_tabular()
    return gm.forward

# Reset since we are using a different backend.
torch._dynamo.reset()

def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b

opt_bar = torch.compile(bar, backend=custom_backend)
inp1 = torch.randn(10)
inp2 = torch.randn(10)
opt_bar(inp1, inp2)
opt_bar(inp1, -inp2)
"""


def test_basic_usage() -> None:
    with ran(USAGE) as done:
        names = done.names

        equal_to_eager(names["foo"], names["opt_foo1"], torch.randn(10, 10), torch.randn(10, 10))
        equal_to_eager(names["foo"], names["opt_foo2"], torch.randn(10, 10), torch.randn(10, 10))
        equal_to_eager(names["mod"], names["opt_mod"], torch.randn(10, 100))
        assert done.graphs == [["sin", "cos", "add"], ["sin", "cos", "add"], ["linear", "relu"]]


def test_nested_calls_and_modules() -> None:
    with ran(NESTED) as done:
        names = done.names

        equal_to_eager(names["foo"], names["outer_function"], torch.randn(10, 10), torch.randn(10, 10))
        equal_to_eager(names["outer_mod"], names["opt_outer_mod"], torch.randn(10, 100))
        assert done.graphs[3:] == [["sin", "cos", "add"], ["linear", "relu", "linear", "relu"]]
        assert done.breaks == []


def test_disable_without_recursion() -> None:
    with ran(DISABLED) as done:
        assert done.printed == "tensor([4.4721, 5.8310])\n"
        equal_to_eager(done.names["outer_function"], done.names["opt_outer_function"])

        captured = [op for graph in done.graphs for op in graph]
        assert "complex" not in captured, "the disabled frame itself stays eager"
        assert "conj" in captured, "the functions it calls are compiled"
        assert [line for _, line in done.breaks] == ["z = complex_function(real, imag)"]


def test_densenet() -> None:
    with ran(DENSENET) as done:
        equal_to_eager(done.names["model"].eval(), done.names["model_opt"].eval(), torch.randn(2, 3, 32, 32))
        assert done.breaks == []


def test_training_step_with_optimizer_inside() -> None:
    """Each step starts from the same state: Adam turns a last-bit difference of a tiny gradient into a different step."""
    with ran(TRAINING) as done:
        names = done.names
        compiled_model, compiled_opt = names["model"], names["opt"]
        eager_model = copy.deepcopy(compiled_model)
        eager_opt = torch.optim.Adam(eager_model.parameters())
        for _ in range(3):
            data = names["generate_data"](2)
            names["opt"] = eager_opt
            names["train"](eager_model, data)
            names["opt"] = compiled_opt
            names["train_opt"](compiled_model, data)

            torch.testing.assert_close(compiled_model.state_dict(), eager_model.state_dict())
            torch.testing.assert_close([p.grad for p in compiled_model.parameters()], [p.grad for p in eager_model.parameters()])
            compiled_model.load_state_dict(eager_model.state_dict())
            compiled_opt.load_state_dict(copy.deepcopy(eager_opt.state_dict()))


def test_comparison_with_other_captures() -> None:
    with ran(COMPARISON) as done:
        assert done.printed.count("True") == 4
        assert "False" not in done.printed

        names, x, y = done.names, torch.ones(5, 5), torch.randn(5, 5)
        for sign in (1, -1):
            equal_to_eager(names["f1"], names["compile_f1"], sign * x, y)
        equal_to_eager(names["f2"], names["compile_f2"], y, 3)
        equal_to_eager(names["f3"], names["compile_f3"], y)


def test_custom_backend_prints_densenet_in_one_table() -> None:
    program = (
        BAR
        + "\nfrom torchvision.models import densenet121\n"
        + ("opt_model = torch.compile(densenet121(), backend=custom_backend)\nopt_model(torch.randn(2, 3, 32, 32))\n")
    )
    with ran(program) as done:
        assert done.printed.count("custom backend called with FX graph:") == 4
        assert done.printed.count("conv2d") >= 120


def test_bar_gives_the_three_graphs_of_the_text() -> None:
    with ran(BAR) as done:
        graphs = sorted(done.graphs, key=len, reverse=True)

        assert graphs == [["abs", "add", "truediv", "sum", "lt"], ["mul", "mul"], ["mul"]]
        assert done.printed.count("opcode") == 3
        assert done.breaks == [("DD001", "if b.sum() < 0:")]
        for sign in (1, -1):
            equal_to_eager(done.names["bar"], done.names["opt_bar"], torch.randn(10), sign * torch.ones(10))


def test_explain_prints_counts_reasons_ops_and_guards() -> None:
    program = (
        BAR
        + """
torch._dynamo.reset()
explain_output = torch._dynamo.explain(bar)(torch.randn(10), -torch.ones(10))
print(explain_output)
"""
    )
    with ran(program) as done:
        output, text = done.names["explain_output"], done.printed

    assert (output.graph_count, output.graph_break_count) == (2, 1)
    assert output.op_count == 7
    for line in ("Graph Count: 2", "Graph Break Count: 1", "Op Count: 7", "Break Reason 1:", "Ops 2:", "Out Guards:"):
        assert line in text
    assert "if b.sum() < 0" in text or "line 18" in text


def test_fullgraph_raises_with_the_users_line() -> None:
    program = BAR + "\nopt_bar = torch.compile(bar, fullgraph=True)\n"
    with ran(program) as done:
        with pytest.raises(dynamo.GraphBreakError) as error:
            done.names["opt_bar"](torch.randn(10), torch.randn(10))

        assert "if b.sum() < 0" in "".join(traceback.format_exception(error.value))


def test_fullgraph_accepts_densenet() -> None:
    program = """
    import torch
    from torchvision.models import densenet121
    model = densenet121().eval()
    opt_model = torch.compile(model, fullgraph=True)
    """
    with ran(program) as done:
        equal_to_eager(done.names["model"], done.names["opt_model"], torch.randn(2, 3, 32, 32))
        assert len(done.graphs) == 1
