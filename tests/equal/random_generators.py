"""Explicit generators of random numbers: the draws of a compiled program and the generator's state afterwards are eager's."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from repro_corpus.program import program


def after(g):
    return torch.rand(2, generator=g), torch.rand(2), g.initial_seed()


@program("", "a generator that is an attribute of an object")
def attribute(compile):
    class Noise:
        def __init__(self):
            self.g = torch.Generator().manual_seed(3)

        def __call__(self, x):
            return x + torch.randn(x.shape, generator=self.g)

    n = Noise()
    f = compile(n)
    return f(torch.ones(3)), f(torch.ones(3)), f(torch.ones(2, 2)), after(n.g)


@program("", "a generator that is an attribute of a module, in training and not")
def module_attribute(compile):
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.g = torch.Generator().manual_seed(3)
            self.w = torch.nn.Linear(3, 3)

        def forward(self, x):
            y = self.w(x)
            if self.training:
                y = y + torch.empty_like(y).normal_(0, 0.1, generator=self.g)
            return F.dropout(y, 0.5, self.training)

    m = M()
    c = compile(m)
    x = torch.ones(2, 3)
    out = [c(x), c(x)]
    sum(o.sum() for o in out).backward()
    m.eval()
    return out, c(x), after(m.g), list(m.parameters())


@program("", "a generator in a closure")
def closure(compile):
    g = torch.Generator().manual_seed(5)

    @compile
    def f(x):
        return torch.rand(3, generator=g) * x, torch.randint(0, 9, (4,), generator=g)

    return f(torch.ones(3)), f(torch.ones(3)), after(g)


@program("", "a closure's generator is replaced between calls")
def closure_replaced(compile):
    g = torch.Generator().manual_seed(5)

    @compile
    def f(x):
        return torch.rand(3, generator=g) * x

    a = f(torch.ones(3))
    old, g = g, torch.Generator().manual_seed(6)
    return a, f(torch.ones(3)), f(torch.ones(3)), after(old), after(g)


@program("", "generators in containers")
def containers(compile):
    @compile
    def f(x, gs):
        a = torch.rand(3, generator=gs["a"][0])
        b = [torch.randn(2, generator=g) for g in gs["b"]]
        return x + a, b

    gs = {"a": (torch.Generator().manual_seed(1),), "b": [torch.Generator().manual_seed(i) for i in range(3)]}
    return f(torch.ones(3), gs), f(torch.ones(3), gs), [after(g) for g in (*gs["a"], *gs["b"])]


@program("", "randn in a loop")
def loop(compile):
    @compile
    def f(x, g):
        for i in range(4):
            x = x + torch.randn(x.shape, generator=g) * i
        return x

    g = torch.Generator().manual_seed(5)
    return f(torch.ones(3), g), f(torch.ones(3), g), after(g)


@program("", "one compiled function, a loop outside, other shapes")
def loop_outside(compile):
    f = compile(lambda n, g: torch.randn(n, generator=g).cumsum(0))
    g = torch.Generator().manual_seed(5)
    return [f(n, g) for n in (1, 2, 3, 20, 3)], after(g)


@program("", "randperm, multinomial, bernoulli_, normal_, dropout beside them")
def kinds(compile):
    @compile
    def f(x, g):
        a = torch.randperm(5, generator=g)
        b = torch.multinomial(x, 2, generator=g)
        c = torch.empty(4).bernoulli_(0.4, generator=g)
        d = torch.empty(4).normal_(1, 2, generator=g)
        e = F.dropout(x, 0.5)
        return a, b, c, d, e, x[torch.randperm(4, generator=g)]

    g = torch.Generator().manual_seed(5)
    x = torch.rand(4)
    return f(x, g), f(x, g), after(g)


@program("", "multinomial with replacement, randperm of other types")
def kinds_of_permutation(compile):
    @compile
    def f(x, g):
        return (
            torch.multinomial(x, 6, True, generator=g),
            x.multinomial(3, generator=g),
            torch.randperm(6, generator=g, dtype=torch.int32),
            torch.randint(3, (4,), generator=g),
            torch.randint(low=2, high=8, size=(4,), generator=g, dtype=torch.int32),
        )

    g = torch.Generator().manual_seed(5)
    x = torch.rand(4)
    return f(x, g), f(x, g), after(g)


@program("", "the other distributions drawn in place")
def kinds_in_place(compile):
    @compile
    def f(x, g):
        return [
            torch.empty(3).uniform_(generator=g),
            torch.empty(3).exponential_(2.0, generator=g),
            torch.empty(3).cauchy_(generator=g),
            torch.empty(3).log_normal_(generator=g),
            torch.empty(3).geometric_(0.2, generator=g),
            torch.empty(3, dtype=torch.int64).random_(0, 10, generator=g),
            torch.empty(3).random_(generator=g),
            torch.empty(3).bernoulli_(x, generator=g),
            torch.bernoulli(x, generator=g),
            x.bernoulli(0.3, generator=g),
            torch.poisson(x * 4, generator=g),
            torch.normal(0.0, 1.0, (3,), generator=g),
            torch.normal(x, 1.0, generator=g),
            torch.normal(0.0, x, generator=g),
            torch.normal(x, x, generator=g),
            torch.binomial(torch.full((3,), 9.0), x, generator=g),
        ]

    g = torch.Generator().manual_seed(5)
    x = torch.rand(3)
    return f(x, g), f(x, g), after(g)


@program("", "sample functions of torch.nn with a generator")
def initialisers(compile):
    @compile
    def f(g):
        with torch.no_grad():
            w = torch.nn.init.kaiming_uniform_(torch.empty(3, 3), generator=g)
            v = torch.nn.init.trunc_normal_(torch.empty(3), generator=g)
            u = torch.nn.init.xavier_normal_(torch.empty(3, 2), generator=g)
            o = torch.nn.init.orthogonal_(torch.empty(3, 3), generator=g)
        return w, v, u, o

    g = torch.Generator().manual_seed(5)
    return f(g), f(g), after(g)


@program("", "a draw with a generator in a function that is differentiated")
def differentiated(compile):
    @compile
    def f(x, g):
        mask = torch.rand(x.shape, generator=g) > 0.5
        return (x.sin() * mask * torch.randn(x.shape, generator=g)).sum()

    g = torch.Generator().manual_seed(5)
    x = torch.rand(6, requires_grad=True)
    a = f(x, g)
    b = f(x, g)
    (a * b).backward()
    return a, b, x, after(g)


@program("", "create_graph through draws with a generator")
def differentiated_twice(compile):
    @compile
    def f(x, g):
        return (x**3 * torch.rand(x.shape, generator=g)).sum()

    g = torch.Generator().manual_seed(5)
    x = torch.rand(6, requires_grad=True)
    (d,) = torch.autograd.grad(f(x, g), x, create_graph=True)
    d.sum().backward()
    return d, x, after(g)


@program("", "a checkpointed region draws from a generator")
def checkpointed(compile):
    g = torch.Generator().manual_seed(5)

    def body(x):
        return x.sin() * torch.rand(4, generator=g)

    @compile
    def f(x):
        return torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False, preserve_rng_state=False) * 2

    x = torch.rand(4, requires_grad=True)
    y = f(x)
    y.sum().backward()
    return y, x, after(g)


@program("", "a break between draws")
def over_a_break(compile):
    @compile
    def f(x, g):
        a = torch.rand(3, generator=g)
        print("break")
        b = torch.rand(3, generator=g)
        if (a.sum() > 0).item():
            b = b + torch.randn(3, generator=g)
        return a, b, x * 2

    g = torch.Generator().manual_seed(5)
    return f(torch.ones(3), g), f(torch.ones(3), g), after(g)


@program("", "a draw that fails leaves the generator as eager does")
def draw_then_failure(compile):
    @compile
    def f(x, i, g):
        y = torch.rand(3, generator=g)
        return y.index_select(0, i) + x

    g = torch.Generator().manual_seed(5)
    try:
        f(torch.ones(1), torch.tensor([7]), g)
    except (RuntimeError, IndexError) as e:
        return type(e), after(g)
    return None


@program("", "None as generator, and one or none by an option")
def optional(compile):
    @compile
    def f(x, g=None):
        return x + torch.rand(3, generator=g)

    g = torch.Generator().manual_seed(5)
    return f(torch.ones(3)), f(torch.ones(3), g), f(torch.ones(3)), f(torch.ones(3), g=g), after(g)


@program("", "clone_state, get_state, set_state, seed, device and identity")
def methods(compile):
    @compile
    def f(x, g, h):
        c = g.clone_state()
        a = torch.rand(3, generator=c)
        b = torch.rand(3, generator=g)
        h.set_state(g.get_state())
        return a, b, torch.rand(3, generator=h), g.device, g is h, x + 1

    g, h = torch.Generator().manual_seed(5), torch.Generator()
    return f(torch.ones(3), g, h), f(torch.ones(3), g, h), after(g), after(h)


@program("", "fork of a generator's state by hand")
def replayed(compile):
    @compile
    def f(x, g):
        state = g.get_state()
        a = x + torch.randn(3, generator=g)
        g.set_state(state)
        b = x + torch.randn(3, generator=g)
        g.manual_seed(9)
        return a, b, torch.randn(3, generator=g)

    g = torch.Generator().manual_seed(5)
    return f(torch.ones(3), g), f(torch.ones(3), g), after(g)


@program("", "a generator seeded outside between calls")
def seeded_outside(compile):
    g = torch.Generator()
    f = compile(lambda x: x + torch.randn(3, generator=g))
    out = []
    for seed in (1, 2, 1):
        g.manual_seed(seed)
        out.append(f(torch.ones(3)))
    return out, after(g)


@program("", "a function compiled twice draws from one generator")
def compiled_twice(compile):
    g = torch.Generator().manual_seed(5)

    def f(x):
        return x + torch.randn(3, generator=g)

    a, b = compile(f), compile(f)
    return a(torch.ones(3)), b(torch.ones(3)), f(torch.ones(3)), a(torch.ones(3)), after(g)


@program("", "a diffusion step and a sampler of tokens")
def samplers(compile):
    @compile
    def step(x, t, g):
        noise = torch.randn(x.shape, generator=g, dtype=x.dtype, device=x.device)
        return x * (1 - t) + noise * t

    @compile
    def sample(logits, g):
        return torch.multinomial(torch.softmax(logits, -1), 1, generator=g)

    g = torch.Generator().manual_seed(5)
    x = torch.rand(2, 3)
    for i in range(3):
        x = step(x, torch.tensor(i / 4), g)
    return x, [sample(x, g) for _ in range(3)], after(g)


@program("", "rand_like and others with a generator")
def like(compile):
    @compile
    def f(x, g):
        return torch.rand_like(x, generator=g), torch.randn_like(x, generator=g), torch.randint_like(x, 0, 5, generator=g)

    g = torch.Generator().manual_seed(5)
    return f(torch.ones(3), g), f(torch.ones(3), g), after(g)


@program("", "out= and a generator")
def out_argument(compile):
    @compile
    def f(x, g):
        a, b = torch.empty(3), torch.empty(4, dtype=torch.int64)
        torch.rand(3, generator=g, out=a)
        torch.randperm(4, generator=g, out=b)
        return a + x, b

    g = torch.Generator().manual_seed(5)
    return f(torch.ones(3), g), f(torch.ones(3), g), after(g)


@program("", "random_split and a sampler with a generator inside")
def data_split(compile):
    @compile
    def f(x, g):
        a, b = torch.utils.data.random_split(range(6), [4, 2], generator=g)
        return x + len(a), list(a.indices), list(b.indices)

    g = torch.Generator().manual_seed(5)
    return f(torch.ones(3), g), f(torch.ones(3), g), after(g)


@program("", "a custom function draws from a generator in forward and backward")
def custom_function(compile):
    g, h = torch.Generator().manual_seed(5), torch.Generator().manual_seed(6)

    class Noisy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * torch.rand(x.shape, generator=g)

        @staticmethod
        def backward(ctx, d):
            return d + torch.rand(d.shape, generator=h)

    @compile
    def f(x):
        return (Noisy.apply(x.sin()) * torch.rand(3, generator=h)).sum()

    x = torch.rand(3, requires_grad=True)
    a, b = f(x), f(x)
    a.backward()
    b.backward()
    return a, b, x, after(g), after(h)


@program("", "a failure after draws from several generators, in a function that goes on")
def caught_failure(compile):
    @compile
    def f(x, i, g, h):
        y = torch.rand(3, generator=g)
        try:
            y = y + torch.randn(3, generator=h)
            y = y.index_select(0, i)
        except IndexError:
            y = y * 2
        return y + torch.rand(3, generator=g) + x

    g, h = torch.Generator().manual_seed(5), torch.Generator().manual_seed(6)
    return [f(torch.ones(3), torch.tensor([0, n, 1]), g, h) for n in (1, 8, 2)], after(g), after(h)


@program("", "gradients twice through draws from several generators")
def several_differentiated_twice(compile):
    g, h = torch.Generator().manual_seed(5), torch.Generator().manual_seed(6)

    @compile
    def f(x):
        y = F.dropout(x, 0.5) ** 3 * torch.rand(x.shape, generator=g)
        return (y * torch.empty_like(y).normal_(generator=h)).sum()

    x = torch.rand(6, requires_grad=True)
    y = f(x)
    noise = torch.rand(2, generator=g), torch.rand(2)
    (d,) = torch.autograd.grad(y, x, create_graph=True)
    d.sum().backward()
    return y, noise, d, x, after(g), after(h)


@program("", "a new generator for every call, also where the default one comes in between")
def new_at_every_call(compile):
    @compile
    def f(x, g):
        return x + torch.randn(3, generator=g, device=g.device), torch.rand(2)

    torch.manual_seed(0)
    found = []
    for i in range(6):
        g = torch.Generator().manual_seed(i)
        found.append((f(torch.ones(3), g), f(torch.ones(3), g), after(g)))
        if i % 2:
            found.append((f(torch.ones(3), torch.default_generator), after(torch.default_generator)))
    return found


@program("", "new generators, twice the same one and two of them, one of which stays")
def new_beside_one_that_stays(compile):
    stays = torch.Generator().manual_seed(9)

    @compile
    def f(a, b):
        x = torch.rand(2, generator=a)
        y = torch.rand(2, generator=b)
        return x, y, torch.rand(2, generator=stays), torch.rand(2, generator=a)

    found = []
    for i in range(4):
        g, h = torch.Generator().manual_seed(i), torch.Generator().manual_seed(i + 10)
        found += [f(g, h), f(g, g), f(stays, h), f(g, stays), f(h, g), after(g), after(h)]
    return found, after(stays)


@program("", "new generators in a function that breaks, that fails, and that is differentiated")
def new_where_things_happen(compile):
    @compile
    def f(x, n):
        g = torch.Generator().manual_seed(n)
        return x * torch.rand(3, generator=g), torch.randn(2, generator=g)

    @compile
    def fails(x, g):
        y = torch.rand(3, generator=g)
        return torch.linalg.cholesky(x) + y

    found = []
    for i in range(4):
        x = torch.ones(3, requires_grad=True)
        a, b = f(x, i)
        (a * a).sum().backward()
        found.append((a, b, x.grad))
        g = torch.Generator().manual_seed(i)
        for sign in (1, -1):
            try:
                found.append(fails(torch.eye(3) * sign, g))
            except RuntimeError as e:
                found.append(type(e).__name__)
        found.append(after(g))
    return found


@program("", "new generators and second derivatives")
def new_and_differentiated_twice(compile):
    @compile
    def f(x, g):
        return (x**3 * torch.rand(3, generator=g)).sum()

    found = []
    for i in range(4):
        x = torch.full((3,), 2.0, requires_grad=True)
        g = torch.Generator().manual_seed(i)
        loss = f(x, g)
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        found += [slope, torch.autograd.grad(slope.sum(), x), after(g)]
    return found


@program("", "new generators that draw in a checkpoint and outside of it")
def new_in_checkpoints(compile):
    @compile
    def f(x, g):
        a = x * torch.rand(3, generator=g)
        b = torch.utils.checkpoint.checkpoint(lambda t: (t * torch.rand(3, generator=g)).sin(), a, use_reentrant=False)
        return b + torch.rand(3, generator=g)

    found = []
    for i in range(4):
        x, g = torch.ones(3, requires_grad=True), torch.Generator().manual_seed(i)
        y = f(x, g)
        y.sum().backward()
        found += [y, x.grad, after(g)]
    return found
