"""Which names of torch's compiler scripts may use, and what serves them here.

`module:attribute` is looked up when the name is used; without a module it is an attribute of `dynamo`. `special:` names are
functions of `dynamo/script_adapter.py`. A name more is one row.
"""

from __future__ import annotations

_SAME = (
    "allow_in_graph",
    "assume_constant_result",
    "disallow_in_graph",
    "explain",
    "export",
    "graph_break",
    "register_backend",
    "reset",
    "run",
    "skip",
)

# Files of torch's compiler that libraries import and that need nothing else of it: they are loaded as they are.
ALONE = frozenset({"torch._dynamo._trace_wrapped_higher_order_op"})

# Options of torch's compiler that torch reads outside of it, with the values they have there when nobody sets them.
READ_BY_TORCH: dict[str, object] = {"error_on_nested_fx_trace": True}

# Remarks of the adapter; `dynamo-debug explain --code ID` prints them.
NOTES: dict[str, tuple[str, str]] = {
    "DN011": (
        "an argument of torch.compile without effect",
        "the installed torch knows an argument of torch.compile that this compiler does not. It is ignored.",
    ),
    "DN012": (
        "an option of torch._dynamo.config without effect",
        (
            "the script sets an option that this compiler does not have. It can be read back, and is otherwise ignored. "
            "`dynamo-debug doctor` lists the options there are."
        ),
    ),
    "DN013": (
        "a stance without effect",
        "this compiler knows the stances default, force_eager and eager_on_recompile. Others are treated as default.",
    ),
}

MODULES: dict[str, dict[str, str]] = {
    "torch._dynamo": {
        **{name: f":{name}" for name in _SAME},
        "OptimizedModule": ":OptimizedModule",
        "disable": "special:disable",
        "forbid_in_graph": ":forbid_in_graph",
        "is_compiling": "torch.compiler:is_compiling",
        "list_backends": "special:list_backends",
        "mark_static_address": "special:mark_without_effect",
        "optimize": "special:optimize",
        "optimize_assert": "special:optimize_assert",
        "set_stance": "special:set_stance",
    },
    "torch._dynamo.backends": {"list_backends": "special:list_backends", "register_backend": ":register_backend"},
    "torch._dynamo.backends.registry": {"list_backends": "special:list_backends", "register_backend": ":register_backend"},
    "torch._dynamo.config": {},
    "torch._dynamo.eval_frame": {"OptimizedModule": ":OptimizedModule", "disable": "special:disable", "optimize": "special:optimize"},
    "torch._dynamo.exc": {
        "BackendCompilerFailed": ":BackendError",
        "FailOnRecompileLimitHit": ":RecompileLimitError",
        "RecompileLimitExceeded": ":RecompileLimitError",
        "TorchDynamoException": ":CompileError",
        "Unsupported": ":GraphBreakError",
    },
    "torch._dynamo.external_utils": {"is_compiling": "torch.compiler:is_compiling"},
    "torch._dynamo.testing": {
        "CompileCounter": "dynamo.counting:CompileCounter",
        "CompileCounterWithBackend": "dynamo.counting:CompileCounterWithBackend",
    },
    "torch._dynamo.utils": {
        "CompileProfiler": "dynamo.counting:CompileProfiler",
        "compile_times": "dynamo.utils:compile_times",
        "is_compile_supported": "special:is_compile_supported",
    },
}
