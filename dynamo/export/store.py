"""Exported graphs in files: a zip of `graph.json` and one plain entry per tensor memory. There is no pickle in it.

Reading one runs nothing: operations are looked up in `vocabulary`, classes of containers among those that the program has loaded
already, and everything that becomes Python source (names) is checked to be an identifier. What is wrong with a file is one line
(EXP003, EXP004).
"""

from __future__ import annotations

import ctypes
import io
import json
import keyword
import os
import zipfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

import torch
from torch.fx import Graph, GraphModule, Node

from dynamo.aot.facts import attribute
from dynamo.export import vocabulary
from dynamo.export.calling import RESERVED, ExportedModule, ExportResult, call_of, module_of, put
from dynamo.export.captured import stack_text
from dynamo.export.facts import LoadError, SaveError, VocabularyError
from dynamo.export.records import Classes, call_from_json, call_to_json
from dynamo.export.values import TAGS, from_json, to_json
from dynamo.fake import FakeTensor

FORMAT, VERSION = "dynamo-debug exported graph", 1
_GRAPH = "graph.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same graph gives the same file

File = str | os.PathLike[str] | IO[bytes]


def save(exported: ExportResult | GraphModule, file: File) -> None:
    """Write what `export` gave to a file (or an open binary one). Raises SaveError for what has no form in a file."""
    text, storages = _document(exported)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as z:
        z.writestr(zipfile.ZipInfo(_GRAPH, _EPOCH), text)
        for i, storage in enumerate(storages):
            with z.open(zipfile.ZipInfo(f"memory/{i}", _EPOCH), "w", force_zip64=True) as entry:
                entry.write(_bytes_of(storage))


def load(file: File, *, operators: Sequence[str] = (), classes: Sequence[type] = ()) -> ExportResult:
    """Read an exported graph.

    `operators`: libraries of custom operators that it may call, besides torch's own. `classes`: those of containers in arguments and
    results; named tuples, data classes and kinds of dict that the program has imported are found without.
    Raises LoadError, VocabularyError for what is not allowed, and OSError when the file can't be opened.
    """
    try:
        with zipfile.ZipFile(file) as z:
            document, memory = _read(z)
        return _result(document, memory, operators, Classes(classes))
    except LoadError:
        raise
    except zipfile.BadZipFile as e:
        raise LoadError(f"the file is damaged or no exported graph: {e} [EXP003]") from e
    except _MALFORMED as e:
        text = str(e).splitlines()[0] if str(e) else ""
        raise LoadError(f"the file is damaged: {type(e).__name__}: {text:.200} [EXP003]") from e


# what taking apart JSON of another shape than expected raises, and torch for tensors that don't fit their memory
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError, EOFError, SyntaxError)


def to_bytes(exported: ExportResult | GraphModule) -> bytes:
    out = io.BytesIO()
    save(exported, out)
    return out.getvalue()


def from_bytes(data: bytes) -> GraphModule:
    return load(io.BytesIO(data)).graph_module


# ---- writing ------------------------------------------------------------------------------------------------


