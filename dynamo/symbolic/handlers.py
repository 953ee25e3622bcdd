"""Importing this module fills the handler tables; `ABOVE` is what a tracer needs of the layers above it."""

from __future__ import annotations

from dynamo.symbolic.attempt.tracer import Above
from dynamo.symbolic.interp import (  # noqa: F401  # imported for their rows
    frame_opcodes,
    generators,
)
from dynamo.symbolic.interp.loop import run
from dynamo.symbolic.protocols import (  # noqa: F401  # imported for their rows
    containers,
    graph_arguments,
    rows,
)
from dynamo.symbolic.protocols.wrap import wrap
from dynamo.symbolic.python import (  # noqa: F401  # imported for their rows
    builtin_functions,
    builtin_types,
    context_rows,
    dicts,
    exception_groups,
    exception_rows,
    functools_rows,
    iterators,
    itertools_rows,
    lists,
    number_rows,
    operator_rows,
    sets,
    stdlib_rows,
    strings,
    tuples,
    warning_rows,
)
from dynamo.symbolic.torch import (  # noqa: F401  # imported for their rows
    autograd,
    conditionals,
    folds,
    modes,
    modules,
    numpy_arrays,
    numpy_rows,
    policy,
    profiling,
    pullbacks,
    regions,
    tensors,
)

ABOVE = Above(wrap=wrap, run=run, policy=policy)
