"""Graphs on the processor go to Triton: kernels run in its interpreter, or are compiled for a GPU that isn't there."""

from __future__ import annotations

import contextlib
import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from triton.runtime.interpreter import InterpreterBuilder

from dynamo import config
from dynamo.decisions import compiling
from dynamo.trace.events import Note
from inductor.ir.nest import Program
from inductor.lowering.graph import lower_graph
from inductor.passes.rewrite import rewrite
from inductor.runtime import devices
from inductor.schedule.limits import Limits
from inductor.schedule.plan import schedule
from inductor.targets import registry
from inductor.targets.triton.file import kernel_file
from inductor.targets.triton.kernel import TritonKernel
from inductor.targets.triton.library import FAILED
from inductor.targets.triton.runtime import TritonRuntime
from inductor.targets.triton.target import LIMITS, REFUSED, TritonTarget
from inductor.targets.triton.worker import SIGNATURES
from tests.inductor.helpers import trace


@contextlib.contextmanager
def interpreted(limits: Limits = LIMITS) -> Iterator[None]:
    """Graphs on the processor run in Triton's interpreter. Lower limits show with small tensors what is meant for large ones."""
    target, runtime = TritonTarget("cpu"), TritonRuntime(interpreted=True)
    target.limits = limits
    with pytest.MonkeyPatch.context() as patch, config.patch(graph_cache=False):
        patch.setattr(registry, "target", lambda device: target)
        patch.setattr(devices, "runtime", lambda device: runtime)
        patch.setattr(InterpreterBuilder, "create_atomic_rmw", _atomic_over_whole_arrays)
        yield


_atomic_rmw = InterpreterBuilder.create_atomic_rmw


def _atomic_over_whole_arrays(self: InterpreterBuilder, op: Any, ptr: Any, val: Any, mask: Any, *how: Any) -> Any:
    """Triton 3.6 reads what is broadcast, of which one element is in memory, as if all of them were."""
    for handle in (ptr, val, mask):
        handle.data = np.ascontiguousarray(handle.data)
    return _atomic_rmw(self, op, ptr, val, mask, *how)


def refusals(store: Any) -> list[str]:
    """Why kernels ran as ATen calls."""
    return [n.message.partition("ATen calls: ")[2] for n in store.of(Note) if n.id in (REFUSED, FAILED)]


def kernels_of(fn: Callable[..., Any], given: Sequence[Any]) -> list[tuple[TritonKernel, str]]:
    """The kernels of a graph and their files."""
    kernels, program = program_of(fn, given)
    return [(k, kernel_file(k, program)) for k in kernels]


def program_of(fn: Callable[..., Any], given: Sequence[Any]) -> tuple[list[TritonKernel], Program]:
    """The kernels of a graph, and its buffers."""
    with compiling("test", "test.fw"):
        program, _ = lower_graph(rewrite(trace(fn, given)))
        plan = schedule(program, TritonTarget())
    return [k for k in plan.kernels if isinstance(k, TritonKernel)], program


def function_text(text: str) -> str:
    """The file without what is the same in all of them, and without the form as ATen calls."""
    head, _, rest = text.partition("import torch\n")
    return head + rest.partition("from triton.language.extra import libdevice\n")[2].partition("\n\ndef reference(")[0].strip("\n") + "\n"


def compiled_for(text: str, capability: int, folder: Path) -> Any:
    """What Triton makes of a kernel's file for a GPU of some capability."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    module = module_of(text, folder)
    if module.KERNEL is None:
        return None
    names = module.KERNEL.arg_names
    signature = {name: SIGNATURES[str(dtype).removeprefix("torch.")] for name, (_, dtype) in zip(names, module.BUFFERS, strict=False)}
    signature |= {name: "*i32" if name == "bad" else "i32" for name in names[len(module.BUFFERS) :]}
    attrs = {(k,): [["tt.divisibility", 16]] for k in range(len(module.BUFFERS))}
    source = ASTSource(fn=module.KERNEL, signature=signature, constexprs={}, attrs=attrs)
    return compile(source, target=GPUTarget("cuda", capability, 32), options=module.OPTIONS)


def module_of(text: str, folder: Path) -> ModuleType:
    path = folder / f"kernel{len(list(folder.iterdir()))}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def registers_and_spills(kernel: Any) -> tuple[int, int]:
    """What ptxas says of a compiled kernel: registers, and bytes of spills."""
    return spills_of(kernel.asm["ptx"], kernel.metadata.target.arch)


def spills_of(ptx: str, capability: int) -> tuple[int, int]:
    """Registers and bytes of spills of code for GPUs of a capability, as ptxas tells them."""
    from triton.backends.nvidia.compiler import get_ptxas

    arch = f"sm_{capability}a" if capability >= 90 else f"sm_{capability}"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        command = [get_ptxas(capability).path, "-v", f"--gpu-name={arch}", str(source), "-o", str(source.with_suffix(".o"))]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = re.search(r"Used (\d+) registers", said)
    assert registers is not None, said
    return int(registers[1]), sum(int(n) for n in re.findall(r"(\d+) bytes spill (?:stores|loads)", said))
