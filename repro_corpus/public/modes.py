"""After public reports about grad mode, autocast, inference mode, random state and other global modes around compiled code."""

from __future__ import annotations

import random

import torch

from repro_corpus.program import program


def ramp(*shape: int) -> torch.Tensor:
    return torch.linspace(-1.0, 1.0, int(torch.Size(shape).numel())).reshape(shape).clone()


# ---- grad mode --------------------------------------------------------------------------------------------


@program("pytorch/torchdynamo#1446", "behind a break inside a no_grad block the second graph had gradients on")
def no_grad_is_carried_over_a_break(compile):
    @compile
    def f(x):
        with torch.no_grad():
            y = x.sin().sin()
            print("break")
            return y.sin().sin()

    return f(ramp(4).requires_grad_())


@program("pytorch/pytorch#114338", "enable_grad inside a function called under no_grad lost its history in ahead-of-time graphs")
def enable_grad_under_no_grad(compile):
    @compile
    def f(x):
        with torch.enable_grad():
            return x + 1, (x * x).sum()

    x = ramp(10).requires_grad_()
    with torch.no_grad():
        out = f(x)
    out[1].backward()
    return out, x


@program("pytorch/pytorch#111528", "no_grad and enable_grad called with a function, inside what is compiled")
def no_grad_given_a_function(compile):
    def inner(x):
        return x.sin()

    @compile
    def f(x):
        @torch.no_grad
        def decorated(x):
            return x.cos()

        return torch.no_grad(inner)(x), decorated(x), torch.enable_grad(inner)(x)

    return f(ramp(5).requires_grad_())


@program("pytorch/pytorch#113298", "set_grad_enabled as a decorator does not change the mode around it")
def set_grad_enabled_as_decorator(compile):
    @compile
    def f(x):
        @torch.set_grad_enabled(False)
        def inner(x):
            return x.sin()

        return inner(x), x * 2, torch.is_grad_enabled()

    return f(ramp(3).requires_grad_()), torch.is_grad_enabled()


@program("pytorch/pytorch#100977", "a graph made under no_grad was used again where gradients are wanted")
def inference_graph_is_not_reused(compile):
    m = torch.nn.Linear(3, 2)
    f = compile(m)
    x = ramp(2, 3)
    with torch.no_grad():
        a = f(x)
    b = f(x)
    b.sum().backward()
    return a, b, m.weight.grad


@program("pytorch/pytorch#124900", "a context manager object made before a break and entered behind it")
def context_object_crosses_a_break(compile):
    @compile
    def f(x):
        context = torch.set_grad_enabled(True)
        print("break")
        with context:
            return x + 1

    return f(ramp(3).requires_grad_()), torch.is_grad_enabled()


@program("pytorch/pytorch#10858", "a function decorated with no_grad, called inside a no_grad block")
def decorated_inside_block(compile):
    @torch.no_grad()
    def nothing(x):
        return x * 1

    @compile
    def f(x):
        seen = []
        with torch.no_grad():
            seen.append(torch.is_grad_enabled())
            y = nothing(x)
            seen.append(torch.is_grad_enabled())
        return y, seen, x * 2

    return f(ramp(2).requires_grad_())


@program("pytorch/pytorch#31792", "a generator function decorated with no_grad switches the mode at each step")
def decorated_generator(compile):
    @torch.no_grad()
    def parts(x):
        for i in range(3):
            yield x * i

    @compile
    def f(x):
        out = []
        for part in parts(x):
            out.append((part, x * 2, torch.is_grad_enabled()))
        return out

    return f(ramp(2).requires_grad_())


@program("pytorch/pytorch#44531", "a recursive function under one decorator object puts the mode back")
def recursive_decorated(compile):
    @torch.no_grad()
    def inner(x, n):
        return x if n == 0 else inner(x * 2, n - 1) + 1

    @compile
    def f(x):
        return inner(x, 3), x * 2, torch.is_grad_enabled()

    return f(ramp(2).requires_grad_())


# ---- autocast ---------------------------------------------------------------------------------------------


@program("pytorch/pytorch#93890", "a break directly inside an autocast block")
def autocast_around_a_break(compile):
    @compile
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            print("break")
            return y @ x

    return f(ramp(4, 4)), torch.is_autocast_enabled("cpu")


