"""What differs between the versions of torch we run on: one named flag per behaviour, with its evidence; and every private name we use.

Everything else asks a flag or reads a name that has its row here, never `torch.__version__`. A new torch shows what it lacks in
`dynamo-debug doctor` and in `tests/test_torch_facts.py`.
"""

from __future__ import annotations

import math
import pkgutil
import types
import warnings
from typing import Final

import torch

VERSION: Final = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def _key(name: str) -> torch._C.DispatchKey | None:
    try:
        return torch._C._parse_dispatch_key(name)
    except RuntimeError:
        return None


# `torch.autograd.Function.__dict__["apply"]`: a Python classmethod up to 2.14, which looks for functorch levels and calls the C one of the
# base class; a `classmethod_descriptor` from 2.15 on, where C does both.
FUNCTION_APPLY_IS_C: Final = isinstance(torch.autograd.Function.__dict__["apply"], types.ClassMethodDescriptorType)

# `torch.ones(2, 3) @ torch.ones(2, 3)`: "mat1 and mat2 shapes cannot be multiplied" up to 2.14, "mm: mat1 and ..." from 2.15 on. Texts of
# C++ can't be asked for without running the operator, so the version decides.
SHAPE_ERRORS_NAME_THE_OPERATOR: Final = VERSION >= (2, 15)

# Where tensors can have names, the first operator under a guard that excludes this key lets it in again for the rest of the guard:
# `x + 1` below `torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(key))` in 2.11. There is no such key in 2.13.
KEY_OF_NAMES: Final = _key("Named")

# `torch.distributions.transforms.Transform.inv`: kept by a weak reference in 2.11, by a plain one since.
TRANSFORMS_KEEP_WEAK_INVERSES: Final = hasattr(torch.distributions.transforms, "weakref")

# Jacobians of several tensors: where the parts of the unit matrix begin is computed by tensors in 2.11, by numbers since.
JACOBIANS_READ_TENSORS: Final = "cumsum" in torch.func.jacrev.__globals__["_chunked_standard_basis_for_"].__code__.co_names


def _clamp_ignores_a_single_nan() -> bool:
    """Asked of the operator, whatever modes the program has on when it first needs the compiler: `equal` is a bool in traces too."""
    pre_dispatch = torch._C.DispatchKeySet(torch._C.DispatchKey.PreDispatch)
    with torch._C.DisableTorchFunction(), torch._C._ExcludeDispatchKeyGuard(pre_dispatch), torch._C._DisableTorchDispatch():
        zero = torch.zeros(1, device="cpu")
        return torch.equal(torch.clamp(zero, max=math.nan), zero)


# `torch.clamp(torch.zeros(2), max=math.nan)`: zeros in 2.11, NaN in 2.13. With both bounds it is NaN in either, as in `clamp_max`.
CLAMP_IGNORES_A_SINGLE_NAN: Final = _clamp_ignores_a_single_nan()

# `torch.zeros(2, dtype=torch.int8).clamp(max=300)`: refused up to 2.13, in 2.15 a bound on the far side of the type's numbers is none.
# The version decides, as below `torch.jit.trace` an operator that raises ends the process.
CLAMP_TAKES_FAR_BOUNDS: Final = VERSION >= (2, 15)

# `F.softshrink(torch.tensor([0.1], dtype=torch.float16), 0.1)`: compared with 0.1 as float32 up to 2.13, as float16 in 2.15.
SOFTSHRINK_ROUNDS_ITS_BOUND: Final = VERSION >= (2, 15)

# `torch.rand(50, requires_grad=True).cumprod(0).sum().backward()` below a dispatch mode: ten operators per element in 2.11, 40 in all in
# 2.13. What the mode sees says it, and asking takes a backward pass: the version decides.
CUMPROD_IS_DIFFERENTIATED_BY_ELEMENTS: Final = VERSION < (2, 13)

# The versions that all tests were run with, oldest and newest; the upper bound in pyproject.toml is the next one.
TESTED: Final = ((2, 11), (2, 15))

