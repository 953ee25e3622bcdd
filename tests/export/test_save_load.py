"""Saved graphs: loaded in another process they give what the exporting process gives; damaged and hostile files give one line."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import dynamo
from dynamo.export import LoadError, SaveError, VocabularyError
from tests.export.forms import FORMS, Arguments, Form, Pair, Point
from tests.models.zoo import MODELS, Model

pytestmark = pytest.mark.timeout(300)

# small models of three libraries; the graph goes to the other process with weights and buffers
ZOO = (
    "torchvision resnet18",
    "torchvision mobilenet_v3_small",
    "torchvision shufflenet_v2_x0_5",
    "transformers GPT2LMHeadModel",
    "transformers BertModel",
    "transformers T5ForConditionalGeneration",
)
CONTAINERS = ("transformers.cache_utils", "transformers.modeling_outputs")
SAVABLE = [f for f in FORMS if f.savable]


class Other:
    """A process that imports the forms, loads files and calls what is in them."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.export.loader"]
        root = Path(__file__).parents[2]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root)

    def call(self, graph: Path, inputs: Path, outputs: Path, modules: Sequence[str]) -> str:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(json.dumps([*map(os.fspath, (graph, inputs, outputs)), modules]) + "\n")
        stdin.flush()
        return stdout.readline().strip()


@pytest.fixture(scope="module")
def other() -> Iterator[Other]:
    process = Other()
    yield process
    process.process.communicate(timeout=60)


def check(
    other: Other,
    tmp_path: Path,
    f: Callable[..., Any],
    calls: list[Arguments],
    aten_graph: bool,
    modules: Sequence[str] = ("tests.export.forms",),
) -> None:
    reference = copy.deepcopy(f) if isinstance(f, torch.nn.Module) else f
    args, kwargs = copy.deepcopy(calls[0])
    exported = dynamo.export(f, *args, aten_graph=aten_graph, **kwargs)
    dynamo.export.save(exported, tmp_path / "graph.dd")
    torch.save(calls, tmp_path / "inputs.pt")
    assert other.call(tmp_path / "graph.dd", tmp_path / "inputs.pt", tmp_path / "outputs.pt", modules) == "done"
    found = torch.load(tmp_path / "outputs.pt", weights_only=False)
    for call, (result, left) in zip(calls, found, strict=True):
        args, kwargs = call
        torch.manual_seed(0)
        expected = reference(*args, **kwargs)
        same((result, left), (expected, call))


def same(found: Any, expected: Any) -> None:
    """Equal in type, structure and digits."""
    assert type(found) is type(expected)
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True, check_stride=True)
        return
    kind = dynamo.export.trees.kind_of(expected) if not isinstance(expected, (set, frozenset)) else None
    if kind is None:
        assert found == expected or isinstance(expected, object)
        return
    parts = dynamo.export.trees.KINDS[kind].parts
    for (k, x), (e, y) in zip(parts(found), parts(expected), strict=True):
        assert k == e
        same(x, y)


@pytest.mark.parametrize("aten_graph", [False, True], ids=["captured", "aten"])
@pytest.mark.parametrize("form", SAVABLE, ids=lambda f: f.name)
def test_form_in_another_process(form: Form, aten_graph: bool, other: Other, tmp_path: Path) -> None:
    torch.manual_seed(0)
    check(other, tmp_path, form.make(), form.calls(), aten_graph)


@pytest.mark.parametrize("model", [m for m in MODELS if m.name in ZOO], ids=lambda m: m.name)
def test_model_in_another_process(model: Model, other: Other, tmp_path: Path) -> None:
    torch.manual_seed(0)
    module = model.make().eval()
    check(other, tmp_path, module, [model.inputs()], False, CONTAINERS if "transformers" in model.name else ())


def test_there_are_forty_graphs() -> None:
    assert len(SAVABLE) + len(ZOO) >= 40
    assert {m.name for m in MODELS} >= set(ZOO)


