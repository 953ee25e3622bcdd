"""Random numbers: the draws of a compiled program and the state it leaves are those of eager, in program order."""

from __future__ import annotations

import random

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from repro_corpus.program import program

_own = torch.Generator()


@program("", "a seed inside the function holds at every call")
def seed_inside(compile):
    @compile
    def f(x):
        torch.manual_seed(0)
        return torch.rand(3) + x

    return [f(torch.zeros(3)) for _ in range(3)], torch.rand(2)


@program("", "a seed and nothing else but draws")
def seed_without_inputs(compile):
    @compile
    def f():
        torch.manual_seed(3)
        return torch.rand(3)

    return [f() for _ in range(3)], torch.rand(2)


@program("", "two seeds in one function")
def seed_twice(compile):
    @compile
    def f(x):
        torch.manual_seed(0)
        a = torch.rand(3)
        torch.manual_seed(1)
        b = torch.rand(3)
        torch.manual_seed(0)
        return a, b, torch.randn(3) + x

    return f(torch.zeros(3)), f(torch.zeros(3)), torch.rand(2)


@program("", "draws before the seed, and after it")
def draws_around_seed(compile):
    @compile
    def f(x):
        a = torch.rand(3)
        torch.manual_seed(5)
        return a, torch.rand(3), x * torch.randn(3)

    return f(torch.ones(3)), f(torch.ones(3)), torch.rand(2)


@program("", "a seed given as an argument")
def seed_argument(compile):
    @compile
    def f(x, seed):
        torch.manual_seed(seed)
        return torch.rand(3) * x

    return f(torch.ones(3), 1), f(torch.ones(3), 2), f(torch.ones(3), 1), torch.rand(2)


@program("", "a seed as the last thing")
def seed_last(compile):
    @compile
    def f(x):
        y = torch.rand(3) + x
        torch.manual_seed(7)
        return y

    return f(torch.zeros(3)), torch.rand(2), f(torch.zeros(3)), torch.rand(2)


@program("", "a seed, a break, draws")
def seed_then_break(compile):
    @compile
    def f(x):
        torch.manual_seed(0)
        a = torch.rand(3)
        print("broken")
        b = torch.rand(3)
        return a, b, x + 1

    return f(torch.ones(3)), f(torch.ones(3)), torch.rand(2)


@program("", "the state is read and put back")
def state_round_trip(compile):
    @compile
    def f(x):
        state = torch.get_rng_state()
        a = torch.rand(3)
        torch.set_rng_state(state)
        b = torch.rand(3)
        return a, b, x + 1

    return f(torch.ones(3)), f(torch.ones(3)), torch.rand(2)


@program("", "the state is returned between two draws")
def state_returned(compile):
    @compile
    def f(x):
        a = torch.rand(3) + x
        state = torch.get_rng_state()
        b = torch.rand(3)
        return a, b, state

    a, b, state = f(torch.ones(3))
    torch.set_rng_state(state)
    return a, b, torch.rand(3), f(torch.ones(3))[1]


@program("", "the state is set from an argument")
def state_argument(compile):
    @compile
    def f(x, state):
        torch.set_rng_state(state)
        return torch.rand(3) * x

    state = torch.get_rng_state()
    return f(torch.ones(3), state), f(torch.ones(3), state), torch.rand(2)


@program("", "fork_rng puts the state back")
def fork(compile):
    @compile
    def f(x):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            a = torch.rand(3)
        return a, torch.rand(3) + x

    return f(torch.ones(3)), f(torch.ones(3)), torch.rand(2)


@program("", "fork_rng with a break inside, and with an exception")
def fork_with_break(compile):
    @compile
    def f(x, fails):
        with torch.random.fork_rng():
            a = torch.rand(3)
            print("inside")
            b = torch.rand(3)
            if fails:
                raise ValueError("inside")
        return a, b, torch.rand(3) + x

    out = [f(torch.ones(3), False)]
    try:
        f(torch.ones(3), True)
    except ValueError:
        out.append(torch.rand(3))
    return out, torch.rand(2)


@program("", "a generator as an argument")
def generator_argument(compile):
    @compile
    def f(x, g):
        return torch.rand(3, generator=g) + x, torch.randn(2, generator=g)

    g = torch.Generator().manual_seed(3)
    other = torch.Generator().manual_seed(4)
    return f(torch.ones(3), g), f(torch.ones(3), g), f(torch.ones(3), other), torch.rand(2, generator=g), torch.rand(2)


@program("", "a generator in the module's globals")
def generator_global(compile):
    @compile
    def f(x):
        return torch.rand(3, generator=_own) + x

    _own.manual_seed(1)
    a = f(torch.ones(3)), f(torch.ones(3))
    _own.manual_seed(1)
    return a, f(torch.ones(3)), torch.rand(2, generator=_own)