# Private name -> what it is used for. A row covers what is below its name. `torch.ops.aten._x` are operators, not private names.
PRIVATE: Final[dict[str, str]] = {
    # dispatcher and its keys
    "torch._C.DispatchKey": "keys that compiled graphs run below",
    "torch._C.DispatchKeySet": "the same, as a set",
    "torch._C._AutoDispatchBelowAutograd": "the Python host program runs its operators below autograd",
    "torch._C._DisableTorchDispatch": "a fake is made without its own dispatch being asked",
    "torch._C.DisableTorchFunction": "what torch does is asked of it while function modes of the program are away",
    "torch._C._ExcludeDispatchKeyGuard": "compiled graphs run below autograd, autocast and view tracking",
    "torch._C._PreserveDispatchKeyGuard": "a fake is made under its own dispatch keys, which are put back",
    "torch._C._VariableFunctions": "builtins below Python functions of their name, which a graph can't call by it",
    "torch._C._dispatch_has_kernel_for_dispatch_key": "whether an operator has a meta kernel or is composite",
    "torch._C._parse_dispatch_key": "a key by its name",
    "torch._C._cuda_getCurrentRawStream": "the stream that kernels are launched on: `current_stream()` takes 5 us",
    "torch._C._dispatch_tls_is_dispatch_key_excluded": "composites that are taken apart below view tracking make views that are tracked",
    "torch._C._dispatch_tls_set_dispatch_key_excluded": "the same",
    "torch._C._dispatch_tls_is_dispatch_key_included": "whether a key is active here",
    "torch._C._dispatch_tls_local_exclude_set": "surroundings: what a call must leave as it was",
    "torch._C._dispatch_tls_local_include_set": "the same",
    "torch._C._meta_in_tls_dispatch_include": "a fake's dispatch keys",
    "torch._C._set_meta_in_tls_dispatch_include": "the same",
    "torch._C._only_lift_cpu_tensors": "`torch.tensor(data, device='cuda')` reaches the fake mode before a device",
    "torch._C._set_only_lift_cpu_tensors": "the same",
    # modes and their stacks
    "torch._C._functorch": "levels of functorch transforms, and whether a tensor is wrapped by one",
    "torch._C._are_functorch_transforms_active": "a compiled graph below a transform takes the checked way",
    "torch._C._is_torch_function_enabled": "surroundings",
    "torch._C._len_torch_dispatch_stack": "dispatch modes of the program",
    "torch._C._len_torch_function_stack": "function modes of the program",
    "torch._ops._len_torch_dispatch_stack_pre_dispatch": "the same, before dispatch",
    "torch._logging._internal.log_state": "what `set_logs` asks for",
    "torch.overrides._get_current_function_mode_stack": "which function modes are active",
    "torch._C._get_function_stack_at": "which function modes are active",
    "torch.utils._device": "the function mode of `torch.device` as a context, which fakes understand",
    "torch.utils._python_dispatch": "TorchDispatchMode, and switching modes off for a moment; torch documents it under this name",
    "torch._C._InferenceMode": "the guard object behind `torch.inference_mode`",
    "torch._C._set_grad_enabled": "grad mode without the Python object around it",
    "torch._C._get_tracing_state": "the type of torch's builtin functions",
    "torch._C._get_mkldnn_enabled": "whether oneDNN may be called; part of the cache's key",
    "torch._C._set_deterministic_algorithms": "deterministic mode",
    "torch._C._get_fp32_precision_getter": "precision of float32 products per backend",
    "torch._C._set_fp32_precision_setter": "the same",
    # autograd
    "torch._C._autograd": "sequence numbers, saved tensor hooks, profiler state",
    "torch.autograd._profiler_enabled": "whether a profiler is running, whose ranges must be real",
    "torch.profiler._KinetoProfile": "the class whose start and stop are seen",
    "torch._C._current_graph_task_id": "which backward pass runs now",
    "torch.autograd.graph._engine_run_backward": "the function that runs every backward pass: its arguments say for which gradients",
    "torch.autograd._unsafe_preserve_version_counter": "a new layout, or an old value put back, is no write to what the backward reads",
    "torch.autograd._is_checkpoint_valid": "whether a pass may run a re-entrant checkpoint",
    "torch._C._current_autograd_node": "which node of the backward an operator belongs to",
    "torch._C._will_engine_execute_node": "whether a pass leads on from a result that has a gradient",
    "torch._C.TensorBase": "the C class below torch.Tensor, which has the descriptors",
    "torch._C._disabled_torch_function_impl": "fakes and plain tensors skip __torch_function__",
    "torch._assert_async": "a check that stays in graphs: which side of a branch is taken",
    "torch._C._set_conj": "a fake's conjugate bit",
    "torch._C._set_neg": "a fake's negative bit",
    "torch.Tensor._make_subclass": "fakes are made from meta tensors",
    # CUDA
    "torch._C._cuda_clearCublasWorkspaces": "a captured graph has workspaces of its own, which end with it",
    "torch._C._cuda_endAllocateToPool": "what the end of an invalid capture leaves undone",
    "torch._C._cuda_releasePool": "the same",
    "torch._foreach_copy_": "the inputs of a captured graph, all at once",
    "torch._fused_sdp_choice": "torch orders its attention kernels for the device at the first choice",
    # operators
    "torch._ops": "classes of operators: overloads, packets, higher order",
    "torch._library": "the class of `torch.library.custom_op`'s results",
    "torch.library._impls": "which operators have kernels in Python that are differentiated through, or that make gradients",
    "torch._decomp": "the peer of our decompositions: torch's tables of them",
    "torch._higher_order_ops": "the generic associative scan, which is plain Python",
    "torch._C._group_tensors_by_device_and_dtype": "optimizers sort lists of tensors with it; a row of ours answers",
    "torch.distributions.transforms._InverseTransform": "the inverse of a transform, where torch keeps it by a weak reference",
    "torch.utils._foreach_utils": "which devices foreach kernels run on",
    "torch._assert": "a public function behind a private name: an assertion in a graph",
    "torch._check_is_size": "the same for sizes",
    "torch.jit._unwrap_optional": "answered while tracing",
    # modules, trees, graphs
    "torch.nn.Module._call_impl": "calls of modules, whose hooks are seen",
    "torch.nn.modules.module": "global hooks of modules",
    "torch.utils._pytree": "flattening of nested containers, which torch.fx itself uses",
    "torch.fx._lazy_graph_module": "graphs whose Python code is written only when somebody wants it",
    "torch.fx.graph_module._loader": "the source texts of graphs, which are forgotten with their graph",
    "torch.fx.graph": "code generation of graphs with pytree signatures",
    # read from C, or by a name with a default
    "torch.autograd.forward_ad._current_level": "whether forward-mode differentiation is under way; part of the state guard",
    "torch._C._disabled_torch_dispatch_impl": "guards tell tensors with a dispatch of their own",
    # attributes of objects
    "torch.Tensor._backward_hooks": "hooks that a backward pass must show its gradients to",
    "torch.Tensor._base": "which tensor a result is a view of",
    "torch.Tensor._view_func": "a view made anew of another tensor, as autograd makes it after a write",
    "torch.Tensor._is_view": "answered while tracing, and guarded",
    "torch.Tensor._indices": "recordings keep the parts of sparse tensors whether they are coalesced or not",
    "torch.Tensor._values": "the same",
    "torch.Tensor._is_zerotensor": "zeros without memory, which a kernel can't read",
    "torch.Tensor._version": "whether a tensor was written to",
    "torch.Tensor._cdata": "where the C++ object is: host programs call operators with it",
    "torch.UntypedStorage._cdata": "which tensors share memory, also those without data",
    "torch.nn.Module._apply": "a module in another dtype, part by part",
    "torch.nn.Module._buffers": "buffers of modules, without what their __getattr__ does",
    "torch.nn.Module._modules": "children, likewise",
    "torch.nn.Module._non_persistent_buffers_set": "which buffers a saved module leaves out",
    "torch.nn.Module._parameters": "parameters, likewise",
    "torch._ops.OpOverload._name": "the operator by its whole name",
    "torch._ops.OpOverload._op": "the C function of an operator, called without the Python around it",
    "torch._ops.OpOverload._op_dk": "a composite taken apart below a key",
    "torch._ops.OpOverload._overloadname": "which overload it is",
    "torch._ops.OpOverload._schema": "what an operator takes, gives, writes and shares",
    "torch._ops.OpOverloadPacket._qualified_op_name": "the name that overloads have in common",
    "torch.autograd.Function._backward_cls": "the node that a compiled pair has in the backward graph",
    "torch.autograd.Function._input_metadata": "shapes that gradients must have",
    "torch.autograd.Function._raw_saved_tensors": "which nodes free something after their backward",
    "torch.autograd.graph.Node._register_hook_dict": "hooks of results, beside those of others",
    "torch.autograd.graph.Node._sequence_nr": "the order in which autograd made its nodes",
}