# ---- what is kept -------------------------------------------------------------------------------------------


def again(exported: Any, **options: Any) -> Any:
    file = io.BytesIO()
    dynamo.export.save(exported, file)
    file.seek(0)
    return dynamo.export.load(file, **options)


def test_sharing_gradients_and_state_are_kept() -> None:
    tied = next(f for f in FORMS if f.name == "shared parameters").make()
    loaded = again(dynamo.export(tied, torch.tensor([0, 1]))).graph_module
    assert loaded.head.weight is loaded.embedding.weight
    assert list(loaded.state_dict()) == list(tied.state_dict())
    loaded(torch.tensor([0, 1])).sum().backward()
    tied(torch.tensor([0, 1])).sum().backward()
    torch.testing.assert_close(loaded.head.weight.grad, tied.head.weight.grad)


def test_views_of_one_memory_stay_views() -> None:
    whole = torch.arange(6.0)
    part = whole[2:4]

    def f(x: torch.Tensor) -> torch.Tensor:
        return x + whole.sum() + part

    loaded = again(dynamo.export(f, torch.ones(2))).graph_module
    memories = {b.untyped_storage()._cdata for b in loaded.buffers()}
    assert len(list(loaded.buffers())) == 2 and len(memories) == 1


def test_stacks_and_guards_are_kept() -> None:
    exported = dynamo.export(lambda x: x.sin(), torch.ones(2))
    loaded = again(exported)
    assert loaded.guards == exported.guards
    (node,) = [n for n in loaded.graph_module.graph.nodes if n.op == "call_method"]
    assert "test_save_load.py" in node.meta["stack_trace"] and "x.sin()" in node.meta["stack_trace"]
    assert tuple(node.meta["val"].shape) == (2,)


def test_a_loaded_graph_checks_its_arguments() -> None:
    loaded = again(dynamo.export(lambda x, n: x * n, torch.ones(2), 3))
    with pytest.raises(dynamo.export.ArgumentError, match=r"argument n: expected 3, got 4; .* \[EXP001\]"):
        loaded(torch.ones(2), 4)


def test_the_same_graph_gives_the_same_file() -> None:
    first, second = io.BytesIO(), io.BytesIO()
    for file in (first, second):
        dynamo.export.save(dynamo.export(torch.sin, torch.ones(2)), file)
    assert first.getvalue() == second.getvalue()


def test_pickle_goes_by_way_of_the_file_form() -> None:
    import pickle

    gm, _ = dynamo.export(torch.nn.Linear(2, 2), torch.ones(1, 2))
    x = torch.randn(1, 2)
    torch.testing.assert_close(pickle.loads(pickle.dumps(gm))(x), gm(x))
    torch.testing.assert_close(copy.deepcopy(gm)(x), gm(x))


# ---- what can't be saved ------------------------------------------------------------------------------------


@dynamo.assume_constant_result
def an_object() -> Any:
    return object()


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
        return g


class Config:
    def __init__(self) -> None:
        self.scale = 2


@pytest.mark.parametrize(
    ("f", "args", "words"),
    [
        (lambda x: (x, an_object()), (torch.ones(2),), "a object .* has no form in a file"),
        (lambda x: Own.apply(x), (torch.ones(2),), "calls Own, which is no function of torch"),
        (lambda x, c: x * c.scale, (torch.ones(2), Config()), "the argument c, a Config"),
    ],
    ids=["object in the result", "function of the program", "object in the arguments"],
)
def test_what_has_no_form_is_one_line(f: Any, args: Any, words: str) -> None:
    exported = dynamo.export(f, *args)
    with pytest.raises(SaveError, match=words + r".*\[EXP002\]") as caught:
        dynamo.export.save(exported, io.BytesIO())
    assert "\n" not in str(caught.value)


# ---- hostile files ------------------------------------------------------------------------------------------


