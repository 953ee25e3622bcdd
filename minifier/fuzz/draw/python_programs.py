"""A Hypothesis strategy for the text of Python functions over tensors, containers and control flow.

A program is a function `f(x, y, n, flag, xs, d, box)` of two tensors, an int, a bool, a list, a dict and an object of a small
class, below a prelude of helpers. Statements are drawn for a typed environment (which names hold tensors, ints, lists of
tensors, ...), so that most programs run to the end; some expressions may raise, and eager must then raise the same.
Draws are small integers and choices in a fixed order, so that shrinking removes statements.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

PRELUDE = """\
import torch

class Box:
    limit = 3
    def __init__(self, t, k):
        self.t, self.k, self.log = t, k, []
    def scaled(self, by=2): return self.t * by + self.k
    @property
    def double(self): return self.k * 2

class Ctx:
    def __init__(self, log): self.log = log
    def __enter__(self):
        self.log.append('enter')
        return 2
    def __exit__(self, kind, value, tb):
        self.log.append('exit' if kind is None else kind.__name__)
        return kind is KeyError

TOTAL = 0

def helper(t, k=1, *rest, scale=2):
    if k > 2:
        return t - k
    return t * scale + len(rest)

def gen(t, k):
    for i in range(k):
        yield t + i

def bump(k):
    global TOTAL
    TOTAL += k
    return TOTAL

def check_small(k):
    if k > 4:
        raise ValueError(f'{k} is too large')
    return k

