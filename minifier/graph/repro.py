"""A reduced graph as a script that a person can read and run: `Repro.forward` is the graph, line by line."""

from __future__ import annotations

import keyword
import os
import re
import shutil
import sys
import textwrap
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dynamo.peer import patient
from minifier.beside import copy_backend
from minifier.engine import Kind, Signature
from minifier.graph.inputs import dense
from minifier.graph.ir import Graph, Input, Named, Node, Ref, Seq
from minifier.graph.oracle import Setting

_INFIX = {"add": "+", "sub": "-", "mul": "*", "matmul": "@", "truediv": "/", "pow": "**", "floordiv": "//", "mod": "%"}

_TEXT = '''{doc}

{imports}

{constants}


class Repro(torch.nn.Module):
{init}    def forward(self{parameters}):
{body}


def seeded(number):
    return torch.Generator().manual_seed(number)

{reader}
def inputs():
{inputs}
    return [{names}]


def compiled(module):
    {compiled}


{results}

def check():
    module = Repro()
    expected = results(torch.fx.symbolic_trace(module), module)
    try:
        module = Repro()
        found = results(compiled(module), module)
    except Exception as error:
        print(f"{{type(error).__name__}}: {{error}}")
        return 1 if shows(error) else 4
    wrong = difference(found, expected)
    print(f"ok: {{len(expected)}} results equal eager" if wrong is None else f"{{wrong[0]}}: {{wrong[1]}}")
    return {end}


def shows(error):
{shows}


{difference}


def main():
{state}


if __name__ == "__main__":
    sys.exit(main())
'''

_LAUNCHER = '''{doc}

{imports}

SETTING = oracle.Setting.from_json({setting})


class Repro(torch.nn.Module):
{init}    def forward(self{parameters}):
{body}


def seeded(number):
    return torch.Generator().manual_seed(number)


def inputs():
{inputs}
    return [{names}]


if __name__ == "__main__":
    sys.exit(launch(Repro, inputs, SETTING, {name!r}, Path(__file__).absolute().parent))
'''

SHOWS = r'''    names, text, at = [], str(error), getattr(getattr(error, "inner_exception", error), "__traceback__", None)
    frame = ([""] + [f"{Path(f.filename).name}:{f.name}" for f in traceback.extract_tb(at)])[-1]
    frame = re.sub(r"^c[a-z2-7]{51}\.py:", "<compiled>:", re.sub(r">\.\d+:", ">:", frame))
    while error is not None:
        home, name = type(error).__module__, type(error).__qualname__
        names.append(getattr(type(error), "own_name", "") or (name if home == "builtins" else f"{home}.{name}"))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return names == EXCEPTIONS and (frame == FRAME != "" or all(w in text for w in {*re.findall("[A-Za-z]{3,}", MESSAGE)} - {"ADDRESS"}))'''

_DIFFERENCE = '''def difference(found, expected):
    if len(found) != len(expected):
        return "count", f"{len(found)} results instead of {len(expected)}"
    for at, (f, e) in enumerate(zip(found, expected)):
        if not isinstance(e, torch.Tensor) or not isinstance(f, torch.Tensor):
            if type(f) is not type(e) or f != e:
                return "type", f"result {at}: {f!r:.80} instead of {e!r:.80}"
        elif (f.shape, f.dtype) != (e.shape, e.dtype):
            return ("shape" if f.shape != e.shape else "dtype"), f"result {at}: {f.shape} of {f.dtype} instead of {e.shape} of {e.dtype}"
        elif not (e.dtype.is_floating_point or e.dtype.is_complex):
            if not torch.equal(f, e):
                return "value", f"result {at}: {int((f != e).sum())} of {e.numel()} elements differ"
        elif not torch.equal(torch.isfinite(f), torch.isfinite(e)):
            return "nan", f"result {at}: other values are not finite"
        elif not torch.allclose(f, e, rtol=TOLERANCE[e.dtype], atol=TOLERANCE[e.dtype], equal_nan=True):
            return "value", f"result {at}: largest difference {(f.double() - e.double()).abs().nan_to_num().max():.3g}"
    return None'''

