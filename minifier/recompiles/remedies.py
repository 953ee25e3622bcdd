"""What can be done about a cause: edits of the program, to be tried. A wrong one costs a run and is never handed over as verified."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from dynamo.trace.events import Change
from minifier.recompiles.calls import Passed, called, given, passed
from minifier.recompiles.causes import plain_number
from minifier.recompiles.clusters import Cluster
from minifier.recompiles.edits import Edit, Module, Sources
from minifier.recompiles.writers import stores_to

Find = Callable[[Cluster, Sources], Iterator["Fix"]]


@dataclass(frozen=True)
class Fix:
    """One edit of the program, in words and as changes of its text. `takes_all`: also of what changed besides."""

    words: str
    edits: tuple[Edit, ...]
    takes_all: bool = False


# ---- calls of the compiled function ---------------------------------------------------------------------------


def _wrapping(words: str, text: Callable[[Passed, Cluster], str | None]) -> Find:
    """A fix that changes the argument at the call."""

    def find(cluster: Cluster, sources: Sources) -> Iterator[Fix]:
        if cluster.first.root != "argument" or cluster.at != cluster.name_of_root:
            return
        found = list(passed(cluster, sources))
        edits = [(p, new) for p in found if (new := text(p, cluster)) is not None]
        for p, new in edits:
            yield Fix(words.format(old=p.text, new=new, line=p.call.lineno), (p.module.replace(p.value, new),))
        if len(edits) > 1:
            yield Fix(words.format(old=edits[0][0].text, new=edits[0][1], line=edits[0][0].call.lineno) + ", at every call",
                      tuple(p.module.replace(p.value, new) for p, new in edits))  # fmt: skip

    return find


_PASS = "line {line}: pass `{new}` instead of `{old}`"


def _torch(p: Passed) -> bool:
    return p.module.imports("torch")


def _as_dtype(p: Passed, cluster: Cluster) -> str | None:
    return f"{p.operand}.to({cluster.first.expected})" if _torch(p) else None


def _as_tensor(p: Passed, cluster: Cluster) -> str | None:
    return tensor_text(p.text, cluster.first.seen) if _torch(p) else None


def tensor_text(text: str, sample: str) -> str:
    """A Python number as a tensor that keeps its precision. Without dimensions it leaves the dtype of other tensors alone."""
    return f"torch.tensor({text})" if plain_number(sample).lstrip("-").isdigit() else f"torch.tensor({text}, dtype=torch.float64)"


def _only_keys(p: Passed, cluster: Cluster) -> str | None:
    keys = cluster.first.expected.removeprefix("keys are ")
    try:
        wanted, seen = ast.literal_eval(keys), ast.literal_eval(cluster.first.seen)
    except (ValueError, SyntaxError):
        return None
    return f"{{key: {p.operand}[key] for key in {wanted!r}}}" if set(wanted) <= set(seen) else None


@dataclass(frozen=True)
class _Padding:
    """An argument that is filled with zeros up to the largest size seen."""

    passed: Passed
    parameter: str
    dim: int
    most: int
    name: str

    @property
    def given(self) -> str:
        """What the argument is called where it is used again."""
        return self.passed.text if isinstance(self.passed.value, ast.Name) else self.name

    @property
    def size(self) -> str:
        return f"{self.given}.shape[{self.dim}]"

    def edit(self) -> Edit:
        value = self.given if isinstance(self.passed.value, ast.Name) else f"({self.name} := {self.passed.text})"
        pads = f"(0, 0) * ({self.given}.dim() - {self.dim + 1}) + (0, {self.most} - {self.size})"
        return self.passed.module.replace(self.passed.value, f"torch.nn.functional.pad({value}, {pads})")

    def __str__(self) -> str:
        named = "" if self.passed.text == self.parameter else f" (`{self.parameter}` there)"
        return f"dim {self.dim} of `{self.passed.text}`{named} to {self.most}"


def _padded(cluster: Cluster, sources: Sources) -> Iterator[Fix]:
    """Fill a dim with zeros, of all arguments whose sizes changed at once: right for functions that keep rows apart."""
    if cluster.at != cluster.name_of_root:
        return
    for p in (p for p in passed(cluster, sources) if _torch(p)):
        own = _padding(p, cluster.at, cluster.changes, "_given")
        if own is None:
            continue
        paddings = [own, *_paddings_besides(p, cluster, sources)]
        takes_all = len(paddings) > len({(c.at, c.kind, c.aspect) for c in cluster.others}) > 0
        what = " and ".join(str(padding) for padding in paddings)
        for words, around in _taken(p, own):
            edits = (*(padding.edit() for padding in paddings), *around)
            yield Fix(f"line {p.call.lineno}: pad {what}{words}", edits, takes_all)


def _padding(p: Passed, parameter: str, changes: list[Change], name: str) -> _Padding | None:
    """None where sizes of more than one dim changed."""
    dims = {c.dim for c in changes}
    sizes = [int(n) for c in changes for n in (c.expected.removeprefix("== "), c.seen) if n.isdigit()]
    return _Padding(p, parameter, dims.pop(), max(sizes), name) if len(dims) == 1 and sizes else None


def _paddings_besides(p: Passed, cluster: Cluster, sources: Sources) -> Iterator[_Padding]:
    """Of other arguments of the call."""
    names = dict.fromkeys(c.at for c in cluster.others if c.aspect == "size" and c.root == "argument" and c.at.isidentifier())
    for number, name in enumerate(names, 1):
        value = given(p.call, name, cluster, sources)
        changes = [c for c in cluster.others if c.at == name and c.aspect == "size"]
        found = _padding(Passed(p.module, p.call, value), name, changes, f"_given_{number}") if value is not None else None
        if found is not None:
            yield found


def _taken(p: Passed, own: _Padding) -> Iterator[tuple[str, tuple[Edit, ...]]]:
    """How the rows that are meant are taken out of the result, the likeliest way first: of a tensor, of each of several, not at all."""
    start, end = p.module.span(p.call)
    parent = p.module.parents.get(p.call)
    narrow = f"narrow({own.dim}, 0, {own.size})"
    one = " and take the first rows of the result", (Edit(p.module.file, end, end, f".{narrow}"),)
    each = (
        " and take the first rows of each result",
        (
            Edit(p.module.file, start, start, f"tuple(map(lambda _rows: _rows.{narrow}, "),
            Edit(p.module.file, end, end, "))"),
        ),
    )
    whole = " with zeros, which add nothing to sums", ()
    is_unpacked = isinstance(parent, ast.Assign) and isinstance(parent.targets[0], ast.Tuple | ast.List)
    is_number = isinstance(parent, ast.Attribute) and parent.attr in ("item", "backward")
    yield from (each, one) if is_unpacked else (whole, one) if is_number else (one, whole)


# ---- numbers that the program keeps ---------------------------------------------------------------------------


def _kept_as_tensor(cluster: Cluster, sources: Sources) -> Iterator[Fix]:
    """The number is a tensor from its first value on; what is added to it in place changes that one tensor."""
    files = dict.fromkeys((cluster.first.file, *(f for f, _ in cluster.callers)))
    for module in (m for f in files if (m := sources.module(f)) is not None and m.imports("torch")):
        values = [v for v in _first_values(module.tree, cluster) if isinstance(v, ast.Constant) and type(v.value) in (int, float)]
        if not values:
            continue
        sample = str(min((v.value for v in values if isinstance(v, ast.Constant)), key=lambda v: isinstance(v, int)))
        edits = tuple(module.replace(v, tensor_text(module.text(v), sample)) for v in values)
        lines = ", ".join(str(v.lineno) for v in values)
        yield Fix(f"line {lines}: keep `{cluster.at}` as a tensor: `{edits[0].text}`", edits)


def _first_values(tree: ast.Module, cluster: Cluster) -> Iterator[ast.expr]:
    """What plain stores give the value, also in the body of its class, and for an item what a dict or a keyword gives."""
    attribute = cluster.at.rpartition(".")[2] if cluster.cause.name == "number attribute" else None
    of_classes = {id(n) for cls in ast.walk(tree) if isinstance(cls, ast.ClassDef) for n in cls.body}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            own = id(node) in of_classes and any(isinstance(t, ast.Name) and t.id == attribute for t in targets)
            if own or any(stores_to(t, cluster) for t in targets):
                yield node.value
        if isinstance(node, ast.Dict) and cluster.at.endswith("]"):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and cluster.at.endswith(f"[{key.value!r}]"):
                    yield value
        if isinstance(node, ast.keyword) and node.arg is not None and cluster.at.endswith(f"[{node.arg!r}]"):
            yield node.value


# ---- objects and attributes -----------------------------------------------------------------------------------


def _hoisted(cluster: Cluster, sources: Sources) -> Iterator[Fix]:
    """Make the object once, before the loop around the call."""
    root = cluster.name_of_root
    for p in passed(cluster, sources):
        loop = next((n for n in p.module.above(p.call) if isinstance(n, ast.For | ast.While)), None)
        if loop is None:
            continue
        inside = {t.id for n in ast.walk(loop) for t in ast.walk(n) if isinstance(t, ast.Name) and isinstance(t.ctx, ast.Store)}
        if isinstance(p.value, ast.Call | ast.Lambda) and not _names(p.value) & inside:
            edits = (p.module.insert_before(loop, f"_{root} = {p.text}"), p.module.replace(p.value, f"_{root}"))
            yield Fix(f"line {p.value.lineno}: make `{p.text}` once, before the loop of line {loop.lineno}", edits)
        for made in (n for n in ast.walk(loop) if isinstance(n, ast.Assign) and isinstance(p.value, ast.Name)):
            if [ast.unparse(t) for t in made.targets] == [p.text] and not _names(made.value) & inside:
                edits = (p.module.insert_before(loop, p.module.text(made)), p.module.delete(made))
                yield Fix(f"line {made.lineno}: move `{p.module.text(made)}` before the loop of line {loop.lineno}", edits)


def _names(node: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _declared(cluster: Cluster, sources: Sources) -> Iterator[Fix]:
    """An attribute that the first call makes, with a value that needs no call, belongs to the class."""
    module = sources.module(cluster.first.file)
    name = cluster.at.rpartition(".")[2]
    if module is None:
        return
    for node in (n for n in ast.walk(module.tree) if isinstance(n, ast.Assign) and isinstance(n.value, ast.Constant)):
        target = node.targets[0]
        cls = next((n for n in module.above(node) if isinstance(n, ast.ClassDef)), None)
        if cls is not None and isinstance(target, ast.Attribute) and target.attr == name:
            text = f"{name} = {module.text(node.value)}"
            yield Fix(f"line {cls.lineno}: give class {cls.name} `{text}`", (module.insert_before(_first_statement(cls), text),))


def _first_statement(cls: ast.ClassDef) -> ast.stmt:
    has_doc = len(cls.body) > 1 and isinstance(cls.body[0], ast.Expr) and isinstance(cls.body[0].value, ast.Constant)
    return cls.body[int(has_doc)]


# ---- modes ----------------------------------------------------------------------------------------------------


def _one_grad_mode(cluster: Cluster, sources: Sources) -> Iterator[Fix]:
    """Have the calls that record gradients record none, as the other ones."""
    if cluster.first.aspect != "grad mode":
        return
    for module, callee in {(m.file, text := ast.unparse(call.func)): (m, text) for m, call in called(cluster, sources)}.values():
        same = [c for c in ast.walk(module.tree) if isinstance(c, ast.Call) and ast.unparse(c.func) == callee and _records(module, c)]
        edits = tuple(module.replace(c.func, f"torch.no_grad()({callee})") for c in same)
        lines = ", ".join(str(c.lineno) for c in same)
        if edits and module.imports("torch"):
            yield Fix(f"line {lines}: call `{callee}` under `torch.no_grad()`, as the other calls", edits)


def _records(module: Module, call: ast.Call) -> bool:
    """Whether nothing around a call says that it records no gradients."""
    return not any(mode in ast.unparse(around) for around in module.around(call) for mode in ("no_grad", "inference_mode"))


# By the name of the cause; the first fix that holds is taken.
REMEDIES: dict[str, Find] = {
    "global mode": _one_grad_mode,
    "attribute made later": _declared,
    "size of a dim": _padded,
    "dtype": _wrapping(_PASS, _as_dtype),
    "strides": _wrapping(_PASS, lambda p, c: f"{p.operand}.contiguous()"),
    "requires_grad": _wrapping(_PASS, lambda p, c: f"{p.operand}.detach()"),
    "number attribute": _kept_as_tensor,
    "number item": _kept_as_tensor,
    "number global": _kept_as_tensor,
    "number argument": _wrapping(_PASS, _as_tensor),
    "keys of a dict": _wrapping(_PASS, _only_keys),
    "new object": _hoisted,
}


def fixes(cluster: Cluster, sources: Sources) -> list[Fix]:
    """The edits to try, the likeliest first."""
    find = REMEDIES.get(cluster.cause.name)
    return list(find(cluster, sources)) if find is not None else []
