"""Which code `config.debug_function` lets the compiler look at."""

from __future__ import annotations

import fnmatch
import functools
import types

from dynamo.bytecode.origins import original


def is_chosen(code: types.CodeType, patterns: str) -> bool:
    """Whether code, or the code that it continues, is meant by one of the patterns (separated by commas; '' means all).

    A pattern is a name (`forward`) or a qualified name (`Net.forward`), with `*`, `?` and `[...]`, or a line of a function (`model.py:12`).
    """
    if not patterns:
        return True
    whole = original(code)
    return any(_matches(whole, pattern) for pattern in _split(patterns))


@functools.cache
def _split(patterns: str) -> tuple[str, ...]:
    return tuple(pattern.strip() for pattern in patterns.split(",") if pattern.strip())


def _matches(code: types.CodeType, pattern: str) -> bool:
    file, colon, line = pattern.rpartition(":")
    if colon and line.isdigit():
        return _is_file(code.co_filename, file) and _has_line(code, int(line))
    return any(fnmatch.fnmatchcase(name, pattern) for name in (code.co_name, code.co_qualname))


def _is_file(filename: str, wanted: str) -> bool:
    """A path, its last parts, or a glob of either."""
    filename, wanted = filename.replace("\\", "/"), wanted.replace("\\", "/")
    return fnmatch.fnmatchcase(filename, wanted) or fnmatch.fnmatchcase(filename, f"*/{wanted}")


def _has_line(code: types.CodeType, line: int) -> bool:
    """Whether a line is one of the function's own: from its first line to its last, without the functions that it defines."""
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType) and const.co_firstlineno != code.co_firstlineno]
    if any(_has_line(const, line) for const in inner):
        return False
    lines = [number for _, _, number in code.co_lines() if number]
    return code.co_firstlineno <= line <= max(lines, default=code.co_firstlineno)