@program("", "a generator seeded inside")
def generator_seeded_inside(compile):
    @compile
    def f(x, g):
        g.manual_seed(0)
        a = torch.rand(3, generator=g)
        b = torch.rand(3)
        return a + x, b

    g = torch.Generator()
    return f(torch.ones(3), g), f(torch.ones(3), g), torch.rand(2, generator=g), torch.rand(2)


@program("", "a generator made inside")
def generator_inside(compile):
    @compile
    def f(x):
        g = torch.Generator()
        g.manual_seed(4)
        return torch.randn(3, generator=g) + x, torch.randperm(4, generator=g)

    return f(torch.ones(3)), f(torch.ones(3)), torch.rand(2)


@program("", "a generator made inside and returned")
def generator_returned(compile):
    @compile
    def f(x):
        g = torch.Generator().manual_seed(2)
        y = torch.rand(3, generator=g) + x
        return y, g

    y, g = f(torch.ones(3))
    z, h = f(torch.ones(3))
    return y, z, torch.rand(2, generator=g), g is h


@program("", "a generator's state is read and put back")
def generator_state(compile):
    @compile
    def f(x, g):
        state = g.get_state()
        a = torch.rand(3, generator=g)
        g.set_state(state)
        return a, torch.rand(3, generator=g), x + 1, g.initial_seed()

    g = torch.Generator().manual_seed(2)
    return f(torch.ones(3), g), f(torch.ones(3), g), torch.rand(2, generator=g)


@program("", "draws in place from a generator")
def generator_in_place(compile):
    @compile
    def f(x, g):
        y = torch.empty(4)
        y.normal_(generator=g)
        z = torch.empty(4).uniform_(-1, 1, generator=g)
        return y, z, x.clone().bernoulli_(0.5, generator=g), torch.bernoulli(x * 0.5, generator=g)

    g = torch.Generator().manual_seed(2)
    return f(torch.ones(4), g), f(torch.ones(4), g), torch.rand(2, generator=g), torch.rand(2)


@program("", "the default generator given by name")
def default_generator(compile):
    @compile
    def f(x):
        return torch.rand(3, generator=torch.default_generator) + x, torch.multinomial(x, 2, generator=torch.default_generator)

    return f(torch.ones(3)), f(torch.ones(3)), torch.rand(2)


@program("", "manual_seed gives back the default generator, which is drawn from")
def generator_of_manual_seed(compile):
    @compile
    def f(x):
        g = torch.manual_seed(8)
        return torch.rand(3, generator=g) + x, torch.rand(2)

    return f(torch.ones(3)), f(torch.ones(3)), torch.rand(2)


@program("", "initial_seed is read")
def initial_seed(compile):
    @compile
    def f(x):
        torch.manual_seed(12)
        y = torch.rand(3)
        return y + x, torch.initial_seed()

    return f(torch.ones(3)), f(torch.ones(3)), torch.initial_seed()


@program("", "torch.seed gives another state each time")
def fresh_seed(compile):
    @compile
    def f(x):
        y = torch.rand(3)
        torch.seed()
        z = torch.rand(3)
        return y, z + x

    torch.manual_seed(0)
    y, z = f(torch.zeros(3))
    v, w = f(torch.zeros(3))
    torch.manual_seed(0)
    return y, v.shape, bool((z == w).all()), z.shape, w.shape


@program("", "dropout after a seed, forward and backward")
def dropout_seeded(compile):
    @compile
    def f(x):
        torch.manual_seed(1)
        return torch.nn.functional.dropout(x.sin(), 0.5)

    x = torch.ones(8, requires_grad=True)
    a = f(x)
    a.sum().backward()
    return a, x, f(x), torch.rand(2)


@program("", "dropout in a model in training mode, two steps, seeds around")
def dropout_training(compile):
    m = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.ReLU(), torch.nn.Dropout(0.2), torch.nn.Linear(8, 2))
    f = compile(m)
    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    out = []
    for _ in range(2):
        y = f(x)
        y.sum().backward()
        out.append((y, torch.rand(1)))
    return out, [p.grad for p in m.parameters()]


@program("", "dropout2d, feature dropout, alpha dropout, rrelu and gumbel softmax")
def random_layers(compile):
    @compile
    def f(x):
        a = torch.nn.functional.dropout2d(x, 0.5)
        b = torch.nn.functional.alpha_dropout(x, 0.3, training=True)
        c = torch.nn.functional.rrelu(x, training=True)
        d = torch.nn.functional.gumbel_softmax(x, dim=1)
        e = torch.nn.functional.feature_alpha_dropout(x, 0.3, training=True)
        return a, b, c, d, e

    x = torch.linspace(-1, 1, 24).reshape(1, 4, 3, 2).requires_grad_()
    out = f(x)
    sum(o.sum() for o in out).backward()
    return out, x, torch.rand(2)


