"""`torch.distributions` in one graph, and branches on tensors whose other side only raises."""

from __future__ import annotations

import warnings

import torch
import torch.distributions as D
from torch import nn

from repro_corpus.program import program


@program("", "Normal: densities, samples, moments, with the checks of its arguments")
def normal(compile):
    @compile(fullgraph=True)
    def f(x):
        d = D.Normal(x, x.exp())
        return d.log_prob(x * 2), d.rsample(), d.sample((2,)), d.entropy(), d.cdf(x), d.icdf(x.sigmoid()), d.variance, d.mean

    torch.manual_seed(0)
    return f(torch.arange(3.0) / 3), f(torch.arange(4.0))


@program("", "a refused argument raises ValueError with eager's message, after the effects before it")
def refused_argument(compile):
    log = []

    @compile(fullgraph=True)
    def f(x):
        log.append("start")
        d = D.Normal(x, x)
        log.append("made")
        return d.log_prob(x)

    out = [f(torch.ones(2))]
    try:
        f(torch.tensor([1.0, -1.0]))
    except ValueError as e:
        out.append(str(e))
    return out, log, f(torch.full((2,), 3.0))


@program("", "a refused argument that the function itself handles, with random numbers drawn before")
def refused_inside(compile):
    @compile(fullgraph=True)
    def f(x):
        noise = torch.rand(2)
        try:
            d = D.Normal(x, x)
        except ValueError:
            d = D.Normal(x, x.abs() + 1)
        return d.sample() + noise

    torch.manual_seed(0)
    return f(torch.ones(2)), f(torch.tensor([1.0, -1.0])), torch.rand(2)


@program("", "a value outside of the support")
def refused_value(compile):
    @compile(fullgraph=True)
    def f(d, v):
        return d.log_prob(v)

    d = D.Bernoulli(logits=torch.zeros(2))
    out = [f(d, torch.ones(2))]
    try:
        f(d, torch.full((2,), 0.5))
    except ValueError as e:
        out.append(str(e))
    return out


@program("", "Categorical, Bernoulli, OneHotCategorical by logits and probabilities: lazy properties")
def categorical(compile):
    @compile(fullgraph=True)
    def f(x):
        a, b = D.Categorical(logits=x), D.Categorical(probs=x.softmax(-1))
        c, o = D.Bernoulli(logits=x), D.OneHotCategorical(logits=x)
        first = a.log_prob(torch.tensor([1])), a.entropy(), a.probs, b.logits, b.mode
        return first, a.sample(), c.probs, c.log_prob(torch.ones_like(x)), c.entropy(), o.log_prob(torch.tensor([0.0, 1, 0]))

    torch.manual_seed(0)
    return f(torch.arange(3.0) / 3), f(torch.ones(3))


@program("", "divergences are found by the types of both")
def divergences(compile):
    @compile(fullgraph=True)
    def f(x):
        a, b = D.Normal(x, x.exp()), D.Normal(0.0, 1.0)
        c, e = D.Categorical(logits=x), D.Categorical(logits=x * 2)
        return D.kl_divergence(a, b), D.kl_divergence(c, e), D.kl_divergence(D.Independent(a, 1), D.Independent(D.Normal(x, 1.0), 1))

    return f(torch.arange(3.0) / 3)


@program("", "positive, simplex and matrix constraints")
def constraints(compile):
    @compile(fullgraph=True)
    def f(x):
        m = D.MultivariateNormal(x, torch.eye(3) * 2)
        return (
            D.Beta(x.exp(), x.exp() + 1).log_prob(x.sigmoid()),
            D.Gamma(x.exp(), x.exp() + 1).log_prob(x.exp()),
            D.Dirichlet(x.exp()).log_prob(x.softmax(-1)),
            m.log_prob(x + 1),
            D.LowRankMultivariateNormal(x, torch.ones(3, 2), torch.ones(3)).log_prob(x),
            D.Uniform(x, x + 1).log_prob(x + 0.5),
        )

    return f(torch.arange(3.0) / 3)


@program("", "a matrix that is not symmetric, and one that is not positive definite, are refused")
def refused_matrix(compile):
    @compile(fullgraph=True)
    def f(m):
        return D.MultivariateNormal(torch.zeros(2), m).log_prob(torch.ones(2))

    out = []
    for m in (torch.eye(2), torch.tensor([[1.0, 2.0], [0.0, 1.0]]), torch.tensor([[1.0, 2.0], [2.0, 1.0]])):
        try:
            out.append(f(m))
        except ValueError as e:
            out.append(str(e))
    return out


@program("", "transformed distributions, whose transform keeps its last pair of values")
def transformed(compile):
    @compile(fullgraph=True)
    def f(x):
        d = D.TransformedDistribution(D.Normal(x, x.exp()), [D.transforms.TanhTransform(cache_size=1)])
        a = d.rsample()
        return a, d.log_prob(a), D.LogNormal(x, x.exp()).log_prob(x.exp())

    torch.manual_seed(0)
    return f(torch.arange(3.0) / 3)


