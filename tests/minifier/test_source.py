"""Source that is reduced: structural oracles, oracles that run it, and what holds for every candidate."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
import traceback
import zlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minifier.engine import FunctionTransport, Options, Pass, Result, Status, Verdict, minimise
from minifier.source.calls import call_pass, lambda_pass, target_pass
from minifier.source.definitions import parameter_pass
from minifier.source.lines import argument_pass, copy_pass, decorator_pass, one_liner_pass
from minifier.source.problem import SourceProblem
from minifier.source.state import Source, SourceError, parsed
from minifier.source.statements import block_pass, inline_pass, statement_pass
from tests.minifier.sources import MODEL, Unsupported, outcome_of

Holds = Callable[[str], bool]
ROOT = Path(__file__).resolve().parents[2]


def reduced(text: str, holds: Holds, jobs: int = 1) -> Result[Source]:
    transport = FunctionTransport(lambda data: holds(data.decode()), jobs)
    try:
        return minimise(SourceProblem(), parsed(textwrap.dedent(text)), transport, Options(), parsed(""))
    finally:
        transport.close()


def calls_of(tree: ast.AST, name: str) -> list[ast.Call]:
    return [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name]


def breaks_in_with_in_loop(text: str) -> bool:
    loops = [n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.For, ast.While))]
    return any(calls_of(w, "graph_break") for loop in loops for w in ast.walk(loop) if isinstance(w, ast.With))


def divides_in_mean(text: str) -> bool:
    """Running it raises ZeroDivisionError from a line with a division in `mean`."""
    try:
        exec(compile(text, "<script>", "exec", dont_inherit=True), {"__name__": "__main__", "print": repr})
    except ZeroDivisionError as e:
        last = traceback.extract_tb(e.__traceback__)[-1]
        return last.name == "mean" and "/" in text.split("\n")[(last.lineno or 1) - 1]
    except (Exception, SystemExit):  # noqa: BLE001  # whatever else a candidate does is not it
        return False
    return False


def hooked(**hooks: Callable[..., object]) -> Holds:
    """Running it with these names raises Unsupported."""

    def holds(text: str) -> bool:
        try:
            exec(compile(text, "<script>", "exec", dont_inherit=True), {"__name__": "__main__", "print": repr, **hooks})
        except Unsupported:
            return True
        except (Exception, SystemExit):  # noqa: BLE001  # whatever else a candidate does is not it
            return False
        return False

    return holds


def refuse(condition: Callable[..., bool]) -> Callable[..., object]:
    def hook(*args: object, **kwargs: object) -> object:
        if condition(*args, **kwargs):
            raise Unsupported
        return args[0] if args else None

    return hook


BAD = hooked(bad=refuse(lambda *args: True))
LAYERED = "class Net:\n    def __init__(self, n):\n" + "".join(f"        self.l{i} = lambda x: x + {i}\n" for i in range(12))
LAYERED += "        self.bad = lambda x: sink(x)\n    def forward(self, x, scale=2):\n"
LAYERED += "".join(f"        x = self.l{i}(x)\n" + ("        x = self.bad(x)\n" if i == 7 else "") for i in range(12))
LAYERED += "        return x * scale\nnet = Net(3)\nprint(net.forward(5, scale=4))\n"
CHAIN = "h0 = source()\n" + "".join(f"h{i + 1} = abs(h{i}) + {i}\n" for i in range(30)) + "sink(h30)\n"

MIXED = '''
    """Doc."""
    import os, sys
    from typing import (Any, List)

    def helper(x: int, y=3) -> int:
        # a comment
        if x > 3: return x * y
        elif x > 2:
            return x + 1
        else:
            return 0

    class Model:
        def __init__(self, n):
            self.a = helper
            self.n = n; self.m = 3
        def unused(self): return 3
        def forward(self, x):
            h = self.a(x)
            h1 = h + 5
            for i in range(3):
                with open(os.devnull) as f:
                    graph_break("why not", h1)
            return h1

    Model(4)
'''
MEAN = """
    import math
    LIMIT = 10

    def total(values):
        t = 0
        for v in values:
            t += v
        return t

    def mean(values, weights=None, *, scale=1.0):
        t = total(values)
        try:
            n = len(values) * scale
        finally:
            weights = None
        if weights is not None:
            return t
        else:
            return t / n

    @staticmethod
    def report(rows):
        out = []
        for row in rows:
            while len(row) > LIMIT:
                row.pop()
            out.append(mean(row))
        return out

    if __name__ == "__main__":
        print(math.floor(3.7), report.__func__([[1, 2], [3], []]))