_OUR_DIFFERENCE = '''def difference(found, expected):
    return oracle.difference_of(Repro, results, found, expected)'''

_NO_EXCEPTION = ("    return False", "    return isinstance(error, MemoryError)")

_READER = '''
def load_file(path):
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:start])["value"]
    begin, end = entry["data_offsets"]
    flat = torch.frombuffer(bytearray(data[start + begin : start + end]), dtype=torch.uint8)
    return {"value": flat.view(DTYPES[entry["dtype"]])}

'''

_DTYPES = '''DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "BOOL": torch.bool}
DTYPES |= {"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "C64": torch.complex64}'''

_TOLERANCE = '''TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 2e-2}
TOLERANCE |= {torch.complex64: 1e-4, torch.complex128: 1e-7}'''

_GRADIENTS = '''roots = [f for f in found if isinstance(f, torch.Tensor) and f.requires_grad]
leaves = [t for t in (*given, *module.parameters()) if t.requires_grad]
if roots and leaves:
    found += torch.autograd.grad(roots, leaves, [torch.ones_like(r) for r in roots], allow_unused=True)
'''


@dataclass(frozen=True)
class Written:
    """Where a repro was written, and its text."""

    path: Path
    text: str


def write_repro(graph: Graph, setting: Setting, signature: Signature, folder: Path, name: str = "repro.py", remark: str = "") -> Written:
    """Write the script, and stored values of inputs beside it. Files appear complete or not at all."""
    return _write(repro_text(graph, setting, signature, name, remark), graph, setting, folder, name)


def write_launcher(graph: Graph, setting: Setting, graph_name: str, folder: Path, name: str = "minifier_launcher.py") -> Path:
    """Write a script that runs, minifies or analyzes the graph, and stored values of inputs beside it."""
    return _write(launcher_text(graph, setting, graph_name, name), graph, setting, folder, name).path


def _write(text: str, graph: Graph, setting: Setting, folder: Path, name: str) -> Written:
    folder.mkdir(parents=True, exist_ok=True)
    stored = [i for i in graph.inputs if i.recipe.kind == "stored"]
    if stored:
        (folder / "inputs").mkdir(exist_ok=True)
        for i in stored:
            _placed(Path(setting.store, f"{i.recipe.key}.safetensors"), folder / "inputs" / f"{i.recipe.key}.safetensors")
    if setting.store:  # the backend may be of the script
        copy_backend(setting.backend, [Path(setting.store).parent], folder)
    partial = folder / f".{name}.partial"
    partial.write_text(text)
    partial.rename(folder / name)
    return Written(folder / name, text)


def _placed(source: Path, target: Path) -> None:
    """The file at another place too, without a copy of its bytes where the disk can do that. Nobody writes into such files."""
    if source.absolute() == target.absolute():
        return
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def _program(graph: Graph) -> dict[str, str]:
    """The module and its inputs, as parts of a text."""
    names = _names(graph)
    arguments = [i for i in graph.inputs if not i.is_attribute]
    attributes = [i for i in graph.inputs if i.is_attribute]
    given = sorted(arguments, key=lambda i: i.base is not None)
    body = [*(f"{names[i.id]} = self.{names[i.id]}" for i in attributes), *(_line(n, names) for n in graph.nodes)]
    results = ", ".join(names[o] for o in graph.outputs)
    return {
        "init": _init(attributes, names),
        "parameters": "".join(f", {names[i.id]}" for i in arguments),
        "body": "\n".join(f"        {line}" for line in (*body, f"return ({results}{',' if results else ''})")),
        "inputs": "\n".join(f"    {names[i.id]} = {_value(i, names)}" for i in given) or "    pass",
        "names": ", ".join(names[i.id] for i in arguments),
    }