@program("pytorch/pytorch#102414", "autocast of a callee that breaks stayed on in the caller", tolerance=(1e-2, 1e-2))
def autocast_of_a_callee(compile):
    def inner(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = torch.mm(x, y)
            print("break")
            return torch.sin(z)

    @compile
    def f(x, y):
        z = torch.mm(x, y)
        return z + inner(x, y), torch.mm(x, y)

    return f(ramp(3, 3), ramp(3, 3) * 2)


@program("pytorch/pytorch#95837", "the function that breaks is called inside the block")
def break_in_a_function_called_under_autocast(compile):
    def inner(x):
        print("break")
        return x @ x

    class M(torch.nn.Module):
        def forward(self, a, b):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return inner(a + b), (a + b) @ b

    return compile(M())(ramp(4, 4), ramp(4, 4))


@program("pytorch/pytorch#173877", "autocast entered and left by functions, with a break between")
def autocast_by_functions(compile):
    @compile
    def f(x, y):
        mode = torch.amp.autocast_mode._enter_autocast("cpu", torch.bfloat16, True, True)
        a = x @ y
        print("break")
        b = x @ y
        torch.amp.autocast_mode._exit_autocast(mode)
        return a, b, x @ y

    return f(ramp(3, 3), ramp(3, 3)), torch.is_autocast_enabled("cpu")


# ---- inference mode ---------------------------------------------------------------------------------------


@program("pytorch/pytorch#101151", "a model called under inference mode: results and buffers that count no versions")
def model_under_inference_mode(compile):
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)
            self.register_buffer("seen", torch.zeros(4))

        def forward(self, x):
            y = self.linear(x)
            self.seen.add_(y.detach().sum(0))
            return y.view(-1), y[0]

    m = M()
    f = compile(m)
    with torch.inference_mode():
        out = f(ramp(2, 4))
    return out, m.seen


@program("pytorch/pytorch#135892", "first under inference mode, then training of the same model")
def inference_then_training(compile):
    m = torch.nn.Linear(4, 3)
    f = compile(m)
    x = ramp(2, 4)
    with torch.inference_mode():
        a = [f(x).mean().item() for _ in range(2)]
    b = f(x)
    b.mean().backward()
    return a, b, m.weight.grad


@program("pytorch/pytorch#169477", "a view of a tensor of the module, made in a forward under inference mode")
def view_under_inference_mode(compile):
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.range = torch.arange(1, 9, dtype=torch.float32)

        @torch.inference_mode()
        def forward(self, start):
            return self.range[start : start + 3]

    f = compile(M())
    return f(1), f(2), torch.ones(2) * 2


@program("pytorch/pytorch#148983", "tensors from inside and outside of inference mode take turns")
def both_kinds_of_tensors(compile):
    @compile
    def f(x):
        return x.sin()

    with torch.inference_mode():
        x = ramp(3)
    y = ramp(3)
    out = f(x), f(y), f(x)
    with torch.inference_mode():
        return out, f(x), f(y)


@program("pytorch/pytorch#124111", "writes to tensors that inference mode made")
def writes_under_inference_mode(compile):
    @compile
    def f(x, y, out):
        out.copy_(x + y)
        return out

    with torch.inference_mode():
        return f(ramp(5), ramp(5) * 2, torch.zeros(5))


# ---- random state -----------------------------------------------------------------------------------------


@program("pytorch/pytorch#118735", "manual_seed of the default generator inside, other draws than eager")
def seed_of_the_default_generator(compile):
    @compile
    def f():
        g = torch.default_generator.manual_seed(42)
        return torch.rand(3), torch.rand(3, generator=g)

    return f(), f(), torch.rand(2)


@program("pytorch/pytorch#175156", "a second draw that nobody uses changed what the first one gave")
def unused_second_draw(compile):
    @compile
    def f():
        torch.manual_seed(0)
        out = torch.randint(0, 100, (4, 1))
        torch.randint(0, 100, (2, 1))
        return out

    return f(), f(), torch.rand(2)


@program("pytorch/pytorch#143431", "draws inside an index")
def draws_in_an_index(compile):
    @compile
    def f(latent):
        x = torch.rand(2, 12)
        indices = torch.argsort(torch.rand(*x.shape), dim=-1)[:, :6]
        return latent[torch.arange(2).unsqueeze(-1), indices][:, :3]

    return f(ramp(2, 12, 2)), torch.rand(2)


@program("pytorch/pytorch#197101", "random.seed inside was ignored at the first call")
def python_seed_at_the_first_call(compile):
    @compile
    def f(x):
        random.seed(0)
        return x + random.random(), random.randint(0, 9), random.uniform(1.0, 2.0)

    return [f(torch.zeros(2)) for _ in range(3)], random.random()