class _Tensors:
    """Tensors by identity and their memories by address, so that sharing is kept."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.storages: list[torch.UntypedStorage] = []
        self._row_of: dict[int, int] = {}
        self._storage_of: dict[int, int] = {}
        self._keep: list[torch.Tensor] = []

    def add(self, t: torch.Tensor, name: str) -> int:
        if id(t) not in self._row_of:
            self._row_of[id(t)] = len(self.rows)
            self._keep.append(t)
            self.rows.append(self._describe(t, name))
        return self._row_of[id(t)]

    def _describe(self, t: torch.Tensor, name: str) -> dict[str, Any]:
        if t.layout is not torch.strided or t.is_quantized or type(t) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
            raise SaveError(f"{name} is a {type(t).__name__} of layout {t.layout}; only dense tensors have a form in a file [EXP002]")
        if t.is_conj() or t.is_neg():
            plain = t.resolve_conj().resolve_neg().detach()
            self._keep.append(plain)
        else:
            plain = t
        storage = plain.untyped_storage()
        key = storage._cdata
        if key not in self._storage_of:
            self._storage_of[key] = len(self.storages)
            self.storages.append(storage)
        return {
            "memory": self._storage_of[key],
            "dtype": str(t.dtype).removeprefix("torch."),
            "shape": list(plain.shape),
            "strides": list(plain.stride()),
            "offset": plain.storage_offset(),
            "device": str(t.device),
            "requires_grad": t.requires_grad,
            "parameter": isinstance(t, torch.nn.Parameter),
        }


def _document(exported: ExportResult | GraphModule) -> tuple[str, list[torch.UntypedStorage]]:
    gm = exported.graph_module if isinstance(exported, ExportResult) else exported
    call = call_of(gm)
    tensors = _Tensors()
    attributes = [{"name": n, "tensor": tensors.add(t, n), "persistent": True} for n, t in gm.named_parameters(remove_duplicate=False)]
    state = gm.state_dict(keep_vars=True)
    attributes += [{"name": n, "tensor": tensors.add(t, n), "persistent": n in state} for n, t in gm.named_buffers(remove_duplicate=False)]
    known = {str(a["name"]) for a in attributes}
    bodies: dict[str, Any] = {}
    for node in gm.graph.nodes:
        if node.op == "get_attr" and str(node.target) not in known:
            value = attribute(gm, str(node.target))
            if isinstance(value, torch.Tensor):
                attributes.append({"name": str(node.target), "tensor": tensors.add(value, str(node.target)), "plain": True})
            elif isinstance(value, GraphModule):
                bodies.update(_bodies(value, str(node.target)))
            else:
                raise SaveError(f"the graph holds a {type(value).__qualname__} ({node.target}), which has no form in a file [EXP002]")
            known.add(str(node.target))
    document = {
        "format": FORMAT,
        "version": VERSION,
        "call": call_to_json(call),
        "nodes": _nodes(gm),
        "bodies": bodies,
        "attributes": attributes,
        "tensors": tensors.rows,
        "memory": [s.nbytes() for s in tensors.storages],
        "training": gm.training,
    }
    return json.dumps(document, indent=None, separators=(",", ":"), allow_nan=False), tensors.storages


def _bodies(gm: GraphModule, path: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A region of the graph and those inside it, whose names begin with that of the region."""
    yield path, _nodes(gm)
    for node in gm.graph.find_nodes(op="get_attr"):
        inner = attribute(gm, str(node.target))
        if not isinstance(inner, GraphModule):
            raise SaveError(f"a region of the graph holds {node.target}, which has no form in a file [EXP002]")
        yield from _bodies(inner, f"{path}.{node.target}")


def _nodes(gm: GraphModule) -> list[dict[str, Any]]:
    rows = []
    for node in gm.graph.nodes:
        target = vocabulary.name_of(node.target) if node.op == "call_function" else str(node.target)
        if node.op == "call_module":
            raise SaveError(f"the graph calls the module {node.target}, which has no form in a file [EXP002]")
        if node.op == "call_method" and target not in vocabulary.methods():
            raise SaveError(f"the graph calls the tensor method {target!r}, which is not in the vocabulary of files [EXP002]")
        row: dict[str, Any] = {"op": node.op, "name": node.name, "target": target}
        if node.op != "placeholder":
            row |= {"args": [to_json(a) for a in node.args], "kwargs": {k: to_json(v) for k, v in node.kwargs.items()}}
        if "source" in node.meta:
            file, line, stack = node.meta["source"]
            row["source"] = [file, line, list(stack)]
        val = node.meta.get("val")
        if isinstance(val, torch.Tensor) and val.layout is torch.strided:
            device = getattr(val, "fake_device", val.device)
            row["val"] = [str(val.dtype).removeprefix("torch."), list(val.shape), list(val.stride()), str(device)]
        rows.append(row)
    return rows


def _bytes_of(storage: torch.UntypedStorage) -> bytes:
    own = storage.cpu()
    return ctypes.string_at(own.data_ptr(), own.nbytes()) if own.nbytes() else b""


# ---- reading ------------------------------------------------------------------------------------------------