def repro_text(graph: Graph, setting: Setting, signature: Signature, name: str = "repro.py", remark: str = "") -> str:
    """The script as text. `remark` goes into its docstring: versions, and how often it was seen to fail."""
    is_torchs, stored = setting.engine == "torch", any(i.recipe.kind == "stored" for i in graph.inputs)
    return _TEXT.format(
        doc=doc_of(signature, name, remark, "runs the graph in eager, then compiled"),
        imports="\n".join(_imports(graph, setting, stored)),
        constants="\n".join(_constants(setting, signature, is_torchs and stored)),
        **_program(graph),
        reader=_READER if is_torchs and stored else "",
        compiled=_compiled(setting),
        results=_results(setting),
        end=f"1 if wrong is not None and wrong[0] == {signature.accuracy!r} else 0" if signature.kind is Kind.ACCURACY else "0",
        shows=SHOWS if signature.kind is Kind.EXCEPTION else _NO_EXCEPTION[signature.kind is Kind.MEMORY],
        difference=_DIFFERENCE if is_torchs else _OUR_DIFFERENCE,
        state="\n".join(f"    {line}" for line in _state(setting)),
    )


def first_lines(setting: Setting) -> list[str]:
    """Imports that take time, which a repro makes whatever its graph is."""
    if setting.engine != "torch":
        return ["import torch", "from minifier.graph import oracle"]
    return ["import torch", *(f"import {home}" for home in (*_homes_of_options(setting), *patient.loaded_by(setting.backend)))]


def _homes_of_options(setting: Setting) -> list[str]:
    return sorted({".".join(option.split(".")[:3]) for option in setting.options})


def launcher_text(graph: Graph, setting: Setting, graph_name: str, name: str) -> str:
    """A script that hands the graph to the minifier when it is run."""
    stored = any(i.recipe.kind == "stored" for i in graph.inputs)
    told = f"The graph {graph_name} of a program, under backend {setting.backend!r}."
    ways = "\n".join(f"    python {name} {word:<9}{what}" for word, what in _WAYS)
    imports = [*_imports(graph, setting, stored), "from minifier.classic.launcher import launch"]
    return _LAUNCHER.format(
        doc=f'"""{told}\n\n{ways}\n"""',
        imports="\n".join(line for line in imports if line not in ("import contextlib", "import re", "import traceback")),
        setting=repr({**setting.to_json(), "store": ""}),
        name=graph_name,
        **_program(graph),
    )


_WAYS = (
    ("", "make it as small as it gets; repro.py appears beside this file"),
    ("run", "say whether it fails"),
    ("analyze", "say which value is the first that eager has otherwise"),
)

_ENDS = {
    Kind.SIGNAL: "The process must end by signal {code}",
    Kind.EXIT: "The process must end with exit code {code}",
    Kind.HANG: "The process must hang",
}


def doc_of(signature: Signature, name: str, remark: str, what: str) -> str:
    """The docstring of a repro: its failure, how to run it, what its exit codes mean."""
    title = str(signature).replace("\\", "/").replace('"""', "'''")
    must = _ENDS.get(signature.kind, "Exit code 1: it fails as above").format(code=signature.code)
    told = f"{what}. {must}; 0: it works; 4: it fails in another way."
    return f'"""{title}\n\n    python {name}\n\n{told}\n' + (f"{remark}\n" if remark else "") + '"""'


def _imports(graph: Graph, setting: Setting, stored: bool) -> list[str]:
    functions = [n.target for n in graph.nodes if n.op == "function" and _operator(n) is None and not _is_item(n)]
    homes = {_importable(f.rpartition(".")[0]) for f in functions if not f.startswith("torch.")}
    is_torchs = setting.engine == "torch"
    if is_torchs:
        homes |= set(_homes_of_options(setting))
        homes |= {setting.backend.partition(":")[0]} if ":" in setting.backend else set()
    plain = {"re", "sys", "traceback", *(h for h in homes if h in sys.stdlib_module_names)}
    plain |= ({"json"} if stored else set()) if is_torchs else {"contextlib"}
    lines = [*(f"import {m}" for m in sorted(plain)), "from pathlib import Path", "", "import torch"]
    lines += [f"import {h}" for h in sorted(homes - plain)]
    if not is_torchs:
        lines += ["from safetensors.torch import load_file"] if stored else []
        lines += ["", "from minifier.graph import oracle"]
    return lines