@program("", "draws under a checkpoint come out the same in the recomputation")
def checkpointed(compile):
    def body(x):
        return torch.nn.functional.dropout(x.sin(), 0.5) * x

    @compile
    def f(x):
        y = torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False)
        return y * torch.rand(8)

    x = torch.ones(8, requires_grad=True)
    out = f(x)
    out.sum().backward()
    return out, x, torch.rand(2)


@program("", "draws in the backward of a custom function")
def draws_in_backward(compile):
    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * torch.rand(3)

    @compile
    def f(x):
        return Noisy.apply(x) + torch.rand(3)

    x = torch.ones(3, requires_grad=True)
    a = f(x)
    b = f(x)
    a.sum().backward()
    b.sum().backward()
    return a, b, x, torch.rand(2)


@program("", "a hook on a gradient draws")
def draws_in_hook(compile):
    @compile
    def f(x):
        y = x * 2
        y.register_hook(lambda g: g + torch.rand(3))
        return y + torch.rand(3)

    x = torch.ones(3, requires_grad=True)
    a = f(x)
    a.sum().backward()
    return a, x, torch.rand(2)


@program("", "random numbers of Python inside the function")
def python_random(compile):
    @compile
    def f(x):
        return x * random.random(), random.randint(0, 1000), random.uniform(1, 2)

    random.seed(3)
    out = [f(torch.ones(3)) for _ in range(3)]
    return out, random.random()


@program("", "a seed of Python's and numpy's generators inside the function")
def python_seed(compile):
    @compile
    def f(x):
        random.seed(1)
        np.random.seed(2)
        return x * random.random() + np.random.rand(), random.choice([1, 2, 3])

    return [f(torch.ones(3)) for _ in range(3)], random.random(), np.random.rand()


@program("", "numpy's random numbers, its state, its new generators")
def numpy_random(compile):
    rng = np.random.default_rng(3)

    @compile
    def f(x):
        return x + np.random.rand(), np.random.randint(5), x * float(rng.random())

    np.random.seed(1)
    out = [f(torch.ones(3)) for _ in range(3)]
    return out, np.random.rand(), rng.random()


@program("", "a random branch")
def random_branch(compile):
    @compile
    def f(x):
        if random.random() < 0.5:
            return x + torch.rand(3)
        return x - torch.rand(3)

    random.seed(0)
    return [f(torch.ones(3)) for _ in range(6)], random.random()


@program("", "each distribution in program order")
def distributions(compile):
    @compile
    def f(x):
        a = torch.randn(3)
        b = torch.randint(0, 10, (3,))
        c = torch.randperm(5)
        d = torch.bernoulli(x * 0.5)
        e = torch.poisson(x * 3)
        g = torch.normal(x, 2.0)
        h = torch.empty(3).exponential_()
        i = torch.empty(3).log_normal_()
        j = torch.empty(3).geometric_(0.3)
        k = torch.empty(3).cauchy_()
        m = torch.multinomial(x, 2)
        n = torch.rand_like(x) + torch.randn_like(x)
        return a, b, c, d, e, g, h, i, j, k, m, n

    return f(torch.ones(3)), f(torch.ones(3)), torch.rand(2)


@program("", "draws that nobody uses still advance the state")
def unused_draws(compile):
    @compile
    def f(x):
        torch.rand(3)
        torch.nn.functional.dropout(x, 0.5)
        torch.randn(5)
        return x + 1

    return f(torch.ones(3)), torch.rand(2), f(torch.ones(3)), torch.rand(2)


@program("", "draws under no_grad and inference mode")
def draws_in_modes(compile):
    @compile
    def f(x):
        with torch.no_grad():
            a = torch.rand(3)
            torch.manual_seed(2)
            b = torch.rand(3)
        return a, b, x * torch.rand(3)

    x = torch.ones(3, requires_grad=True)
    out = f(x)
    out[2].sum().backward()
    return out, x, f(x), torch.rand(2)


@program("", "an initialisation of weights inside")
def initialise(compile):
    m = torch.nn.Linear(3, 2)

    @compile
    def f(x):
        torch.manual_seed(4)
        torch.nn.init.normal_(m.weight)
        torch.nn.init.uniform_(m.bias)
        return m(x)

    return f(torch.ones(1, 3)), m.weight, m.bias, torch.rand(2)


@program("", "a draw that fails at run time leaves what eager leaves")
def draw_then_failure(compile):
    @compile
    def f(x, i):
        y = torch.rand(3)
        return y.index_select(0, i) + x

    out = []
    try:
        f(torch.ones(1), torch.tensor([7]))
    except (RuntimeError, IndexError) as e:
        out.append(type(e))
    return out, torch.rand(2)