"""

SIGNATURE = "def f(x, y, n, flag, xs, d, box):"
INDENT = "    "


@dataclass
class Scope:
    """Names by type, and where in the program the next statement stands."""

    tensors: list[str] = field(default_factory=lambda: ["x", "y"])
    ints: list[str] = field(default_factory=lambda: ["n"])
    bools: list[str] = field(default_factory=lambda: ["flag"])
    lists: list[str] = field(default_factory=lambda: ["xs"])
    tuples: list[str] = field(default_factory=list)
    strs: list[str] = field(default_factory=list)
    depth: int = 0
    in_loop: bool = False
    counter: list[int] = field(default_factory=lambda: [0])

    def fresh(self, prefix: str) -> str:
        self.counter[0] += 1
        return f"{prefix}{self.counter[0]}"

    def inner(self, in_loop: bool | None = None) -> Scope:
        """A block: names bound in it may be unbound after it, so they are not offered there."""
        return Scope(
            list(self.tensors), list(self.ints), list(self.bools), list(self.lists), list(self.tuples), list(self.strs),
            self.depth + 1, self.in_loop if in_loop is None else in_loop, self.counter,
        )  # fmt: skip


class Writer:
    """Draws one program. Each `_name` method writes one kind of expression or statement and is a row of a table below."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def one_of(self, options: list[str]) -> str:
        return self.draw(st.sampled_from(options))

    def one_line(self, *options: str) -> list[str]:
        return [self.one_of(list(options))]

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    # ---- expressions ----

    def int_(self, scope: Scope, depth: int = 0) -> str:
        kind = self.number(0, 9 if depth < 2 else 3)
        if kind <= 1:
            return str(self.number(-2, 5))
        if kind <= 3:
            return self.one_of(scope.ints)
        if kind == 4:
            return f"({self.int_(scope, depth + 1)} {self.one_of(['+', '-', '*', '//', '%'])} {self.int_(scope, depth + 1)})"
        if kind == 5:
            return f"len({self.one_of(scope.lists)})"
        if kind == 6:
            name = self.one_of(scope.tensors)
            return self.one_of([f"{name}.ndim", f"{name}.shape[0]", "box.k", "box.double", "Box.limit"])
        if kind == 7:
            return f"d['{self.one_of(['a', 'b', 'zz'])}']" if self.number(0, 3) == 0 else f"d.get('{self.one_of(['a', 'b', 'zz'])}', 1)"
        if kind == 8:
            return f"{self.one_of(['min', 'max'])}({self.int_(scope, depth + 1)}, {self.int_(scope, depth + 1)})"
        return f"({self.int_(scope, depth + 1)} if {self.bool_(scope, depth + 1)} else {self.int_(scope, depth + 1)})"

    def bool_(self, scope: Scope, depth: int = 0) -> str:
        kind = self.number(0, 7 if depth < 2 else 1)
        if kind == 0:
            return self.one_of(scope.bools)
        if kind <= 3:
            operator = self.one_of(["<", "<=", "==", "!=", ">", "in (0, 1) or 2 <"])
            return f"{self.int_(scope, depth + 1)} {operator} {self.int_(scope, depth + 1)}"
        if kind == 4:
            return f"not ({self.bool_(scope, depth + 1)})"
        if kind == 5:
            return f"({self.bool_(scope, depth + 1)} {self.one_of(['and', 'or'])} {self.bool_(scope, depth + 1)})"
        if kind == 6:
            return f"isinstance({self.one_of(scope.tensors + scope.ints)}, {self.one_of(['torch.Tensor', 'int'])})"
        return f"'{self.one_of(['a', 'zz'])}' in d"

    def tensor(self, scope: Scope, depth: int = 0) -> str:
        kind = self.number(0, 13 if depth < 3 else 1)
        inner = depth + 1
        if kind <= 1:
            return self.one_of(scope.tensors)
        if kind <= 3:
            return f"({self.tensor(scope, inner)} {self.one_of(['+', '-', '*'])} {self.tensor(scope, inner)})"
        if kind <= 5:
            return f"({self.tensor(scope, inner)} {self.one_of(['+', '-', '*', '/'])} {self.int_(scope, inner)})"
        if kind == 6:
            return f"torch.{self.one_of(['sin', 'relu', 'neg', 'abs', 'tanh'])}({self.tensor(scope, inner)})"
        if kind == 7:
            return f"{self.one_of(scope.tensors)}.{self.one_of(['cos()', 'clone()', 'sum()', 'view(-1)', 'exp()', 'detach()', 'flip(0)'])}"
        if kind == 8:
            return f"helper({self.tensor(scope, inner)}, {self.int_(scope, inner)}{self.one_of(['', ', 1, 2', ', scale=3'])})"
        if kind == 9:
            return self.one_of(["box.t", "box.scaled()", f"box.scaled({self.int_(scope, inner)})"])
        if kind == 10:
            return f"torch.where({self.tensor(scope, inner)} > 0, {self.tensor(scope, inner)}, {self.one_of(scope.tensors)})"
        if kind == 11:
            return f"sum([{self.tensor(scope, inner)} for v in range({self.number(0, 3)})], {self.one_of(scope.tensors)})"
        if kind == 12:
            return f"{self.one_of(scope.lists)}[{self.number(-1, 2)}]"
        return f"(lambda t, k={self.number(0, 3)}: t * k)({self.tensor(scope, inner)})"

    # ---- statements ----

    def block(self, scope: Scope, most: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.number(1, most)):
            lines += self.statement(scope)
        return [INDENT + line for line in lines]

    def statement(self, scope: Scope) -> list[str]:
        simple = [
            self.assign_tensor, self.assign_tensor, self.assign_int, self.in_place, self.mutate_list, self.mutate_dict,
            self.mutate_box, self.mutate_global, self.assign_list, self.assign_bool, self.assign_tuple, self.text, self.print_,
            self.closure, self.unpack,
        ]  # fmt: skip
        compound = [self.if_, self.if_tensor, self.for_, self.while_, self.try_, self.with_, self.for_generator]
        leaving = [self.return_, self.raise_, self.break_or_continue]
        kind = self.number(0, 9)
        if kind <= 5 or scope.depth >= 3:
            choices = simple
        elif kind <= 8:
            choices = compound
        else:
            choices = leaving
        return choices[self.number(0, len(choices) - 1)](scope)

    def assign_tensor(self, scope: Scope) -> list[str]:
        value = self.tensor(scope)
        name = self.one_of([*scope.tensors, scope.fresh("t")])
        if name not in scope.tensors:
            scope.tensors.append(name)
        return [f"{name} = {value}"]

    def assign_int(self, scope: Scope) -> list[str]:
        value = self.int_(scope)
        name = self.one_of([*scope.ints, scope.fresh("i")])
        if name not in scope.ints:
            scope.ints.append(name)
            return [f"{name} = {value}"]
        line = f"{name} {self.one_of(['=', '+=', '*='])} {value}"
        return [line, f"{name} %= 1000003"] if "*" in line else [line]  # in loops its square has no end of digits

    def assign_bool(self, scope: Scope) -> list[str]:
        value = self.bool_(scope)
        scope.bools.append(scope.fresh("b"))
        return [f"{scope.bools[-1]} = {value}"]

    def assign_list(self, scope: Scope) -> list[str]:
        form = self.number(0, 4)
        items = ", ".join(self.tensor(scope, 2) for _ in range(self.number(1, 3)))
        values = [
            f"[{items}]",
            f"[v * 2 for v in {self.one_of(scope.lists)}]",
            f"list({self.one_of(scope.lists)})",
            f"{self.one_of(scope.lists)}[::-1]",
            f"list(gen({self.one_of(scope.tensors)}, {self.number(0, 3)}))",
        ]
        scope.lists.append(scope.fresh("l"))
        return [f"{scope.lists[-1]} = {values[form]}"]

    def assign_tuple(self, scope: Scope) -> list[str]:
        value = f"({self.tensor(scope, 2)}, {self.int_(scope, 1)}, '{self.one_of(['p', 'q'])}')"
        scope.tuples.append(scope.fresh("p"))
        return [f"{scope.tuples[-1]} = {value}"]

    def unpack(self, scope: Scope) -> list[str]:
        a, b = scope.fresh("t"), scope.fresh("i")
        right = f"{self.tensor(scope, 2)}, {self.int_(scope, 1)}"
        scope.tensors.append(a)
        scope.ints.append(b)
        return [f"{a}, {b} = {right}"]

    def in_place(self, scope: Scope) -> list[str]:
        name = self.one_of(scope.tensors)
        return self.one_line(
            f"{name}.add_({self.int_(scope, 1)})",
            f"{name} += {self.int_(scope, 1)}",
            f"{name} *= 2",
            f"{name}.mul_({self.one_of(scope.tensors)})",
            f"{name}[0] = {self.number(0, 3)}",
        )

    def mutate_list(self, scope: Scope) -> list[str]:
        name = self.one_of(scope.lists)
        return self.one_line(
            f"{name}.append({self.tensor(scope, 2)})",
            f"{name}.insert(0, {self.one_of(scope.tensors)})",
            f"{name}[0] = {self.tensor(scope, 2)}",
            f"{name}.pop()",
            f"{name} += [{self.one_of(scope.tensors)}]",
            f"{name}.reverse()",
            f"del {name}[-1]",
        )

    def mutate_dict(self, scope: Scope) -> list[str]:
        key = self.one_of(["a", "b", "c"])
        return self.one_line(
            f"d['{key}'] = {self.int_(scope, 1)}",
            f"d['t'] = {self.tensor(scope, 2)}",
            f"d.pop('{key}', None)",
            f"d['{key}'] += 1",
            f"d.update({key}={self.int_(scope, 1)})",
            f"d.setdefault('{key}', {self.number(0, 3)})",
            f"del d['{key}']",
        )

    def mutate_box(self, scope: Scope) -> list[str]:
        return self.one_line(
            f"box.k = {self.int_(scope, 1)}",
            "box.k += 1",
            f"box.t = {self.tensor(scope, 2)}",
            f"box.log.append({self.int_(scope, 1)})",
            f"box.extra = {self.tensor(scope, 2)}",
            f"setattr(box, 'named', {self.int_(scope, 1)})",
        )

    def mutate_global(self, scope: Scope) -> list[str]:
        return [f"{self.one_of(scope.ints)} = bump({self.number(0, 3)})"]

    def text(self, scope: Scope) -> list[str]:
        scope.strs.append(scope.fresh("s"))
        return [f"{scope.strs[-1]} = f'{{{self.one_of(scope.ints)}}}:{{{self.one_of(scope.bools)}!r:>6}}' + str(x.shape)"]

    def print_(self, scope: Scope) -> list[str]:
        return [f"print('at', {self.one_of(scope.ints + scope.strs + ['len(xs)', 'sorted(d)', 'y.shape'])})"]

    def closure(self, scope: Scope) -> list[str]:
        name, result = scope.fresh("g"), scope.fresh("t")
        captured = self.one_of(scope.ints)
        lines = [
            f"def {name}(t, k={self.number(0, 2)}):",
            f"    {self.one_of([f'nonlocal {captured}', 'pass'])}",
            f"    {self.one_of(['local', 'local', captured])} = {self.number(0, 3)}",
            f"    return t * k + {captured}",
            f"{result} = {name}({self.one_of(scope.tensors)})",
        ]
        scope.tensors.append(result)
        return lines

    def if_(self, scope: Scope) -> list[str]:
        lines = [f"if {self.bool_(scope)}:", *self.block(scope.inner(), 2)]
        if self.number(0, 1):
            lines += ["else:", *self.block(scope.inner(), 2)]
        return lines

    def if_tensor(self, scope: Scope) -> list[str]:
        test = self.one_of([f"{self.one_of(scope.tensors)}.sum() > {self.number(-1, 1)}", f"({self.one_of(scope.tensors)} != 0).any()"])
        lines = [f"if {test}:", *self.block(scope.inner(), 2)]
        if self.number(0, 1):
            lines += ["else:", *self.block(scope.inner(), 2)]
        return lines

    def for_(self, scope: Scope) -> list[str]:
        inner = scope.inner(in_loop=True)
        form = self.number(0, 2)
        if form == 0:
            inner.ints.append(scope.fresh("i"))
            return [f"for {inner.ints[-1]} in range({self.number(0, 3)}):", *self.block(inner, 2)]
        inner.tensors.append(scope.fresh("t"))
        if form == 1:
            return [f"for {inner.tensors[-1]} in {self.one_of(scope.lists)}[:4]:", *self.block(inner, 2)]
        inner.ints.append(scope.fresh("i"))
        return [f"for {inner.ints[-1]}, {inner.tensors[-1]} in enumerate({self.one_of(scope.lists)}[:2]):", *self.block(inner, 2)]

    def for_generator(self, scope: Scope) -> list[str]:
        inner = scope.inner(in_loop=True)
        inner.tensors.append(scope.fresh("t"))
        return [f"for {inner.tensors[-1]} in gen({self.one_of(scope.tensors)}, {self.number(1, 3)}):", *self.block(inner, 2)]

    def while_(self, scope: Scope) -> list[str]:
        name = scope.fresh("w")
        inner = scope.inner(in_loop=True)
        return [f"{name} = {self.number(0, 3)}", f"while {name} > 0:", f"    {name} -= 1", *self.block(inner, 2)]

    def try_(self, scope: Scope) -> list[str]:
        some, index = self.int_(scope, 1), self.number(0, 4)
        risky = self.one_of([f"check_small({some})", "d['missing']", f"xs[{index}]", "int('q')", "box.nothing", f"1 // {some}"])
        lines = ["try:", *self.block(scope.inner(), 2), f"    {risky}"]
        caught = self.one_of(["ValueError", "KeyError", "(IndexError, AttributeError)", "Exception"])
        lines += [f"except {caught} as e:", *self.block(scope.inner(), 1), "    box.log.append(str(e))"]
        if self.number(0, 2) == 0:
            lines += ["else:", *self.block(scope.inner(), 1)]
        if self.number(0, 2) == 0:
            lines += ["finally:", "    box.log.append('finally')"]
        return lines

    def with_(self, scope: Scope) -> list[str]:
        inner = scope.inner()
        if self.number(0, 1):
            return ["with torch.no_grad():", *self.block(inner, 2)]
        inner.ints.append(scope.fresh("i"))
        return [f"with Ctx(box.log) as {inner.ints[-1]}:", *self.block(inner, 2)]

    def return_(self, scope: Scope) -> list[str]:
        return [f"return {self.tensor(scope, 1)}"]

    def raise_(self, scope: Scope) -> list[str]:
        return [f"raise {self.one_of(['ValueError', 'KeyError', 'RuntimeError'])}(f'raised {{{self.one_of(scope.ints)}}}')"]

    def break_or_continue(self, scope: Scope) -> list[str]:
        return [self.one_of(["break", "continue"])] if scope.in_loop else self.return_(scope)

    def result(self, scope: Scope) -> list[str]:
        names = [*scope.tensors[-2:], *scope.ints[-1:], *scope.lists[-1:], *scope.tuples[-1:], *scope.strs[-1:], *scope.bools[-1:]]
        return [f"return {', '.join(names)}"]


@st.composite
def programs(draw: st.DrawFn) -> str:
    """The text of one program."""
    writer, scope = Writer(draw), Scope()
    body: list[str] = []
    for _ in range(writer.number(1, 7)):
        body += writer.statement(scope)
    body += writer.result(scope)
    return "\n".join([SIGNATURE, *(INDENT + line for line in body)]) + "\n"