def _constants(setting: Setting, signature: Signature, reads_files: bool) -> list[str]:
    lines = []
    if setting.engine != "torch":
        defaults, given = asdict(Setting()), asdict(setting)
        kept = (k for k in ("backend", "after", "is_backward", "arguments", "options") if given[k] != defaults[k])
        lines.append("SETTING = oracle.Setting(" + ", ".join(f"{k}={given[k]!r}" for k in kept) + ")")
    if signature.kind is Kind.EXCEPTION:
        lines += [f"EXCEPTIONS = {list(signature.exceptions)!r}", f"FRAME = {signature.frame!r}", f"MESSAGE = {signature.message!r}"]
    return [*lines, *([_DTYPES] if reads_files else []), *([_TOLERANCE] if setting.engine == "torch" else [])]


def _compiled(setting: Setting) -> str:
    if setting.engine != "torch":
        return "return oracle.compiled(torch.fx.symbolic_trace(module), inputs(), SETTING)"
    backend = setting.backend.replace(":", ".") if ":" in setting.backend else repr(setting.backend)
    options = "".join(f", {k}={v!r}" for k, v in setting.arguments.items())
    return f"return torch.compile(module, backend={backend}, dynamic=False{options})"


def _results(setting: Setting) -> str:
    """The function that runs the module; under our engine it can be run again on other inputs and under a mode, to judge numbers."""
    is_torchs = setting.engine == "torch"
    run = "found = list(call(*given))\n" + (_GRADIENTS if setting.backward else "")
    kept = "found" if setting.is_backward else "(*found, *given, *module.buffers(), *module.parameters())"
    lines = [
        f"def results(call, module{'' if is_torchs else ', change=lambda value: value, mode=contextlib.nullcontext()'}):",
        f"    given = {'inputs()' if is_torchs else '[change(value) for value in inputs()]'}",
        f"    torch.manual_seed({setting.under.seed})",
        textwrap.indent(run if is_torchs else "with mode:\n" + textwrap.indent(run, "    "), "    ") + "    "
        f"return [t.detach().clone() if isinstance(t, torch.Tensor) else t for t in {kept}]\n",
    ]
    return "\n".join(lines)


def _state(setting: Setting) -> list[str]:
    state = setting.under
    lines = [f"{name} = {value!r}" for name, value in setting.options.items()] if setting.engine == "torch" else []
    lines += state.lines()
    if (state.grad, state.inference, state.autocast) == (True, False, ()):
        return [*lines, "return check()"]
    return [*lines, f"with {', '.join(state.contexts())}:", "    return check()"]


def _init(attributes: list[Input], names: dict[int, str]) -> str:
    if not attributes:
        return ""
    lines = ["    def __init__(self):", "        super().__init__()"]
    for i in attributes:
        value, name = _value(i, names).removesuffix(".requires_grad_()"), names[i.id]
        kept = f"self.{name} = torch.nn.Parameter({value})" if i.requires_grad else f"self.register_buffer({name!r}, {value})"
        lines.append(f"        {kept}")
    return "\n".join(lines) + "\n\n"


def _names(graph: Graph) -> dict[int, str]:
    """A name for every value that is an identifier, and no other's."""
    taken = {"self", "torch", "operator", *keyword.kwlist}
    found: dict[int, str] = {}
    for value in graph.values:
        plain = re.sub(r"\W", "_", value.name) or "v"
        name = plain = plain if plain[0].isalpha() or plain[0] == "_" else f"v{plain}"
        count = 1
        while name in taken:
            name, count = f"{plain}_{count}", count + 1
        taken.add(name)
        found[value.id] = name
    return found


