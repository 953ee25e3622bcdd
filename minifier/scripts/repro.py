"""A reduced script as one that can be handed over: it puts the compiler in its place and says by its exit code what it saw."""

from __future__ import annotations

from pathlib import Path

from minifier.beside import copy_backend, copy_beside, copy_data, naming
from minifier.engine import Kind, Signature
from minifier.graph.repro import SHOWS, doc_of
from minifier.scripts.setting import ScriptSetting

_TEXT = """{doc}

{future}import os
import re
import sys
import traceback
from pathlib import Path

{enter}
{constants}


def shows(error):
{shows}


def end(kind, error, trace):
    traceback.print_exception(error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if shows(error) else 4)


sys.excepthook = end
{caught}{argv}
# ---- the script

{program}"""

_OURS = """import dynamo
import dynamo.internal_errors

dynamo.config.suppress_errors = False
dynamo.install_as_torch_compile({backend!r})
"""
_CAUGHT = "dynamo.internal_errors.before_raise = lambda error: shows(error) and end(type(error), error, None)  # the script may catch it\n"
_CAUGHT_OF_TORCH = """

def caught(compile_frame):
    def call(*given):  # the script may catch what this raises
        try:
            return compile_frame(*given)
        except Exception as error:
            if shows(error):
                end(type(error), error, None)
            raise

    return call


CatchErrorsWrapper.__call__ = caught(CatchErrorsWrapper.__call__)
"""
_NOT_MEMORY = ("    return False", "    return isinstance(error, MemoryError)")


def script_text(program: str, setting: ScriptSetting, signature: Signature, name: str = "repro.py", remark: str = "") -> str:
    """The script as text."""
    lines = program.rstrip("\n").split("\n")
    future = [line for line in lines if line.startswith("from __future__ ")]
    kept = [line for line in lines if line not in future]
    constants = f"EXCEPTIONS = {list(signature.exceptions)!r}\nFRAME = {signature.frame!r}\nMESSAGE = {_words(signature.message)!r}"
    is_exception = signature.kind is Kind.EXCEPTION
    backend = setting.backend
    return _TEXT.format(
        doc=doc_of(signature, name, remark, "runs the script below under a compiler, which fails; without it, it works"),
        future="".join(f"{line}\n" for line in future),
        enter=_OURS.format(backend=backend) if setting.engine == "dynamo" else _theirs(backend, is_exception),
        constants=constants if is_exception else "",
        shows=SHOWS if is_exception else _NOT_MEMORY[signature.kind is Kind.MEMORY],
        caught=(_CAUGHT if setting.engine == "dynamo" else _CAUGHT_OF_TORCH) if is_exception else "",
        argv=f"sys.argv[1:] = {list(setting.args)!r}\n" if setting.args else "",
        program="\n".join(kept) + "\n",
    )


def _words(message: str) -> str:
    """A message without the id behind it: what is looked for are words of the text."""
    return message.partition(" [DD")[0]


def _theirs(backend: str, may_catch: bool) -> str:
    loaded = "import torch\n" + ("from torch._dynamo.convert_frame import CatchErrorsWrapper\n" if may_catch else "")
    forced = f"functools.partial(torch.compile, backend={backend!r})"
    return f"import functools\n\n{loaded}\ntorch.compile = {forced}\n" if backend else loaded


def write_script(
    program: str, setting: ScriptSetting, signature: Signature, folder: Path, name: str = "repro.py", remark: str = ""
) -> Path:
    """Write the script, which appears complete or not at all, the modules of its folder that it imports, and that of its backend."""
    folder.mkdir(parents=True, exist_ok=True)
    copy_backend(setting.backend, (Path(setting.folder), Path.cwd()), folder)
    copy_beside(program, Path(setting.folder), folder)
    if setting.data:
        copy_data(naming(program, setting.args), [Path(setting.data)], folder)
    partial = folder / f".{name}.partial"
    partial.write_text(script_text(program, setting, signature, name, remark))
    partial.rename(folder / name)
    return folder / name