def _read(z: zipfile.ZipFile) -> tuple[dict[str, Any], list[bytearray]]:
    entries = {info.filename: info for info in z.infolist()}
    if len(entries) != len(z.infolist()) or any(i.compress_type != zipfile.ZIP_STORED for i in entries.values()):
        raise LoadError("the file is no exported graph: its entries are compressed or there twice [EXP003]")
    if _GRAPH not in entries:
        raise LoadError(f"the file is no exported graph: it has no {_GRAPH} [EXP003]")
    document = json.loads(z.read(_GRAPH).decode("utf-8"))
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise LoadError("the file is no exported graph: its format is not named in it [EXP003]")
    if document.get("version") != VERSION:
        raise LoadError(f"the file has version {document.get('version')!r:.20} of the format, this program reads {VERSION} [EXP003]")
    sizes = document["memory"]
    expected = {_GRAPH, *(f"memory/{i}" for i in range(len(sizes)))}
    if set(entries) != expected:
        raise LoadError("the file is damaged: its entries are not those that it names [EXP003]")
    memory = []
    for i, size in enumerate(sizes):
        if entries[f"memory/{i}"].file_size != size:
            raise LoadError(f"the file is damaged: memory {i} has not the size that is named [EXP003]")
        memory.append(bytearray(z.read(f"memory/{i}")))
    return document, memory


def _result(document: dict[str, Any], memory: list[bytearray], operators: Sequence[str], classes: Classes) -> ExportResult:
    call = call_from_json(document["call"], classes)
    holder = torch.nn.Module()
    tensors = _tensors(document["tensors"], memory)
    attributes: dict[str, Any] = {}
    for row in document["attributes"]:
        name = _path(row["name"])
        value = tensors[_index(row["tensor"], tensors)]
        put(holder, name, value, bool(row.get("persistent", True)))
    for name, body in _regions(document["bodies"], operators).items():
        attributes[name] = body
        put(holder, name, body)
    graph = _graph(document["nodes"], operators, holder)
    if len(graph.find_nodes(op="placeholder")) != len(call.leaves):
        raise LoadError("the file is damaged: the graph has not as many inputs as the call [EXP003]")
    gm = module_of(graph, attributes, call, holder)
    gm.train(document["training"] is True)
    return ExportResult(gm, list(call.guards))


def _regions(bodies: dict[str, Any], operators: Sequence[str]) -> dict[str, GraphModule]:
    """The regions of the graph by name, each with those inside it."""
    made: dict[str, GraphModule] = {}
    for name in sorted(map(_path, bodies), key=lambda n: -n.count(".")):
        holder = torch.nn.Module()
        inside = [path for path in made if path.rpartition(".")[0] == name]
        for path in inside:
            put(holder, path.rpartition(".")[2], made.pop(path))
        made[name] = GraphModule(holder, _graph(bodies[name], operators, holder if inside else None))
    return {name: made[name] for name in bodies if name in made}


def _tensors(rows: list[dict[str, Any]], memory: list[bytearray]) -> list[torch.Tensor]:
    storages: dict[tuple[int, str], torch.UntypedStorage] = {}
    made = []
    for row in rows:
        dtype = TAGS["dtype"].decode(row["dtype"], from_json)
        device = TAGS["device"].decode(row["device"], from_json)
        i = _index(row["memory"], memory)
        if (i, str(device)) not in storages:
            data = memory[i]
            whole = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
            storages[i, str(device)] = whole.to(device).untyped_storage()
        shape, strides, offset = tuple(map(_count, row["shape"])), tuple(map(_count, row["strides"])), _count(row["offset"])
        if len(shape) != len(strides):
            raise LoadError("the file is damaged: a tensor has not as many strides as sizes [EXP003]")
        last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
        if 0 not in shape and last * dtype.itemsize > len(memory[i]):
            raise LoadError("the file is damaged: a tensor reaches beyond its memory [EXP003]")
        t = torch.empty(0, dtype=dtype, device=device).set_(storages[i, str(device)], offset, shape, strides)
        wants = row["requires_grad"] is True
        made.append(torch.nn.Parameter(t, wants) if row["parameter"] is True else t.requires_grad_(wants))
    return made