def saved(f: Any = lambda x, d: {"y": x + d["k"]}, *args: Any) -> dict[str, bytes]:
    file = io.BytesIO()
    dynamo.export.save(dynamo.export(f, *(args or (torch.ones(2), {"k": torch.ones(2)}))), file)
    with zipfile.ZipFile(file) as z:
        return {n: z.read(n) for n in z.namelist()}


def packed(entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as z:
        for name, data in entries.items():
            z.writestr(name, data)
    file.seek(0)
    return file


def edited(change: Callable[[dict[str, Any]], Any], entries: dict[str, bytes] | None = None) -> io.BytesIO:
    entries = entries or saved()
    document = json.loads(entries["graph.json"])
    change(document)
    return packed(entries | {"graph.json": json.dumps(document).encode()})


def node(document: dict[str, Any], op: str) -> dict[str, Any]:
    return next(n for n in document["nodes"] if n["op"] == op)


HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], Any], type[LoadError]]] = {
    "system call": (lambda d: node(d, "call_function").update(target="os.system"), VocabularyError),
    "torch.load": (lambda d: node(d, "call_function").update(target="torch.load"), VocabularyError),
    "file operator": (lambda d: node(d, "call_function").update(target="torch.ops.aten.from_file.default"), VocabularyError),
    "foreign operator": (lambda d: node(d, "call_function").update(target="torch.ops.mylib.op.default"), VocabularyError),
    "attribute of an operator": (lambda d: node(d, "call_function").update(target="torch.ops.aten.__class__"), VocabularyError),
    "builtins.eval": (lambda d: node(d, "call_function").update(target="builtins.eval"), VocabularyError),
    "method": (lambda d: node(d, "call_function").update(op="call_method", target="__reduce__"), VocabularyError),
    "method of a literal": (lambda d: node(d, "call_function").update(op="call_method", target="sin", args=["x"]), LoadError),
    "arguments that are no list": (lambda d: node(d, "call_function").update(args="xy"), LoadError),
    "module call": (lambda d: node(d, "call_function").update(op="call_module", target="x"), VocabularyError),
    "name with code": (lambda d: node(d, "call_function").update(name="x = __import__('os')"), LoadError),
    "parameter with code": (lambda d: d["call"]["parameters"][0].__setitem__(0, "x=print(1)"), LoadError),
    "placeholder with code": (lambda d: node(d, "placeholder").update(target="x, y"), LoadError),
    "attribute path with code": (lambda d: node(d, "call_function").update(op="get_attr", target='a");print(1);("', args=[]), LoadError),
    "reference forward": (lambda d: node(d, "call_function").update(args=[{"node": "output"}]), LoadError),
    "unknown tag": (lambda d: node(d, "call_function").update(args=[{"pickle": "gASV"}]), LoadError),
    "getattr of a class": (
        lambda d: node(d, "call_function").update(target="builtins.getattr", args=[{"node": "x"}, "__class__"]),
        VocabularyError,
    ),
    "class of the library": (lambda d: d["call"]["result"][-1].__setitem__(2, "subprocess:Popen"), VocabularyError),
    "object of any class": (lambda d: d["call"]["result"][-1].__setitem__(1, "object"), VocabularyError),
    "class that isn't loaded": (lambda d: d["call"]["result"][-1].__setitem__(2, "antigravity:X"), VocabularyError),
    "attribute of an attribute": (lambda d: d["call"]["result"].insert(0, ["given", "x", [["attr", "__class__"]]]), LoadError),
    "unknown parameter": (lambda d: d["call"]["result"].insert(0, ["given", "nowhere", []]), LoadError),
    "row of itself": (lambda d: d["call"]["result"][-1].__setitem__(4, [7]), LoadError),
    "other version": (lambda d: d.update(version=99), LoadError),
    "other format": (lambda d: d.update(format="pickle"), LoadError),
    "no nodes": (lambda d: d.update(nodes=[]), LoadError),
    "nodes of another type": (lambda d: d.update(nodes=3), LoadError),
    "missing call": (lambda d: d.pop("call"), LoadError),
    "fewer leaves": (lambda d: d["call"]["leaves"].pop(), LoadError),
    "unknown dtype": (lambda d: d["call"]["leaves"][0].update(dtype="load"), LoadError),
    "deep nesting": (lambda d: d["call"].update(result=json.loads("[" * 900 + "]" * 900)), LoadError),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_file_is_one_line(what: str) -> None:
    change, kind = HOSTILE[what]
    with pytest.raises(kind, match=rf"\[{kind.id}\]$") as caught:
        dynamo.export.load(edited(change))
    assert "\n" not in str(caught.value)


def weights(change: Callable[[dict[str, Any]], Any]) -> io.BytesIO:
    return edited(change, saved(torch.nn.Linear(2, 2), torch.ones(1, 2)))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["tensors"][0].update(shape=[1 << 20, 1 << 20]),
        lambda d: d["tensors"][0].update(offset=1 << 40),
        lambda d: d["tensors"][0].update(strides=[-1, 1]),
        lambda d: d["tensors"][0].update(memory=17),
        lambda d: d["tensors"][0].update(dtype="float64"),
        lambda d: d["tensors"][0].update(device="nowhere:3"),
        lambda d: d["memory"].__setitem__(0, 1 << 50),
        lambda d: d["attributes"][0].update(name="weight.__class__"),
    ],
    ids=["shape", "offset", "strides", "memory", "dtype", "device", "size", "name"],
)
def test_tensors_that_do_not_fit_their_memory(change: Callable[[dict[str, Any]], Any]) -> None:
    with pytest.raises(LoadError, match=r"\[EXP003\]$"):
        dynamo.export.load(weights(change))


