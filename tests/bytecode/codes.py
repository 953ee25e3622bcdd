"""Code objects of the standard library, for tests that want many."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType

LIBRARY = Path(random.__file__).parent
SKIPPED = {"site-packages", "lib2to3", "idlelib", "bad_coding", "bad_coding2"}

# Modules that between them hold generators, coroutines, class bodies, deep nesting, long jumps and match statements.
ALWAYS = ("argparse.py", "ast.py", "asyncio/tasks.py", "contextlib.py", "dataclasses.py", "inspect.py", "typing.py", "test/test_patma.py")


def nested(code: CodeType) -> Iterator[CodeType]:
    """`code` and every code object in its constants."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from nested(const)


@lru_cache(maxsize=4)
def sample(files: int, seed: int = 0) -> tuple[CodeType, ...]:
    """All code objects of `files` random modules and of the fixed ones."""
    known = sorted(p for p in LIBRARY.rglob("*.py") if SKIPPED.isdisjoint(p.parts))
    chosen = [LIBRARY / name for name in ALWAYS if (LIBRARY / name).exists()] + random.Random(seed).sample(known, files)
    found: list[CodeType] = []
    for path in dict.fromkeys(chosen):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found += nested(compile(path.read_text(encoding="utf-8"), path.name, "exec"))
        except (SyntaxError, UnicodeDecodeError, ValueError):
            continue
    return tuple(found)
