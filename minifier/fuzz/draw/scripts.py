"""Programs as scripts that anyone can run alone: the program, how it is run, and the comparison with eager."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path

from minifier.fuzz.draw import python_programs, values
from minifier.fuzz.draw.tensor_programs import Program

_IMPORT = "from minifier.fuzz.draw.values import comparable, make\n"
_TAIL = """

def run(compile):
    torch.manual_seed(0)
    return comparable([program(compile), torch.rand(2)])


def eager(fn):
    return fn


def compiled(fn):
    return torch.compile(fn)


if __name__ == "__main__":
    torch.testing.assert_close(run(compiled), run(eager), rtol=1e-3, atol=1e-3, equal_nan=True)
"""
_COMPARED = _TAIL[_TAIL.rindex("    torch.testing") :]
_RAISING = """    try:
        run(eager)
    except Exception as error:
        wanted = type(error)
    try:
        run(compiled)
    except wanted:
        pass
    else:
        raise AssertionError("compiled code does not raise " + wanted.__name__)
"""
_SEED = re.compile(r", (\d+)\)$")
_STEP = 10  # between the seeds of inputs of two calls


def script_of(text: str, engine: str) -> str:
    """The script of a program `text`, which defines `program(compile)`. One for torch's compiler needs nothing but torch."""
    given = _IMPORT if engine == "dynamo" else _own_values()
    return "import torch\n" + given + text.strip() + "\n" + _TAIL


def raising(script: str) -> str:
    """The same for a program that raises in eager: compiled code has to raise the same."""
    return script.replace(_COMPARED, _RAISING)


def of_tensors(program: Program) -> str:
    """Two calls with other values, and gradients of a weighted sum of the results."""
    made = []
    for name, text in program.inputs:
        made.append(f"    {name} = " + _SEED.sub(lambda found: f", {found[1]} + at)", text))
    made += [f"    {name}.requires_grad_()" for name in program.grads]
    names = [name for name, _ in program.inputs]
    inputs = "\n".join([*made, f"    return [{', '.join(names)}]"])
    return _TENSORS.format(function=program.function(), inputs=inputs, step=_STEP)


_TENSORS = """import torch.nn.functional as F


{function}

def inputs(at):
{inputs}


def program(compile):
    call, seen = compile(f), []
    for at in (0, {step}):
        args = inputs(at)
        results = call(*args)
        leaves = [a for a in args if a.requires_grad and a.is_leaf]
        roots = [r for r in results if r.requires_grad and not any(r is leaf for leaf in leaves)]
        weights = [(torch.arange(r.numel()) % 5 - 1.5).to(r.dtype).view(r.shape) for r in roots]
        grads = torch.autograd.grad(roots, leaves, weights, allow_unused=True) if leaves and roots else ()
        seen.append([results, args, grads])
    return seen
"""


def of_python(text: str) -> str:
    """Three calls; what they leave in their arguments and in the module counts too."""
    return python_programs.PRELUDE + textwrap.dedent(text) + _PYTHON


_PYTHON = """
def program(compile):
    call, seen = compile(f), []
    base = torch.tensor([0.5, -1.25, 2.0])
    for x, n, flag, d, k in ((base, 2, True, {"a": 1, "b": 4}, 1), (base + 1, 2, True, {"a": 1}, 1), (-base, 0, False, {"a": 3}, 5)):
        args = [x.clone(), base.cos(), n, flag, [base * 2, base - 1], d, Box(base.sin(), k)]
        seen.append([call(*args), args, TOTAL])
    return seen
"""


def _own_values() -> str:
    """The helpers themselves, without their docstrings."""
    tree = ast.parse(Path(values.__file__).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            del node.body[0]
    kept = [n for n in tree.body if not (isinstance(n, ast.ImportFrom) and n.module == "__future__")]
    tree.body = kept
    return ast.unparse(tree) + "\n"
