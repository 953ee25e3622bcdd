"""Which names of torch's compiler scripts may use, and what serves them here.

`module:attribute` is looked up when the name is used; without a module it is an attribute of `dynamo`. `special:` names are
functions of `dynamo/peer/replacements.py`. A name more is one row. Of names without a row scripts get torch's own: `surface.json` lists
what there is.
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

# Options that both have, with torch's own default where ours is another: what a script reads that has set none.
DEFAULTS_OF_TORCH: dict[str, object] = {"suppress_errors": False}

# Modules whose names steer torch's compiler: without a row here they exist, do nothing to this one, and that is noted.
STEERING = frozenset(
    {"torch._dynamo", "torch._dynamo.callback", "torch._dynamo.comptime", "torch._dynamo.decorators", "torch._dynamo.eval_frame"}
)

# Stances that torch knows.
STANCES = frozenset(
    {"default", "aot_eager_then_compile", "eager_on_recompile", "eager_then_compile", "fail_on_recompile", "force_backend", "force_eager"}
)

# Remarks of the adapter; `dynamo-debug explain --code ID` prints them.
NOTES: dict[str, tuple[str, str]] = {
    "DN011": (
        "an argument of torch.compile without effect",
        "the installed torch knows an argument of torch.compile that this compiler does not. It is ignored.",
    ),
    "DN012": (
        "an option of torch's compiler without effect",
        (
            "the script sets an option of torch's compiler that this one does not have. It can be read back, and is otherwise ignored. "
            "`dynamo-debug doctor` lists the options there are."
        ),
    ),
    "DN013": (
        "a stance without effect",
        "this compiler knows the stances default, force_eager, eager_on_recompile and fail_on_recompile. Others are treated as default.",
    ),
    "DN015": (
        "a name of torch's compiler without effect",
        (
            "the script uses a name of torch's compiler that this one has no meaning for. It is torch's own: what it sets or asks concerns "
            "torch's compiler alone."
        ),
    ),
    "DN016": (
        "sizes marked as dynamic",
        (
            "shapes are static in this version: each new shape compiles anew, up to `recompile_limit`. Marks of dynamic and unbacked "
            "sizes are accepted and have no effect."
        ),
    ),
}

_MARKS = {
    "mark_dynamic": "special:mark_dynamic",
    "mark_static": "special:mark_without_effect",
    "mark_static_address": "special:mark_without_effect",
    "maybe_mark_dynamic": "special:mark_without_effect",
}

_BACKENDS = {
    "list_backends": "special:list_backends",
    "lookup_backend": "special:lookup_backend",
    "register_backend": ":register_backend",
}

EXC = "torch._dynamo.exc"
MODULES: dict[str, dict[str, str]] = {
    "torch._dynamo": {
        **{name: f":{name}" for name in _SAME},
        "OptimizedModule": ":OptimizedModule",
        "disable": "special:disable",
        "forbid_in_graph": ":forbid_in_graph",
        "is_compiling": "torch.compiler:is_compiling",
        "list_backends": "special:list_backends",
        **_MARKS,
        "lookup_backend": "special:lookup_backend",
        "optimize": "special:optimize",
        "optimize_assert": "special:optimize_assert",
        "reset_code_caches": ":reset",
        "set_stance": "special:set_stance",
    },
    "torch._dynamo.backends": _BACKENDS,
    "torch._dynamo.backends.registry": {
        **_BACKENDS,
        "get_default_backend": "special:get_default_backend",
        "set_default_backend": "special:set_default_backend",
    },
    "torch._dynamo.comptime": {"comptime": "dynamo.peer.comptime:comptime"},
    "torch._dynamo.config": {},
    "torch._dynamo.decorators": {
        **_MARKS,
        "mark_unbacked": "special:mark_dynamic",
        **{name: f":{name}" for name in ("allow_in_graph", "assume_constant_result", "disallow_in_graph", "graph_break", "run", "skip")},
        "disable": "special:disable",
        "forbid_in_graph": ":forbid_in_graph",
        "set_stance": "special:set_stance",
    },
    "torch._dynamo.eval_frame": {"OptimizedModule": ":OptimizedModule", "disable": "special:disable", "optimize": "special:optimize"},
    EXC: {
        "BackendCompilerFailed": ":BackendError",
        "FailOnRecompileLimitHit": ":RecompileLimitError",
        "InvalidBackend": "dynamo.backends.registry:UnknownBackend",
        "RecompileError": ":RecompileError",
        "RecompileLimitExceeded": ":RecompileLimitError",
        "TorchDynamoException": ":CompileError",
        "Unsupported": ":GraphBreakError",
    },
    "torch._dynamo.external_utils": {"is_compiling": "torch.compiler:is_compiling"},
    "torch._dynamo.testing": {
        "CompileCounter": "dynamo.backends.counting:CompileCounter",
        "CompileCounterWithBackend": "dynamo.backends.counting:CompileCounterWithBackend",
    },
    "torch._dynamo.utils": {
        "CompileProfiler": "dynamo.backends.counting:CompileProfiler",
        "compile_times": "dynamo.utils:compile_times",
        "counters": "dynamo.peer.counting:counters",
        "is_compile_supported": "special:is_compile_supported",
    },
}