@program("", "mixtures, independent and relaxed distributions")
def composed(compile):
    @compile(fullgraph=True)
    def f(x):
        n = D.Normal(x, x.exp())
        mixed = D.MixtureSameFamily(D.Categorical(logits=x), n).log_prob(x.sum())
        return mixed, D.Independent(n, 1).log_prob(x), D.RelaxedOneHotCategorical(torch.tensor(0.5), logits=x).rsample()

    torch.manual_seed(0)
    return f(torch.arange(3.0) / 3)


@program("", "a distribution made outside, and one that is the result")
def crossing(compile):
    @compile(fullgraph=True)
    def f(d, x):
        made = D.Normal(x, x.exp())
        return d.log_prob(x), d.rsample(), made

    torch.manual_seed(0)
    a, b, made = f(D.Normal(torch.zeros(3), torch.ones(3)), torch.ones(3))
    return a, b, made.loc, made.log_prob(torch.zeros(3)), sorted(made.__dict__)


@program("", "gradients of a policy: log probabilities and reparametrised samples")
def policy_gradient(compile):
    torch.manual_seed(0)
    m = nn.Linear(3, 4)

    @compile(fullgraph=True)
    def loss(x, a):
        mean, log_scale = m(x).chunk(2, -1)
        d = D.Normal(mean, log_scale.exp())
        s = d.rsample()
        return (d.log_prob(a).sum() + s.pow(2).sum() - d.entropy().mean()).mean()

    out = loss(torch.ones(2, 3), torch.zeros(2, 2))
    out.backward()
    return out, m.weight.grad


@program("", "asserts on tensors are checked by the graph, and raise as they do in eager")
def asserts(compile):
    @compile(fullgraph=True)
    def f(x, i):
        assert (x > 0).all(), "positive"
        assert not torch.isnan(x).any()
        if i.max() >= 3:
            raise IndexError(f"{int(i.max())} is out of range")
        return x[i] * 2

    out = []
    for x, i in ((torch.ones(3), 1), (-torch.ones(3), 1), (torch.full((3,), torch.nan), 1), (torch.ones(3), 3)):
        try:
            out.append(f(x, torch.tensor([i])))
        except (AssertionError, IndexError) as e:
            out.append((type(e).__name__, str(e)))
    return out


class Refused(Exception):
    pass


@program("", "an exception of the program's own, raised under a condition on tensors, with writes before and after")
def own_exception(compile):
    @compile(fullgraph=True)
    def f(x, limit):
        x += 1
        if x.sum() > limit:
            raise Refused(x.sum().item())
        x *= 2
        return x + 1

    x, out = torch.zeros(2), []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(4):
            try:
                out.append(f(x, 8))
            except Refused as e:
                out.append(e.args)
    return out, x


@program("", "a refusal in a loop and in a called function; several conditions in one `if`")
def refusal_in_loop(compile):
    def check(t, low, high):
        if t.min() < low or t.max() > high:
            if low > high:
                raise TypeError("limits")
            raise ValueError(f"not within {low} and {high}")
        return t

    @compile(fullgraph=True)
    def f(xs):
        return sum(check(x, 0, 5 + i) for i, x in enumerate(xs))

    out = [f([torch.ones(2), torch.full((2,), 6.0)])]
    try:
        f([torch.ones(2), torch.full((2,), 7.0)])
    except ValueError as e:
        out.append(str(e))
    return out


@program("", "a refusal beside an operator without result, whose graph can't be started over")
def refusal_beside_effect(compile):
    seen = []

    @torch.library.custom_op("dynamo_debug_capture::note", mutates_args=())
    def note(x: torch.Tensor) -> None:
        seen.append(x.sum().item())

    @note.register_fake
    def _(x):
        return None

    @compile
    def f(x):
        if x.sum() < 0:
            raise ValueError("negative")
        torch.ops.dynamo_debug_capture.note(x)
        if x.sum() > 5:
            raise ValueError("large")
        return x + 1

    out = []
    for v in (1.0, -1.0, 9.0):
        try:
            out.append(f(torch.full((2,), v)))
        except ValueError as e:
            out.append(str(e))
    return out, seen


@program("", "a condition of several elements is ambiguous as ever", raises="RuntimeError: Boolean value of Tensor with more than one")
def refusal_ambiguous(compile):
    @compile
    def f(x):
        if x > 0:
            raise ValueError("positive")
        return x

    return f(torch.ones(2))


@program("", "samplers of their own: Beta, Dirichlet, Binomial and what draws through them, with gradients")
def own_samplers(compile):
    @compile(fullgraph=True)
    def f(x):
        d = D.Beta(x.exp(), x.exp() + 1), D.Dirichlet(x.exp()), D.Gamma(x.exp(), x.exp() + 1), D.StudentT(x.exp() + 2)
        drawn = [k.rsample() for k in d] + [d[0].rsample((2,)), d[1].rsample((2, 1))]
        return [*drawn, *(k.log_prob(s.detach()) for k, s in zip(d, drawn, strict=False)), *(k.entropy() for k in d)]

    @compile(fullgraph=True)
    def g(x):
        p = x.sigmoid()
        return (
            D.Binomial(5, p).sample(),
            D.Binomial(torch.arange(3.0), p).sample((2,)),
            D.Multinomial(4, p).sample(),
            D.Poisson(x.exp()).sample(),
        )

    torch.manual_seed(0)
    out = []
    for x in (torch.arange(3.0) / 3, torch.arange(6.0).view(3, 2).t()[0] / 4, torch.ones(3, dtype=torch.float64)):
        x = x.clone().requires_grad_()
        y = f(x)
        sum(k.sum() for k in y).backward()
        out.append((y, x.grad, g(x.detach())))
    return out, torch.rand(2)


