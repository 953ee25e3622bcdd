"""A registry that looks at decorated functions as frameworks do: kind, file, signature, hints, attributes, pickles and copies.

first: one graph
says: compiled whole: 1 function, 1 graph, no breaks, no recompiles
report: compiled, breaks=0
"""

import copy
import functools
import inspect
import pickle
import pydoc
import types
import typing

import torch


def tagged(fn):
    fn.tag = "step"
    return fn


@torch.compile(backend="eager")
@tagged
def step(x: torch.Tensor, rate: float = 2.0, *, sign: "bool" = False) -> torch.Tensor:
    """One step."""
    return x * rate


class Steps:
    @torch.compile(backend="eager")
    def one(self, x):
        return x + 1


def logged(fn):
    @functools.wraps(fn)
    def inner(*args, **kwargs):
        return fn(*args, **kwargs)

    return inner


def plain(x):
    return x


for fn in (step, Steps.one, Steps().one):
    print(inspect.isfunction(fn), inspect.ismethod(fn), isinstance(fn, types.FunctionType | types.MethodType))
    print(inspect.getfile(fn).rpartition(".")[2], inspect.signature(fn), inspect.getmodule(inspect.unwrap(fn)).__name__)
    print(inspect.getsource(fn).splitlines()[-1].strip(), typing.get_type_hints(fn))
print(step.tag, vars(logged(step))["tag"], logged(step).__doc__, repr(step).split(" at ")[0])
print(pickle.loads(pickle.dumps(step)) is step, copy.deepcopy(step) is step, pickle.loads(pickle.dumps(Steps.one)) is Steps.one)
print([name for name, _ in inspect.getmembers(Steps, inspect.isfunction)], pydoc.render_doc(step, renderer=pydoc.plaintext).splitlines()[0])
try:
    pickle.dumps(torch.compile(plain, backend="eager"))
except pickle.PicklingError as e:
    print("not pickled:", str(e).split(" at ")[0])
match step:
    case types.FunctionType():
        print(logged(step)(torch.ones(2), rate=3.0).tolist())
