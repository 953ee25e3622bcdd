"""Tensors that share memory with one that an `out=` gives another shape, or with themselves."""

from __future__ import annotations

import torch

from repro_corpus.program import program


@program("", "views, aliases and parts of what an `out=` resizes keep their shapes and see the new contents")
def views_of_what_is_resized(compile):
    @compile
    def empty(x):
        a = torch.empty(0)
        v = a.view(0)
        torch.add(x, 1, out=a)
        return a, v.shape, v

    @compile
    def grown(x):
        a = torch.empty(2)
        v, w, d = a.view(2, 1), a[1:], a.detach()
        torch.add(x, 1, out=a)
        v.mul_(2)
        return a, v, d, w

    @compile
    def by_an_alias(x):
        a = x[:0] * 2
        d = a.detach()
        torch.add(x, 1, out=d)
        e = d[1:]
        e.mul_(3)
        return a, d, e

    @compile
    def written_afterwards(x):
        a = torch.empty(2)
        v = a.view(2, 1)[1:]
        torch.add(x, 1, out=a)
        a.mul_(2)
        return v * 2, v

    @compile
    def twice(x):
        a = torch.empty(0)
        torch.add(x[:2], 1, out=a)
        b = a[:1]
        torch.add(x, 2, out=a)
        return b * 1, a

    return [f(torch.ones(3)) for f in (empty, grown, by_an_alias, written_afterwards, twice)]


@program("", "a part of an expanded input is written: all that shows that element changes")
def part_of_an_expanded_input(compile):
    @compile
    def f(b):
        last = b.split(2, 0)[-1]
        last.copy_(last + 1)
        return b * 2, last * 1

    @compile
    def g(b):
        b[:, 1:2][0].mul_(2)
        return b * 2

    x, y = torch.ones(1).expand(7), torch.ones(1, 3).expand(4, 3)
    return f(x), g(y), x, y


@program("", "what turns a tensor in place counts as a write of it each time, also where its shape stays")
def versions_of_turned_tensors(compile):
    bodies = [
        lambda x: x.squeeze_(1),
        lambda x: x.squeeze_().unsqueeze_(0).t_(),
        lambda x: x.t_().t_(),
        lambda x: x.view(-1).unsqueeze_(0),
        lambda x: x.add_(1).t_().mul_(2),
        lambda x: x.transpose_(0, 1).mul_(2).transpose_(0, 1),
        lambda x: (x.unsqueeze_(0), x * 2)[1],
        lambda x: x.swapaxes_(0, 1).squeeze_(),
        lambda x: x.detach().t_(),
    ]
    found = []
    for body in bodies:
        for needs in (False, True):
            leaf = torch.arange(3.0).view(1, 3).requires_grad_(needs)
            x = leaf * 1
            result = compile(body)(x)
            found += [x._version, x.shape, x.stride(), result.detach().clone()]
    return found


@program("", "an argument that an `out=` resizes after it was written to has the new shape and contents")
def an_argument_is_resized(compile):
    @compile
    def written_whole(x, a):
        a.mul_(2)
        torch.sum(x, 0, out=a)
        return a + 1

    @compile
    def written_in_part(x, a):
        a[:, :2] = 100
        torch.sum(x, 0, out=a)
        return a + 1

    def memory(f, a):
        return f(torch.arange(12.0).view(2, 3, 2), a), a

    return [
        memory(f, a) for f in (written_whole, written_in_part) for a in (torch.ones(2, 3, 2), torch.ones(5, 0), torch.ones(1, 9).half())
    ]