# Objects whose private attributes have rows, by the name they have there. Some attributes are the instance's.
OWNERS: Final[dict[str, object]] = {
    "torch.Tensor": torch.Tensor,
    "torch.UntypedStorage": torch.UntypedStorage,
    "torch.nn.Module": torch.nn.Module(),
    "torch._ops.OpOverload": torch.ops.aten.add.Tensor,
    "torch._ops.OpOverloadPacket": torch.ops.aten.add,
    "torch.autograd.Function": torch.autograd.Function,
    "torch.autograd.graph.Node": torch.autograd.graph.Node,
}

# Names of PRIVATE that not every version has, or only one with CUDA; code that uses them asks first.
OPTIONAL: Final = frozenset(
    {
        "torch._C._cuda_clearCublasWorkspaces",
        "torch._C._cuda_endAllocateToPool",
        "torch._C._cuda_getCurrentRawStream",
        "torch._C._cuda_releasePool",
        "torch._C._get_fp32_precision_getter",
        "torch._C._set_fp32_precision_setter",
    }
)


def missing() -> list[str]:
    """The rows of PRIVATE that this torch lacks and that are not optional."""
    found = []
    for name in PRIVATE:
        owner, _, attribute = name.rpartition(".")
        if owner in OWNERS:
            found += [] if hasattr(OWNERS[owner], attribute) else [name]
            continue
        try:
            pkgutil.resolve_name(name)
        except (AttributeError, ImportError):
            found.append(name)
    return [name for name in found if name not in OPTIONAL]


def warn_if_newer() -> None:
    """One line for a torch that nobody has tested this version with. Called when the public functions are first used."""
    newest = TESTED[1]
    if newest < VERSION:
        # An explicit place, for the line of source that `warn` would print below says nothing here.
        warnings.warn_explicit(
            f"torch {torch.__version__} is newer than {newest[0]}.{newest[1]}, the newest that dynamo-debug was tested with; "
            "`dynamo-debug doctor` shows what it lacks [DD099]",
            UserWarning,
            torch.__file__,
            0,
        )