def test_damaged_files_are_one_line() -> None:
    whole = packed(saved(torch.nn.Linear(2, 2), torch.ones(1, 2))).getvalue()
    for cut in range(0, len(whole), 37):
        with pytest.raises(LoadError, match=r"\[EXP003\]$") as caught:
            dynamo.export.load(io.BytesIO(whole[:cut]))
        assert "\n" not in str(caught.value)
    start = whole.index(b"memory/0") + 8
    with pytest.raises(LoadError, match=r"\[EXP003\]$"):
        dynamo.export.load(io.BytesIO(whole[:start] + bytes([whole[start] ^ 255]) + whole[start + 1 :]))
    with pytest.raises(LoadError, match="compressed"):
        dynamo.export.load(packed(saved(), zipfile.ZIP_DEFLATED))
    with pytest.raises(LoadError, match="entries"):
        dynamo.export.load(packed(saved() | {"memory/9": b""}))
    with pytest.raises(OSError):
        dynamo.export.load("/nowhere/graph.dd")


def test_every_changed_byte_of_the_graph_loads_or_is_one_line() -> None:
    entries = saved()
    text = entries["graph.json"]
    for at in range(0, len(text), 11):
        changed = text[:at] + b"7" + text[at + 1 :]
        with contextlib.suppress(LoadError):  # anything else is a failure
            dynamo.export.load(packed(entries | {"graph.json": changed}))


def test_classes_are_asked_for_by_name() -> None:
    class Local(tuple):  # a class that another process can't import
        __slots__ = ()

    file = edited(
        lambda d: d["call"]["result"][-1].__setitem__(slice(1, 3), ["dataclass", "elsewhere:Point"]),
        saved(lambda p: Point(p.x, 1), Point(torch.ones(2))),
    )
    with pytest.raises(VocabularyError, match=r"classes=\[\.\.\.\]"):
        dynamo.export.load(file)
    file.seek(0)
    assert isinstance(dynamo.export.load(file, classes=[Point])(Point(torch.ones(2))), Point)
    assert Pair._fields == ("u", "v")