"""


@pytest.mark.parametrize(
    "text, holds, minimum, most",
    [
        pytest.param(MIXED, breaks_in_with_in_loop, "for i in 0:\n    with 0:\n        graph_break()\n", 60, id="break in with in loop"),
        pytest.param(MEAN, divides_in_mean, "def mean():\n    0 / 0\nmean()\n", 160, id="division by zero"),
        pytest.param(LAYERED, hooked(sink=refuse(lambda *x: True)), "sink()\n", 90, id="one layer of many"),
        pytest.param(CHAIN, lambda text: "source()" in text and _flows(text), "sink(source())\n", 80, id="data path"),
        pytest.param("x = make(100, 200)\ny = use(x)\n", hooked(make=refuse(lambda a, *b: a > 24)), "make(25)\n", 30, id="threshold"),
        pytest.param("use(text='a long text, and more')\n", hooked(use=refuse(lambda text: "," in text)), "use(text=',')\n", 40, id="text"),
        pytest.param(
            "def f(a, b=2, *, c=3):\n    return bad(a)\nprint(f(1, b=4, c=5))\nf(6)\n",
            hooked(bad=refuse(lambda *a: sys._getframe(2).f_code.co_name == "f")),
            "def f():\n    bad()\nf()\n",
            60,
            id="parameters",
        ),
        pytest.param("bad(((1, 2), 3), ())\n", hooked(bad=refuse(lambda *a: () in a)), "bad(())\n", 30, id="empty tuple"),
        pytest.param(
            "try:\n    a = 1\nexcept ValueError as e:\n    raise\nelse:\n    bad(a)\nfinally:\n    print(a)\n",
            BAD,
            "bad()\n",
            20,
            id="else of try",
        ),
        pytest.param("if 0:\n    a = 1\nelif 1:\n    bad()\nelse:\n    a = 2\n", BAD, "bad()\n", 20, id="elif"),
        pytest.param("for x in [abs(i) for i in [1, 2]]:\n    bad(x)\n", BAD, "bad()\n", 25, id="loop"),
        pytest.param(
            "match [1, 2]:\n    case [a, b] if a:\n        bad(b)\n    case _:\n        pass\n",
            BAD,
            "bad()\n",
            30,
            id="match",
        ),
    ],
)
def test_ends_at_the_known_minimum(text: str, holds: Holds, minimum: str, most: int) -> None:
    result = reduced(text, holds)

    assert result.status is Status.MINIMAL
    assert result.state.text == minimum
    assert result.calls <= most


EVALUATE = "def batch(n, of=2):\n    return make(n, of), 0\ndef evaluate(model, n=3):\n    a, b = batch(n)\n    model(a)\n"


@pytest.mark.parametrize(
    "make, text, offered",
    [
        pytest.param(
            call_pass,
            EVALUATE + "evaluate(net)\n",
            "def batch(n, of=2):\n    return make(n, of), 0\na, b = batch(3)\nnet(a)\n",
            id="lines of a function",
        ),
        pytest.param(
            call_pass,
            EVALUATE + "evaluate(net)\n",
            "def evaluate(model, n=3):\n    a, b = (make(n, 2), 0)\n    model(a)\nevaluate(net)\n",
            id="value of a function",
        ),
        pytest.param(
            call_pass,
            "def f(x):\n    y = x + x\n    return y\nprint(f(make(3)) * 2)\n",
            "x = make(3)\ny = x + x\nprint(y * 2)\n",
            id="argument that is read twice",
        ),
        pytest.param(call_pass, "def f(x):\n    g()\n    return\nf(1)\n", "g()\n", id="nothing given back"),
        pytest.param(call_pass, "def f(x):\n    g()\ny = f(1)\n", "g()\ny = None\n", id="None"),
        pytest.param(call_pass, "def f(x):\n    if x:\n        return 1\n    g()\nf(1)\n", None, id="another way out"),
        pytest.param(call_pass, "def f(x):\n    f(x)\n", None, id="recursion"),
        pytest.param(call_pass, "def f(*x):\n    g(x)\nf(1)\n", None, id="variable arguments"),
        pytest.param(call_pass, "def f(x):\n    g(x)\nf(1, 2)\n", None, id="arguments that do not fit"),
        pytest.param(lambda_pass, "def f(x, y=1):\n    return x + y\nmake(f)(3)\n", "make(lambda x, y=1: x + y)(3)\n", id="lambda"),
        pytest.param(lambda_pass, "def f(x: int):\n    g(x)\n    g(x)\nmake(f)(3)\n", None, id="lambda of two lines"),
        pytest.param(lambda_pass, "def f(x):\n    g(x)\nmake(f)(f)\n", None, id="lambda of two reads"),
        pytest.param(target_pass, "a, b, c = 1, 2, 3\n", "a, c = 1, 3\n", id="pair of a target"),
        pytest.param(target_pass, "a, b = 1, 2\n", "b = 2\n", id="last pair"),
        pytest.param(target_pass, "a, b = f()\ng(b, a)\n", "b = f()\ng(b, b)\n", id="one gets all"),
        pytest.param(statement_pass, "x = 1\na, b = f(x)\ng(a, b)\n", "x = 1\ng(x, x)\n", id="past two targets"),
        pytest.param(inline_pass, "k = f()\ndel k\ng()\n", "f()\ng()\n", id="what is dropped by name"),
        pytest.param(block_pass, "for x in f():\n    break\n", "next(iter(f()))\n", id="loop that is left at once"),
        pytest.param(block_pass, "for x in f():\n    g(x)\n    break\n", "x = next(iter(f()))\ng(x)\n", id="first round"),
        pytest.param(copy_pass, "x = f(1)\ng(x, x)\n", "g(f(1), f(1))\n", id="value in several places"),
        pytest.param(copy_pass, f"x = f({'1' * 40})\ng(x, x)\n", None, id="long value in several places"),
        pytest.param(copy_pass, "x = f(1)\ng(x)\n", None, id="value in one place"),
        pytest.param(
            decorator_pass, "@a\n@b(1)\ndef f():\n    x\n    y\ng(f())\n", "@a\ndef f():\n    x\n    y\ng(b(1)(f)())\n", id="decorator"
        ),
        pytest.param(decorator_pass, "@a\ndef f():\n    x\nf(f)\n", None, id="decorator of two uses"),
        pytest.param(
            one_liner_pass,
            "class A:\n    def f(self, x: int=1, *y, z):\n        return (x, y)\n",
            "class A:\n    f = lambda self, x=1, *y, z: (x, y)\n",
            id="method of one line",
        ),
        pytest.param(one_liner_pass, "@a\n@b(1)\ndef f():\n    g()\n", "f = a(b(1)(lambda: g()))\n", id="decorated function of one line"),
        pytest.param(one_liner_pass, "def f():\n    yield 1\ndef g():\n    x = 1\n", None, id="no expression"),
        pytest.param(
            argument_pass,
            "def f(x):\n    y = []\n    g(x, y)\nc(f)(1)\nh(f(2))\n",
            "def f(x, y):\n    g(x, y)\nc(f)(1, [])\nh(f(2, []))\n",
            id="value from the calls",
        ),
        pytest.param(argument_pass, "def f(x):\n    y = x\n    y += 1\n    z = x\n    g(y, z)\nf(1)\n", None, id="values of its own"),
        pytest.param(
            parameter_pass, "def f(x, y):\n    g(x)\nc(f)(1, 2)\n", "def f(x):\n    g(x)\nc(f)(1)\n", id="argument of what is made of it"
        ),
        pytest.param(inline_pass, "m = net\ndef f(m):\n    m()\nf(m)\n", "def f(m):\n    m()\nf(net)\n", id="parameter of that name"),
        pytest.param(inline_pass, "x = net\nf(lambda x: x)(x)\n", "f(lambda x: x)(net)\n", id="lambda's own of that name"),
    ],
)
def test_what_a_pass_offers(make: Callable[[], Pass[Source]], text: str, offered: str | None) -> None:
    texts = offers(make(), parsed(text))

    assert (offered in texts) if offered is not None else not texts, texts


def offers(of: Pass[Source], state: Source) -> list[str]:
    """The states that the single steps of a pass lead to."""
    found = []
    cursor = of.start(state, True)
    while cursor is not None:
        step = of.step(state, cursor)
        found += [step.state.text] if step is not None else []
        cursor = of.next(state, cursor, False)
    return found


def _flows(text: str) -> bool:
    """What `source` gives reaches `sink`, by names."""
    tainted: set[str] = set()
    for node in ast.parse(text).body:
        found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        if found & (tainted | {"source"}):
            if "sink" in found:
                return True
            tainted |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return False


def test_unsupported_construct_of_a_model() -> None:
    assert len(MODEL.splitlines()) > 200
    one, four = (reduced(MODEL, lambda text: outcome_of(text) is Unsupported, jobs) for jobs in (1, 4))

    assert one.state.text == "import torch\ntorch.compile(lambda: torch.unsupported_count())()\n"
    assert one.calls <= 300
    assert one.certificate is not None
    assert {step.verdict for step in one.certificate.steps} == {Verdict.BORING}
    assert (four.state, four.certificate) == (one.state, one.certificate)
    lines = one.state.text.splitlines()
    for i in range(len(lines)):
        assert outcome_of("\n".join(lines[:i] + lines[i + 1 :])) is not Unsupported


@pytest.mark.parametrize(
    "text, canonical",
    [
        ("# c\n\nx = 1 # d\n\n\ny=2;z  =  3\n", "x = 1\ny = 2\nz = 3\n"),
        ("if x: y(\n  1,\n  b = 2,  # c\n)\n", "if x:\n    y(1, b=2)\n"),
        ("x = (1,)\ny = a[1,]\nz = (\n    1\n    + 2\n)\n", "x = (1,)\ny = a[1,]\nz = (1 + 2)\n"),
        ("from a import (\n  b,\n  c as d,\n)\n", "from a import b, c as d\n"),
        ("with (\n  a as b,\n  c,\n):\n\tpass", "with a as b, c:\n    pass\n"),
        ("lambda x : x\nprint(f'{ {1: 2} }' \"\"'a')\n", "lambda x: x\nprint(f'{ {1: 2} }' \"\" 'a')\n"),
        ("def f(a:int=3,*,b = 4)->int: ...\n", "def f(a: int=3, *, b=4) -> int:\n    ...\n"),
        ("match x:\n  case int()if x: pass\n", "match x:\n    case int() if x:\n        pass\n"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    assert parsed(text).text == canonical
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(canonical))


@pytest.mark.parametrize("name", ["minifier/engine/walk.py", "minifier/graph/repro.py", "tests/minifier/toys.py"])
def test_canonical_form_means_the_same(name: str) -> None:
    text = (ROOT / name).read_text()
    state = parsed(text)

    assert ast.dump(ast.parse(state.text)) == ast.dump(ast.parse(text))
    assert SourceProblem().restore(SourceProblem().serialise(state)) == state


@pytest.mark.parametrize("text", ["x = ", "return 1\n", "x = '\n", "\x00"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(SourceError):
        parsed(text)


NAMES = st.sampled_from(["a", "b", "self", "f", "C"])
EXPRESSIONS = st.recursive(
    st.one_of(NAMES, st.sampled_from(["0", "17", "2.5", "'text'", "f'{a} b'", "None", "[1, a]", "{a: 1}", "()", "(a,)"])),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(" + ".join),
        st.tuples(inner, inner).map(lambda p: f"f({p[0]}, b={p[1]})"),
        inner.map(lambda e: f"self.a({e})"),
        inner.map(lambda e: f"(lambda a, b=1: {e})"),
        inner.map(lambda e: f"[a for a in ({e}) if a]"),
        inner.map(lambda e: f"({e})[1:a]"),
        inner.map(lambda e: f"(yield_ if {e} else not ({e}))"),
    ),
    max_leaves=4,
)
SIMPLE = st.one_of(
    st.tuples(NAMES, EXPRESSIONS).map(" = ".join),
    EXPRESSIONS,
    EXPRESSIONS.map(lambda e: f"self.a = {e}"),
    EXPRESSIONS.map(lambda e: f"a: int = {e}"),
    EXPRESSIONS.map(lambda e: f"a[{e}], b = c"),
    st.sampled_from(["import os, sys as a", "from math import pi, e", "pass", "global a", "del a, b", "assert a, 'b'", '"""doc"""']),
)


def _block(head: str) -> Callable[[list[str]], str]:
    return lambda body: head + "\n" + textwrap.indent("\n".join(body), "    ")


HEADS = ["if a:", "for a in b:", "while b:", "with a as b, f(c):", "def f(a, b=2, *c):", "class C(a):", "@f\ndef b(self, x: int) -> a:"]
STATEMENTS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds(lambda head, body: _block(head)(body), st.sampled_from(HEADS), st.lists(inner, min_size=1, max_size=3)),
        st.lists(inner, min_size=2, max_size=3).map(lambda b: _block("if a:")(b[:1]) + "\n" + _block("elif b:")(b[1:])),
        st.lists(inner, min_size=1, max_size=2).map(
            lambda b: "\n".join([_block("try:")(b), _block("except f as e:")(b), _block("finally:")(b)])
        ),
    ),
    max_leaves=6,
)
MODULES = st.lists(STATEMENTS, min_size=1, max_size=4).map("\n".join)


@settings(max_examples=12, deadline=None)
@given(text=MODULES, likes=st.integers(2, 6), seed=st.integers(0, 99))
def test_every_candidate_is_a_program_and_sizes_only_fall(text: str, likes: int, seed: int) -> None:
    try:
        start = parsed(text)
    except SourceError:
        return
    problem = SourceProblem()
    seen: list[bytes] = []

    def judge(data: bytes) -> bool:
        seen.append(data)
        return len(seen) == 1 or zlib.crc32(data, seed) % likes == 0

    result = minimise(problem, start, FunctionTransport(judge), Options(calls=40))

    for data in seen:
        state = problem.restore(data)
        assert state.text.encode() == data
        assert ast.parse(data) is not None
        assert problem.size(state) <= problem.size(start)
    sizes = [size for _, _, size in result.curve]
    assert all(later < earlier for earlier, later in pairwise(sizes))


def test_imports_no_torch() -> None:
    script = "import sys, minifier.source.problem; assert not {'torch', 'dynamo', 'inductor'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT, timeout=60)