@program("", "a mode of the program's own makes torch import its compiler, which replaces torch.manual_seed")
def seeding_after_a_mode_was_used(compile):
    class Passing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    @compile
    def f(x):
        torch.manual_seed(3)
        return x + torch.rand(3), torch.get_rng_state()

    found = [f(torch.ones(3))]
    with Passing():
        torch.ones(2) + 1
    return *found, f(torch.ones(3)), f(torch.ones(3)), torch.rand(2)


@program("", "the same, compiled for the first time afterwards")
def seeding_first_after_a_mode_was_used(compile):
    class Passing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    @compile
    def f(x, state):
        torch.set_rng_state(state)
        a = torch.rand(3)
        torch.random.manual_seed(3)
        return x + torch.rand(3) + a

    state = torch.get_rng_state()
    with Passing():
        torch.ones(2) + 1
    torch.manual_seed(9)
    return f(torch.ones(3), state), f(torch.ones(3), state), f(torch.ones(3), state), torch.rand(2)


def laid_out(kind: str, numel: int) -> torch.Tensor:
    """Zeros whose memory isn't in the order of the dims, or has gaps."""
    rows, columns = (3, 3) if numel == 9 else (50, 100)
    if kind == "transposed":
        return torch.zeros(columns, rows).t()
    if kind == "channels last":
        return torch.zeros(3, rows, columns, 2)[0].permute(2, 0, 1)[None]
    if kind == "sliced":
        return torch.zeros(rows, columns * 2)[:, ::2]
    return torch.zeros(columns + 1, rows + 2)[1:, 1:-1].t()


DRAWS = {
    "bernoulli_": (0.5,),
    "uniform_": (1.0, 3.0),
    "normal_": (1.0, 2.0),
    "exponential_": (),
    "random_": (),
    "log_normal_": (),
    "cauchy_": (),
    "geometric_": (0.3,),
}
LAYOUTS = ("transposed", "channels last", "sliced", "both")


def drawn_into(compile, names, numel):
    torch.manual_seed(0)
    found = []
    for name in names:

        @compile
        def f(x):
            y = x * 1.0
            getattr(y, name)(*DRAWS[name])
            return y.mul(2), getattr(x, name)(*DRAWS[name])

        for kind in LAYOUTS:
            x = laid_out(kind, numel)
            found.append((f(x), x))
    return found, torch.rand(2)


@program("", "a few numbers are drawn into memory that isn't in the order of the dims")
def few_drawn_into_any_order(compile):
    return drawn_into(compile, DRAWS, 9)


@program("", "many numbers are drawn into memory that isn't in the order of the dims")
def many_drawn_into_any_order(compile):
    return drawn_into(compile, DRAWS, 5000)


@program("", "draws with bounds, with probabilities in a tensor, into a part of a tensor, and dropout, in the order of memory")
def drawn_in_the_order_of_memory(compile):
    @compile
    def f(x, p):
        x = x + 1
        a = torch.empty_like(x).random_(7)
        b = torch.empty_like(x).random_(-3, 9)
        c = torch.empty_like(x).bernoulli_(p)
        d = torch.empty_like(x).bernoulli_(p[:, :1].contiguous())
        e = torch.zeros_like(x)
        e[1:].normal_()
        e.t()[:, 0].uniform_()
        return a, b, c, d, e, F.dropout(x, 0.5), F.dropout2d(x[None, None], 0.5), F.gumbel_softmax(x), torch.normal(x, 1.0)

    @compile
    def trained(x):
        return F.dropout(x.t() * 2, 0.3).exp(), F.rrelu(-x.t(), training=True)

    torch.manual_seed(0)
    found = [f(laid_out(kind, 5000), torch.full((50, 100), 0.4)) for kind in ("transposed", "sliced", "both")]
    x = torch.ones(30, 40, requires_grad=True)
    first, second = trained(x)
    (first.sum() + second.sum()).backward()
    return found, first.detach(), x.grad, torch.rand(2)


@program("", "a checkpoint that does not preserve the random state draws again in its backward")
def checkpoints_without_state(compile):
    def dropped(x):
        return F.dropout(x.exp(), 0.5)

    def noisy(x):
        return x * torch.rand_like(x)

    def plain(x):
        return x.exp()

    found = []
    for body in (dropped, noisy, plain):
        for options in ({"use_reentrant": False}, {"use_reentrant": True}):
            for preserves in (True, False):

                @compile
                def f(x, body=body, options=options, preserves=preserves):
                    y = torch.utils.checkpoint.checkpoint(body, x * 2, preserve_rng_state=preserves, **options)
                    return y, torch.rand(2)

                x = torch.ones(40, requires_grad=True)
                torch.manual_seed(3)
                y, drawn = f(x)
                y.sum().backward()
                found.append((y, drawn, x.grad, torch.rand(2)))
                with torch.no_grad():
                    found.append((f(x), torch.rand(2)))
    return found