def _graph(rows: list[dict[str, Any]], operators: Sequence[str], holder: torch.nn.Module | None) -> Graph:
    graph = Graph()
    nodes: dict[str, Node] = {}
    if not rows or rows[-1]["op"] != "output":
        raise LoadError("the file is damaged: the graph has no output [EXP003]")
    for row in rows:
        op, name = row["op"], _identifier(row["name"])
        target = _target(op, row["target"], operators, holder)
        given = row.get("args", [])
        args = tuple(from_json(a, nodes) for a in given) if isinstance(given, list) else ()
        if (op == "call_method" and not (args and isinstance(args[0], Node))) or not isinstance(given, list):
            raise LoadError(f"the file is damaged: the node {name!r} has other arguments than its operation [EXP003]")
        kwargs = {_identifier(k): from_json(v, nodes) for k, v in row.get("kwargs", {}).items()}
        if target is getattr and not (len(args) == 2 and isinstance(args[0], Node) and args[1] in vocabulary.properties()):
            raise VocabularyError("the file reads an attribute that is not in the vocabulary of exported graphs [EXP004]")
        node = graph.create_node(op, target, args, kwargs, name=name)
        if name in nodes or (op == "output") != (row is rows[-1]):
            raise LoadError(f"the file is damaged: the node {name!r} is there twice or out of place [EXP003]")
        nodes[name] = node
        _metadata(node, row)
    graph.lint()
    return graph


def _target(op: Any, target: Any, operators: Sequence[str], holder: torch.nn.Module | None) -> Any:
    match op:
        case "call_function":
            return vocabulary.function_of(str(target), operators)
        case "call_method":
            return vocabulary.checked_method(target)
        case "get_attr" if holder is not None:
            path = _path(target)
            value = attribute(holder, path)
            if not isinstance(value, torch.Tensor | GraphModule):
                raise LoadError(f"the file is damaged: {path} is no tensor [EXP003]")
            return path
        case "placeholder" | "output":
            return _identifier(target)
    raise VocabularyError(f"the file has a node of the kind {op!r:.40} [EXP004]")


def _metadata(node: Node, row: dict[str, Any]) -> None:
    if "source" in row:
        file, line, stack = row["source"]
        node.meta["source"] = (str(file), int(line), tuple(str(s) for s in stack))
        node.meta["stack_trace"] = stack_text(node)
    if "val" in row:
        dtype, shape, strides, device = row["val"]
        meta = torch.empty_strided(
            tuple(map(_count, shape)), tuple(map(_count, strides)), dtype=TAGS["dtype"].decode(dtype, from_json), device="meta"
        )
        node.meta["val"] = FakeTensor(meta, TAGS["device"].decode(device, from_json))


def _identifier(name: Any) -> str:
    if not isinstance(name, str) or not name.isascii() or not name.isidentifier() or keyword.iskeyword(name) or name in (*RESERVED, "self"):
        raise LoadError(f"the file has {name!r:.60} in place of a name [EXP003]")
    return name


def _path(name: Any) -> str:
    """A dotted name. Parts may be numbers, as in `layers.0.weight`."""
    parts = name.split(".") if isinstance(name, str) else []
    if not parts or not all(p.isascii() and (p.isidentifier() or p.isdigit()) and not p.startswith("__") for p in parts):
        raise LoadError(f"the file has {name!r:.60} in place of a name [EXP003]")
    return str(name)


def _count(n: Any) -> int:
    if type(n) is not int or n < 0 or n >= 1 << 48:
        raise LoadError(f"the file has {n!r:.60} in place of a size [EXP003]")
    return n


def _index(i: Any, rows: Sequence[Any]) -> int:
    if type(i) is not int or not 0 <= i < len(rows):
        raise LoadError(f"the file has {i!r:.60} in place of a number below {len(rows)} [EXP003]")
    return i


ExportedModule.reduced = staticmethod(lambda gm: (from_bytes, (to_bytes(gm),)))
