"""Importing this module fills the handler tables."""

from __future__ import annotations

from dynamo.symbolic import (  # noqa: F401  # imported for their rows
    builtin_functions,
    builtin_types,
    containers,
    context_rows,
    dicts,
    exception_groups,
    exception_rows,
    frame_opcodes,
    functools_rows,
    generators,
    iterators,
    itertools_rows,
    lists,
    number_rows,
    numpy_arrays,
    numpy_rows,
    operator_rows,
    policy,
    rows,
    sets,
    stdlib_rows,
    strings,
    torch_functions,
    tuples,
    warning_rows,
)