def _operator(node: Node) -> str | None:
    """The sign of an operator of Python."""
    home, _, name = node.target.rpartition(".")
    return _INFIX.get(name) if home in ("_operator", "operator") and len(node.args) == 2 and not node.kwargs else None


def _is_item(node: Node) -> bool:
    return node.target in ("_operator.getitem", "operator.getitem") and not node.kwargs


def _importable(module: str) -> str:
    return "operator" if module == "_operator" else module


def _line(node: Node, names: dict[int, str]) -> str:
    args = [_argument(a, names) for a in node.args]
    sign = _operator(node)
    options = [f"{k}={_argument(v, names)}" for k, v in node.kwargs]
    if node.op == "method":
        text = f"{args[0]}.{node.target}({', '.join(args[1:] + options)})"
    elif sign is not None:
        text = f"{args[0]} {sign} {args[1]}"
    elif _is_item(node):
        text = f"{args[0]}[{args[1]}]"
    else:
        home, _, function = node.target.rpartition(".")
        text = f"{_importable(home)}.{function}({', '.join(args + options)})"
    return f"{names[node.id]} = {text}" + (f"  # {node.source}" if node.source else "")


def _argument(value: Any, names: dict[int, str]) -> str:
    match value:
        case Ref(id):
            return names[id]
        case Named("device", text):
            return f"torch.device({text!r})"
        case Named(_, text):
            return text
        case Seq("list", items):
            return "[" + ", ".join(_argument(i, names) for i in items) + "]"
        case Seq("slice", items):
            return "slice(" + ", ".join(_argument(i, names) for i in items) + ")"
        case Seq(_, items):
            return "{" + ", ".join(f"{_argument(k, names)}: {_argument(v, names)}" for k, v in items) + "}"
        case tuple():
            return "(" + ", ".join(_argument(i, names) for i in value) + ("," if len(value) == 1 else "") + ")"
        case float() if value != value or value in (float("inf"), float("-inf")):
            return f"float({str(value)!r})"
    return repr(value)


def _value(i: Input, names: dict[int, str]) -> str:
    """The expression for an input: the same numbers as in the reduction."""
    spec, recipe = i.spec, i.recipe
    shape, stride = list(spec.shape), list(spec.stride)
    grad = ".requires_grad_()" if i.requires_grad else ""
    if i.base is not None:
        return f"{names[i.base]}.detach().as_strided({shape}, {stride}, {i.offset}){grad}"
    count = 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True)) if all(shape) else 0
    dtype, is_plain = f"torch.{spec.dtype}", spec.dtype == "float32"
    flat = {
        "zeros": f"torch.zeros({count}{'' if is_plain else f', dtype={dtype}'})",
        "ones": f"torch.ones({count}{'' if is_plain else f', dtype={dtype}'})",
        "arange": f"torch.arange({count}).to({dtype})",
        "rand": f"torch.rand({count}, generator=seeded({i.id})).to({dtype})",
        "randn": f"torch.randn({count}, generator=seeded({i.id})).to({dtype})",
        "randint": f"torch.randint({recipe.low}, {max(recipe.high, recipe.low + 1)}, ({count},), generator=seeded({i.id})).to({dtype})",
        "stored": f"load_file(Path(__file__).parent / 'inputs/{recipe.key}.safetensors')['value'][:{count}].clone()",
    }[recipe.kind]
    flat = flat.replace(".to(torch.float32)", "") if recipe.kind in ("rand", "randn") else flat
    device = "" if spec.device == "cpu" else f".to({spec.device!r})"
    if spec.stride != dense(spec.shape):
        return f"{flat}{device}.as_strided({shape}, {stride}){grad}"
    if recipe.kind in ("zeros", "ones"):
        flat = flat.replace(f"({count}", f"({shape}", 1)
        return f"{flat}{device}{grad}"
    return f"{flat}{device}" + ("" if len(shape) == 1 else f".reshape({shape})") + grad