@program("", "divergences of lower-rank normals, whose batches are put together")
def divergences_of_matrices(compile):
    @compile(fullgraph=True)
    def f(x):
        a, b = D.MultivariateNormal(x, torch.eye(3)), D.MultivariateNormal(-x, torch.eye(3) * 2)
        c = D.LowRankMultivariateNormal(x, torch.ones(3, 2), torch.ones(3))
        return D.kl_divergence(a, b), D.kl_divergence(c, a), D.kl_divergence(a, c), D.kl_divergence(c, c)

    return f(torch.arange(3.0) / 3), f(torch.arange(6.0).view(2, 3) / 3)


@program("", "validation switched on and off: by argument, for the process, between calls")
def validation(compile):
    @compile
    def f(x, v):
        return D.Normal(0.0, x, validate_args=v).log_prob(x), D.Uniform(x, x + 1, validate_args=v).log_prob(x + 2)

    def tried(x, v):
        try:
            return f(x, v)
        except ValueError as e:
            return str(e)

    out = []
    for default in (True, False, True):
        D.Distribution.set_default_validate_args(default)
        out += [tried(torch.tensor(x), v) for x in ([1.0, 2.0], [1.0, -1.0]) for v in (None, True, False)]
    return out


@program("", "parameters that are refused: by value, by shape, by type, both given, none given")
def refused_parameters(compile):
    makers = (
        lambda x: D.Normal(torch.zeros(4), x),
        lambda x: D.Beta(x, 1.0).log_prob(torch.tensor(0.5)),
        lambda x: D.Uniform(x, 1.5).log_prob(x),
        lambda x: D.Bernoulli(x).log_prob(x),
        lambda x: D.Categorical(x).log_prob(torch.tensor(5)),
        lambda x: D.Categorical(x, x),
        lambda x: D.Bernoulli(),
        lambda x: D.MultivariateNormal(torch.zeros(3), torch.diag(x)).log_prob(x),
        lambda x: D.Independent(D.Normal(0.0, x), 2),
        lambda x: D.kl_divergence(D.Cauchy(0.0, x), D.VonMises(0.0, x)),
        lambda x: D.Gamma(1.0, 1.0).log_prob(-x),
        lambda x: D.Exponential(x).icdf(x),
        lambda x: D.Normal(0.0, x, validate_args=False).log_prob("a"),
    )
    out = []
    for make in makers:
        f = compile(make)
        for row in ([1.0, 1.0, 1.0], [1.0, -1.0, 2.0], [float("nan"), 1.0, 1.0]):
            try:
                made = f(torch.tensor(row))
                out.append(made if isinstance(made, torch.Tensor) else type(made).__name__)
            except (ValueError, RuntimeError, TypeError, NotImplementedError, AttributeError, IndexError) as e:
                out.append((type(e).__name__, str(e)))
    return out


@program("", "helpers that return the truth of a tensor, of which a caller's other side raises")
def returned_truths(compile):
    def all_of(x, error_message=""):
        return bool((x > 0).all())

    class Checked(nn.Module):
        def is_finite(self, x):
            return bool(torch.isfinite(x).all())

        def forward(self, x):
            if not self.is_finite(x):
                raise ValueError(f"not finite: {x}")
            return x + 1

    def f(x):
        if not all_of(x, error_message="positive"):
            raise ValueError(f"bad {x}")
        if bool((x > 100).any()):
            raise KeyError("large")
        return x * 2

    out = []
    for fn in (compile(f, fullgraph=True), compile(Checked(), fullgraph=True)):
        for x in (torch.ones(3), -torch.ones(3), torch.full((3,), 200.0), torch.full((3,), torch.inf)):
            try:
                out.append(fn(x))
            except (ValueError, KeyError) as e:
                out.append((type(e), str(e)))
    return out


@program("", "truths of tensors that are returned through something else than a call, or to no branch")
def kept_truths(compile):
    def positive(t):
        return bool(t.sum() > 0)

    class Has:
        def __init__(self, x):
            self.x = x

        def __contains__(self, v):
            return bool((self.x == v).any())

    def f(x):
        if v not in Has(x):
            raise KeyError(v)
        if not max([x, -x], key=positive).sum() > 0:
            raise ValueError("no positive sum")
        flag = positive(x)
        return x + 1 if flag else x - 1, flag, [t for t in (x, -x) if positive(t)]

    out = []
    v = 1.0
    g = compile(f)
    for x in (torch.ones(3), -torch.ones(3), torch.tensor([1.0, -2.0])):
        try:
            out.append(g(x))
        except (ValueError, KeyError) as e:
            out.append((type(e), str(e)))
    return out
