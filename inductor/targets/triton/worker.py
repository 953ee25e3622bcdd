"""Kernels' files through Triton's compiler: as a library, and as a process that compiles what it is told, without torch.

The process reads lines `[path, capability, misaligned]` and answers each with a line: `{"name": ..., "code": ...}`, or `{"error": ...}`.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import json
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

WARP = 32
ALIGNED = [["tt.divisibility", 16]]
LAST_BIT = 63  # of a mask of misaligned buffers: stands for all from there on

TEXTS = ("ttir", "ttgir", "ptx")  # what Triton makes on its way, in its words

SIGNATURES = {
    "float64": "*fp64",
    "float32": "*fp32",
    "bfloat16": "*bf16",
    "float16": "*fp16",
    "float8_e4m3fn": "*fp8e4nv",
    "float8_e5m2": "*fp8e5",
    "int64": "*i64",
    "int32": "*i32",
    "int16": "*i16",
    "int8": "*i8",
    "uint64": "*u64",
    "uint32": "*u32",
    "uint16": "*u16",
    "uint8": "*u8",
    "bool": "*i1",
}


@dataclass(frozen=True)
class Image:
    """A compiled kernel: its name, threads of a block, bytes of shared memory, what the driver loads, and for people the steps to there."""

    name: str
    threads: int
    shared: int
    code: bytes
    texts: Mapping[str, str] = field(default_factory=dict)  # by rows of TEXTS


class Refused(RuntimeError):
    """Triton has no code for a kernel, or code that needs more than a launch gives it."""


def the_compiler() -> Any:
    """Triton. Raises ImportError."""
    import triton.language  # noqa: PLC0415  # triton is optional

    return triton


def image_of(module: types.ModuleType, capability: int, misaligned: int = 0) -> Image:
    """A kernel for GPUs of a capability (90 for 9.0). Bit k of `misaligned`: buffer k begins at no multiple of 16 bytes. Raises Refused."""
    triton, kernel = the_compiler(), module.KERNEL
    names = kernel.arg_names
    pointers = [SIGNATURES[str(dtype).removeprefix("torch.")] for _, dtype in module.BUFFERS] + ["*i32"] * bool(module.TAKES_BAD)
    signature = dict(zip(names, [*pointers, *["i32"] * (len(names) - len(pointers))], strict=True))
    attrs = {(k,): ALIGNED for k in range(len(pointers)) if not misaligned >> min(k, LAST_BIT) & 1}
    try:
        made = triton.compile(
            triton.compiler.ASTSource(fn=kernel, signature=signature, constexprs={}, attrs=attrs),
            target=triton.backends.compiler.GPUTarget("cuda", capability, WARP),
            options=dict(module.OPTIONS),
        )
    except Exception as error:  # its passes raise errors of any kind
        raise Refused(first_line(error)) from error
    about = made.metadata
    if getattr(about, "num_ctas", 1) != 1 or getattr(about, "global_scratch_size", 0) or getattr(about, "profile_scratch_size", 0):
        raise Refused("it needs clusters or memory of its own")
    return Image(about.name, about.num_warps * WARP, about.shared, made.asm["cubin"], {name: made.asm[name] for name in TEXTS})


def first_line(error: BaseException) -> str:
    """What an error says, short."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


class Names(types.ModuleType):
    """In place of torch: dtypes by their names, which is all that a kernel's file asks of it."""

    def __getattr__(self, name: str) -> str:
        return f"torch.{name}"


@contextlib.contextmanager
def without_torch() -> Iterator[None]:
    the_compiler()  # before the names are there: it may ask whether torch is
    before = sys.modules.get("torch")
    sys.modules["torch"] = Names("torch")
    try:
        yield
    finally:
        if before is None:
            del sys.modules["torch"]
        else:
            sys.modules["torch"] = before


def load(path: str, name: str) -> types.ModuleType:
    """The module of a kernel's file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(path: str, capability: int, misaligned: int) -> dict[str, Any]:
    try:
        with without_torch():
            module = load(path, "kernel")
        image = image_of(module, capability, misaligned)
    except Exception as error:  # noqa: BLE001  # the process goes on for other kernels
        return {"error": str(error) if isinstance(error, Refused) else first_line(error)}
    code = base64.b64encode(image.code).decode()
    return {"name": image.name, "threads": image.threads, "shared": image.shared, "code": code, "texts": image.texts}


def read(line: str) -> Image:
    """The answer of a process. Raises Refused."""
    fields = json.loads(line)
    if "error" in fields:
        raise Refused(fields["error"])
    return Image(fields["name"], fields["threads"], fields["shared"], base64.b64decode(fields["code"]), fields["texts"])


def main() -> None:
    given, out = sys.stdin, sys.stdout
    sys.stdout = sys.stderr  # what Triton prints is no answer
    for line in given:
        path, capability, misaligned = cast("tuple[str, int, int]", json.loads(line))
        print(json.dumps(answer(path, capability, misaligned)), file=out, flush=True)


if __name__ == "__main__":
    main()