@program("pytorch/pytorch#197085", "shuffle and sample gave the same order at every call")
def python_shuffle(compile):
    @compile
    def f(x):
        order = [0, 1, 2, 3, 4]
        random.shuffle(order)
        return x + order[0], order, random.sample(range(10), 3)

    random.seed(5)
    return [f(torch.zeros(2)) for _ in range(3)], random.random()


@program("pytorch/pytorch#192635", "independent dropouts of a large and a small branch changed places")
def dropouts_of_two_branches(compile):
    @compile
    def f(large, small):
        a = torch.nn.functional.dropout(large.sin(), 0.5).sum()
        b = torch.nn.functional.dropout(small.cos(), 0.5)
        return a + b

    large, small = ramp(64, 64).requires_grad_(), ramp(4).requires_grad_()
    torch.manual_seed(0)
    out = f(large, small)
    out.sum().backward()
    return out, large, small, torch.rand(2)


@program("pytorch/pytorch#142853", "seeded dropout of channels")
def seeded_channel_dropout(compile):
    class M(torch.nn.Module):
        def __init__(self, n):
            super().__init__()
            self.dropout = [torch.nn.Dropout1d, torch.nn.Dropout2d, torch.nn.Dropout3d][n - 1](0.5)

        def forward(self, x):
            torch.manual_seed(0)
            return self.dropout(x)

    return [compile(M(n))(ramp(1, 3, *[2] * n)) for n in (1, 2, 3)], torch.rand(2)


@program("pytorch/pytorch#92633", "a generator passed to draws")
def generator_of_the_program(compile):
    @compile
    def f(x, g):
        return x + torch.rand(3, generator=g), torch.randperm(4, generator=g), torch.empty(2).normal_(generator=g)

    g = torch.Generator().manual_seed(5)
    return f(torch.zeros(3), g), f(torch.zeros(3), g), torch.rand(2, generator=g), torch.rand(2)


@program("pytorch/pytorch#88576", "methods of a generator")
def methods_of_a_generator(compile):
    @compile
    def f(x, g):
        g.manual_seed(3)
        state = g.get_state()
        a = torch.rand(2, generator=g)
        g.set_state(state)
        return x + a, torch.rand(2, generator=g), g.initial_seed(), g.device

    return f(torch.zeros(2), torch.Generator()), torch.rand(2)


# ---- other modes ------------------------------------------------------------------------------------------


@program("pytorch/pytorch#109458", "the default dtype is read")
def default_dtype_is_read(compile):
    @compile
    def f(x):
        return torch.result_type(torch.tensor(1), 1.0) == torch.get_default_dtype(), x.to(torch.get_default_dtype())

    out = [f(torch.ones(2))]
    torch.set_default_dtype(torch.float64)
    out.append(f(torch.ones(2, dtype=torch.float32)))
    torch.set_default_dtype(torch.float32)
    return out


@program("pytorch/pytorch#184405", "factories without a dtype after another default dtype was set")
def factories_follow_the_default_dtype(compile):
    @compile
    def f():
        return torch.ones(2), torch.zeros(2), torch.tensor([1.0, 2.0]), torch.arange(2.0), torch.empty(2).shape

    out = [f()]
    torch.set_default_dtype(torch.float64)
    out.append(f())
    torch.set_default_dtype(torch.float32)
    return out, f()


@program("pytorch/pytorch#112787", "a context manager of the program that switches the default dtype, in a loop")
def own_dtype_context(compile):
    class Dtype:
        def __init__(self, dtype):
            self.before, self.dtype = torch.get_default_dtype(), dtype

        def __enter__(self):
            torch.set_default_dtype(self.dtype)

        def __exit__(self, *error):
            torch.set_default_dtype(self.before)

    @compile
    def f(x):
        for i in range(2):
            with Dtype(torch.float64):
                x = x + i + torch.ones(1)
        return x, torch.ones(1)

    return f(torch.zeros(2)), torch.get_default_dtype()


@program("pytorch/pytorch#138015", "a draw with a dtype of its own under another default dtype")
def draw_under_another_default_dtype(compile):
    @compile
    def f():
        return torch.randn(2, dtype=torch.bfloat16), torch.randn(2), torch.rand(2) @ torch.rand(2)

    torch.set_default_dtype(torch.float64)
    out = f()
    torch.set_default_dtype(torch.float32)
    return out, torch.rand(1)


@program("pytorch/pytorch#175953", "a default device that is set around the call")
def default_device_around_the_call(compile):
    @compile
    def f(x):
        return torch.zeros(2).device, torch.tensor([1.0]).device, x * 2

    x = ramp(2)
    out = [f(x)]
    torch.set_default_device("meta")
    out.append(f(x))
    torch.set_default_device(None)
    return out, f(x)
