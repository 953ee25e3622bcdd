"""The order of writes to one buffer: a scatter comes behind what fills its target, and the verifier refuses any other order."""

from __future__ import annotations

import pytest
import torch

import dynamo
from inductor.ir.affine import Axis, of_atom
from inductor.ir.expr import const as value
from inductor.ir.expr import load, reduce
from inductor.ir.nest import Buffer, Nest, Program, Store, View
from inductor.ir.verify import VerifyError
from inductor.schedule.check import verify_plan
from inductor.schedule.plan import Plan, schedule
from inductor.targets import registry


def between(x, y, i):
    """What fills the target of `index_fill` shares loops with `x.amax`, and this with what stands behind the scatter."""
    top = x.amax(-1, keepdim=True)
    filled = x.index_fill(0, i, 0.5)
    return filled, y.amax(-1, keepdim=True) * x + top * y


def attention(x, y, i):
    return x.softmax(-1).index_fill(0, i, 0.0), y.softmax(-1) * x.sum(-1, keepdim=True)


SCATTERS = {
    "index_fill": lambda x, i: x.index_fill(0, i, 0.5),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:1] * 2),
    "index_add": lambda x, i: x.index_add(0, i, x[:1]),
    "index_put": lambda x, i: x.index_put((i,), x[:1].exp()),
    "scatter": lambda x, i: x.scatter(0, i.expand(4, 1).T, x[:1].exp()),
    "select_scatter": lambda x, i: x.select_scatter(x[0].exp(), 0, 1),
}


@pytest.mark.parametrize("name", SCATTERS)
@pytest.mark.parametrize("shape", [(3, 4), (16, 4), (1, 4)])
def test_a_scatter_comes_behind_what_fills_its_target(name, shape):
    def f(x, y, i):
        top = x.amax(-1, keepdim=True)
        return SCATTERS[name](x, i), y.amax(-1, keepdim=True) * x + top * y

    x, y, i = torch.randn(shape), torch.randn(shape), torch.tensor([shape[0] // 2])
    if name == "select_scatter" and shape[0] == 1:
        x, y = torch.randn(2, 4), torch.randn(2, 4)
    torch.testing.assert_close(dynamo.compile(f)(x, y, i), f(x, y, i))


@pytest.mark.parametrize("f", [between, attention])
def test_gradients_beside_reductions(f):
    def gradients(f):
        x, y = (torch.linspace(start, 1, 12).view(3, 4).requires_grad_() for start in (-1, 0))
        outputs = f(x, y, torch.tensor([1]))
        return [*outputs, *torch.autograd.grad([(o * o).sum() for o in outputs], [x, y])]

    torch.testing.assert_close(gradients(dynamo.compile(f)), gradients(f))


def scattered() -> Plan:
    """b0 is filled by n0 and n1 stores onto it where a1 says; n2 keeps n0 and n3 apart."""
    i, r = Axis("i", 3), Axis("r", 4)
    j = Axis("j", 3)
    names = [("a0", "input"), ("a1", "input"), ("b0", "temp"), ("b1", "temp")]
    dtypes = {"a1": torch.int64}
    buffers = {n: Buffer(n, dtypes.get(n, torch.float32), (3,), (1,), kind) for n, kind in names}
    buffers["a0"] = Buffer("a0", torch.float32, (3, 4), (4, 1), "input")
    place = load("a1", "i64", of_atom(j))
    fill = Nest("n0", (i,), (Store("b0", of_atom(i), value(0.0, "f32")),))
    onto = Nest("n1", (j,), (Store("b0", of_atom(Axis("$0", 3)), value(1.0, "f32"), "add", (place,)),))
    total = reduce("sum", load("a0", "f32", of_atom(i) * 4 + of_atom(r)), (r,))
    other = Nest("n2", (i,), (Store("b1", of_atom(i), total),))
    outputs = [View(b, (3,), (1,), 0) for b in ("b0", "b1")]
    program = Program(buffers, ["a0", "a1"], {}, [fill, onto, other], outputs)
    return schedule(program, registry.target("cpu"))


@pytest.mark.parametrize("turn", [lambda x: x.t(), lambda x: x.flip(0), lambda x: x.view(2, 3, 2).permute(2, 0, 1), lambda x: x[1:, ::2]])
@pytest.mark.parametrize("read", [lambda y, z: z[0, 0] > y[0, 0], lambda y, z: y.view(-1)[3:4] * z[1, 1], lambda y, z: z[2] + y[0, 1]])
def test_an_input_is_read_in_rows_and_written_otherwise_behind_a_single_value(turn, read, recwarn):
    """The loops of what reads the input merge, those of what writes it do not."""

    def f(x, w):
        y, z = x * 1.0, w + 0.5
        found = read(y, z)
        turned = turn(x)
        turned.add_(turn(z) if turned.shape != (4, 3) else z.reshape(4, 3)).mul_(2)
        return y, z, found

    x, w = torch.randn(3, 4), torch.randn(3, 4)
    ours = x.clone()
    torch.testing.assert_close(dynamo.compile(f)(ours, w), f(x, w))
    torch.testing.assert_close(ours, x)
    assert not [str(w.message) for w in recwarn]


def test_the_verifier_refuses_a_fill_behind_a_scatter():
    plan = scattered()
    verify_plan(plan)
    at = next(k for k, step in enumerate(plan.steps) if "n1" in [m.name for s in step.stages for m in s.members])
    plan.steps.insert(0, plan.steps.pop(at))
    with pytest.raises(VerifyError, match="n1 stores onto b0, which n0 writes no earlier"):
        verify_plan(plan)
