"""C source in, loaded library out: one compiler call per graph, or none when the cache has it."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from dynamo import config
from dynamo.faults import through
from inductor.errors import BuildError
from inductor.runtime import cache, pool
from inductor.targets.cpu import machine, mathlib
from inductor.targets.cpu.comments import without_comments
from inductor.targets.cpu.compiler import NAMES, compiler

PATIENCE = 150.0  # seconds for one compiler; a unit takes a few
TIMEOUT = 300.0  # for the second try
PLAIN = "-O1"

FLAGS = (
    "-std=gnu11",
    "-march=native",
    "-fno-math-errno",  # errno is never read
    "-fno-trapping-math",  # lets comparisons and selects vectorise; results stay IEEE
    "-ffp-contract=off",
    *(f"-fno-builtin-{f}" for f in ("sin", "cos", "sinf", "cosf")),  # gcc would join a pair to sincos, which has no SIMD form
    *(f"-fno-builtin-{f}" for f in ("pow", "powf")),  # gcc's vectoriser takes a root for the power 0.5: another -0, another -inf
    # The choice of induction variables takes time with the square of a loop's addresses, and has no registers for what it finds in many.
    "--param=iv-max-considered-uses=64",
    "-fopenmp",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-w",
)


def flags() -> tuple[str, ...]:
    """All flags of the compiler; the level of optimisation is an option (`c_optimize`)."""
    width = machine.machine().vector_bits
    return (f"-O{config.c_optimize}", *FLAGS, *([f"-mprefer-vector-width={width}"] if width else []))


@functools.cache
def compiler_identity(command: tuple[str, ...]) -> str:
    """Changes when the compiler is replaced, or what it calls; asking it for its version would cost a process."""
    return " ".join(_program_identity(path) if (path := shutil.which(word)) else word for word in command)


def _program_identity(path: str) -> str:
    real = os.path.realpath(path)
    stat = os.stat(real)
    return f"{real} {stat.st_size} {stat.st_mtime_ns}"


@functools.cache
def cpu_identity() -> str:
    """What -march=native depends on."""
    try:
        with open("/proc/cpuinfo") as lines:  # the kernel writes it as it is read, so stop at the first CPU
            return next((line for line in lines if line.startswith(("flags", "Features"))), "") + platform.machine()
    except OSError:
        return platform.processor()


def link_flags() -> list[str]:
    """Own list of libraries, because -fopenmp would link the system's OpenMP runtime."""
    math = ["-lmvec"] if mathlib.has_any() else []
    openmp = machine.openmp_library()
    if openmp is None:
        return [*math, "-lm"]
    return ["-nodefaultlibs", *math, "-lm", str(openmp), "-lc", "-lgcc"]


def build(source: str) -> ctypes.CDLL:
    """The library of a C source, compiled unless the cache has it. Raises BuildError."""
    found = start(source)
    return found.result() if isinstance(found, pool.Job) else found


def start(source: str) -> ctypes.CDLL | pool.Job[ctypes.CDLL]:
    """The library, or the job that compiles it in the background. Raises BuildError where there is no compiler."""
    source = through("build", source, source)
    command = compiler()
    if command is None:
        wanted = os.environ.get("CC") or " or ".join(NAMES)
        raise BuildError(f"no C compiler: {wanted} is not on the path; install gcc or set CC [{BuildError.id}]")
    key = cache.key_of(without_comments(source), " ".join(flags()), " ".join(link_flags()), compiler_identity(command), cpu_identity())
    found = cache.find(key)
    if found is not None:
        with contextlib.suppress(BuildError):  # `cache clear` may have come in between
            return load(found)

    def work() -> ctypes.CDLL:
        try:
            with cache.workspace() as folder:
                return load(cache.put(key, run_compiler(command, source, folder), source))
        except OSError as error:
            raise BuildError(f"the build folder cannot be written: {error}; free some space or set TMPDIR [{BuildError.id}]") from None

    return pool.start(work)


def section(number: int) -> str:
    """The line that begins a part of a source which a compiler of its own may take."""
    return f"#if FIRST <= {number} && {number} < LAST"


def sections(source: str) -> int:
    """How many parts a source has."""
    return source.count("\n#if FIRST <= ")


def command_for(source: str, target: str) -> list[str]:
    """What turns a C file into a library."""
    return [*(compiler() or ("cc",)), *flags(), "-o", target, source, *link_flags()]


def run_compiler(command: tuple[str, ...], source: str, folder: Path) -> Path:
    """The library of a source: by one compiler, or where it has sections by as many as there are processors, and linked."""
    text, out = folder / "unit.c", folder / "unit.so"
    text.write_text(source)
    count = sections(source)
    parts = min(machine.cpus(), count)
    if parts < 2:
        return compiled(command_for(str(text), str(out)), out)
    bounds = [count * i // parts for i in range(parts + 1)]
    objects = [folder / f"part{i}.o" for i in range(parts)]

    def compile_part(i: int) -> Path:
        limits = [f"-DFIRST={bounds[i]}", f"-DLAST={bounds[i + 1]}"]
        return compiled([*command, *(f for f in flags() if f != "-shared"), *limits, "-c", "-o", str(objects[i]), str(text)], objects[i])

    others = [pool.start(functools.partial(compile_part, i)) for i in range(1, parts)]
    try:
        compile_part(0)
    finally:
        for other in others:  # the folder goes away after this
            pool.help_with(other)
    for other in others:
        other.result()
    return compiled([*command, "-shared", "-o", str(out), *map(str, objects), *link_flags()], out)


def compiled(command: list[str], out: Path) -> Path:
    """Run one compiler. A loop that it can't deal with in reasonable time is compiled again with less zeal."""
    try:
        code, errors = pool.run(command, PATIENCE, out.parent)
    except subprocess.TimeoutExpired:
        return compiled_plainly(command, out)
    except OSError as error:
        raise BuildError(f"the C compiler cannot be started: {error} [{BuildError.id}]") from None
    return checked(command, out, code, errors)


def compiled_plainly(command: list[str], out: Path) -> Path:
    """The same without vectorising: slow code, but code."""
    command = [PLAIN if flag.startswith("-O") else flag for flag in command]
    try:
        code, errors = pool.run(command, TIMEOUT, out.parent)
    except subprocess.TimeoutExpired:
        raise BuildError(f"the C compiler did not finish within {TIMEOUT:.0f} s [{BuildError.id}]\n  {' '.join(command)}") from None
    except OSError as error:
        raise BuildError(f"the C compiler cannot be started: {error} [{BuildError.id}]") from None
    return checked(command, out, code, errors)


def checked(command: list[str], out: Path, code: int, errors: str) -> Path:
    """The file that a compiler wrote. Raises BuildError with what it said."""
    if code != 0 or not out.exists():
        how = f"was killed by signal {-code}" if code < 0 else f"failed with exit code {code}"
        first = re.search(r"(?<=error: ).+", errors)
        reason = "" if first is None else f": {first[0]}"
        shown = "\n".join(errors.splitlines()[:20])
        raise BuildError(f"the C compiler {how}{reason} [{BuildError.id}]\n{shown}\n  {' '.join(command)}")
    return out


def load(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise BuildError(f"the built library cannot be loaded: {error} [{BuildError.id}]") from None
