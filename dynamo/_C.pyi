"""Interface of the C extension (`dynamo/csrc`). CPython API only, no torch headers.

Frame inputs are one flat tuple: bound argument slots in localsplus order (co_argcount + co_kwonlyargcount + *args tuple +
**kwargs dict), then the function's closure cells (len(co_freevars)).
"""

from collections.abc import Callable
from types import CellType, CodeType
from typing import Any, Literal, TypeAlias, final

Inputs: TypeAlias = tuple[Any, ...]

# A guard tree node is (accessor, arg, leaves, children).
#   leaves are (guard_id, kind, arg): guard_id is an int chosen by the caller and returned by explain()
# ---- guard kinds, written of dynamo/csrc/kinds.h by `make accept`
#   accessors, how to get a node's object from its parent's:
#     "root"        None: the inputs tuple itself; global-state leaves live here
#     "input"       an index >= 0: that item of the inputs, directly below the root
#     "const"       an object: the object, held strongly (globals dicts, modules)
#     "attr"        an attribute name: getattr(parent, name) by the generic protocol; AttributeError = guard fails
#     "inst_dict"   None: parent.__dict__ (without creating one if it is absent: fails)
#     "dict_item"   a hashable key: PyDict_GetItem on a dict or an instance of a subclass, without user __getitem__
#     "list_item"   an index >= 0: item of a list or an instance of a subclass, without user __getitem__
#     "tuple_item"  an index >= 0: the same of a tuple
#     "cell"        None: cell contents; empty cell = fails
#     "type"        None: type(parent)
#     "call"        a callable: callable(parent); an exception = fails
GuardAccessor: TypeAlias = Literal["root", "input", "const", "attr", "inst_dict", "dict_item", "list_item", "tuple_item", "cell", "type", "call"]
#   leaves, what is checked of the object:
#     "type"          a class: type(obj) is the class
#     "is"            an object: obj is the object; the reference is held strongly
#     "is_not"        an object: obj is another object
#     "code"          a code object: obj is a Python function and its __code__ is the code object
#     "eq"            a value: type(obj) is type(value) and obj == value; for float and complex: bitwise (nan equals nan, 0.0 !=
#                       -0.0); for tuple and frozenset deep, with the same rule
#     "len"           an int >= 0: length of a builtin container or string (C-level size, no user __len__)
#     "dict_keys"     a tuple of keys: exactly these keys in this order (identity or type-strict eq)
#     "has_key"       a hashable key: obj is a dict with the key, found without user code
#     "no_key"        a hashable key: obj is a dict without the key
#     "no_inst_attr"  an attribute name: the instance dict has no such entry (or there is no instance dict)
#     "tensor"        TensorFacts: exact type, dtype, device, shape, stride, requires_grad, dispatch-key bits
#     "pred"          a callable: bool(callable(obj)); an exception = fails
#     "distinct"      None: the objects of all nodes carrying this leaf are pairwise different objects
#     "same"          the number of a group: the objects of all nodes carrying this leaf with the same number are one object
#     "defined"       Definitions: names of modules, classes and functions mean what they meant
#     "state"         a GlobalState: grad mode, inference mode, autocast state, default dtype, deterministic, ... are as snapshotted
GuardKind: TypeAlias = Literal["type", "is", "is_not", "code", "eq", "len", "dict_keys", "has_key", "no_key", "no_inst_attr", "tensor", "pred", "distinct", "same", "defined", "state"]
# ---- end of guard kinds
#   Of "type", "is", "is_not" and "code" leaves and of "const" the arg may be an instance of a subclass of weakref.ref: it stands for its
#   referent, and whoever made the tree does not use it once that is dead.
#   Children are checked in the given order after the leaves. Nothing a guard does may run user Python code, except "attr", "call", "pred".
#   check() remembers where it held: subtrees that run no user code are then held by comparing the memory they depend on (dict versions,
#   types, sizes, tensor fields) with what it was, about 0.4 ns each, and are walked only when something differs.
Node: TypeAlias = tuple[str, Any, tuple[Any, ...], tuple[Any, ...]]

@final
class TensorFacts:
    """Facts of one tensor, read from the tensor itself. `dims`: a tuple of bools, False = that size and its stride are not compared."""
    def __init__(self, tensor: Any, dims: tuple[bool, ...] | None = None) -> None: ...
    raw: bool  # checked by raw reads (5 ns); False = through attributes (microseconds; strideless layouts, __torch_dispatch__ subclasses)
    def check(self, obj: object, /) -> bool: ...
    def why(self, obj: object, /) -> str:
        """'' if it holds, else e.g. "size at dim 0: expected 3, got 4"."""

@final
class GlobalState:
    """Snapshot of torch's global modes that a capture depends on."""
    def __init__(self) -> None: ...
    def check(self) -> bool: ...
    def why(self) -> str: ...
    def describe(self) -> dict[str, str]: ...

# Of Definitions: a holder is (kind, object, facts), with an object that may be held weakly as above.
#   "dict" d               facts are about d[name]
#   "class" cls            ... about what is found under a name along the bases of cls
#   "own" cls              ... about the class's own dict
#   "bases" cls            ... about positions in cls.__mro__, which stand in the place of names; for classes made by class statements
#   "function" fn          ... about fn.__code__, the only name there is
#   facts: (name,) there is no such name; (name, obj) it is obj; (name, cls, attribute or None, obj) it is an instance of that very class,
#   whose attribute is obj.

@final
class Definitions:
    """What names meant. A check compares one word per holder, and looks names up only where that differs."""

    holders: tuple[tuple[str, Any, tuple[tuple[Any, ...], ...]], ...]
    def __init__(self, holders: tuple[tuple[str, Any, tuple[tuple[Any, ...], ...]], ...]) -> None: ...
    def check(self) -> bool: ...
    def why(self) -> str:
        """'' if all mean what they meant, else the first name that doesn't."""

@final
class GuardTree:
    def __init__(self, root: Node) -> None: ...
    def check(self, inputs: Inputs, /) -> bool: ...
    def explain(self, inputs: Inputs, /) -> tuple[int, Any] | None:
        """First failing leaf as (guard_id, the object seen or an AccessError string), or None when all hold. For a failing "state" leaf
        the second part is GlobalState.why()."""
    def cost(self, inputs: Inputs, n: int = 1000) -> list[tuple[int, float]]:
        """(guard_id, ns) per leaf: the mean of n checks, in the given order and without what check() remembers between calls. The time to
        read an object counts for the first leaf on or below it. Ends at the first guard that fails."""

@final
class Entry:
    """One compiled variant of a code object."""
    def __init__(self, guards: GuardTree, fn: Callable[..., Any], info: object = None) -> None: ...
    guards: GuardTree
    fn: Callable[..., Any]  # called as fn(*inputs)
    info: object  # the Python-side record (compile id, graphs ...)
    hits: int

@final
class Cache:
    """The entries of one code object under one compile context. Entry order: most recently hit first."""

    ACTIVE: int  # miss -> call miss()
    RUN_ONLY: int  # miss -> run natively (recompile limit hit, or frozen by run())
    SKIP: int  # never look: run natively
    def __init__(self, code: Any) -> None: ...
    code: Any
    mode: int
    entries: tuple[Entry, ...]
    misses: int  # calls that found no entry and did not compile one (RUN_ONLY, or stance 1)
    def add(self, entry: Entry, /) -> None: ...
    def remove(self, entry: Entry, /) -> None: ...
    def clear(self) -> None: ...

@final
class Compiled:
    """Vectorcall object. Behaves as a function: __wrapped__, __name__, __doc__, __module__, __qualname__, __dict__, __get__ (binds methods),
    weakrefs, pickling by name, repr, and `__class__`, so that `isinstance(f, types.FunctionType)` holds. `fn` is a plain Python function.

    miss(compiled, inputs) -> callable | None: called when no entry fits; the result, if not None, is called with *inputs;
    None means run the original function natively (with the frame hook active for the frames it calls).

    raising(fn, error) -> callable: called with what the compiler or an entry raises, for functions that begin inside `with` and `try` blocks;
    the result is called with *inputs and raises that inside them."""
    def __init__(
        self,
        fn: Callable[..., Any],
        cache: Cache,
        miss: Callable[[Compiled, Inputs], Callable[..., Any] | None],
        context: object = None,
        raising: Callable[[Any, BaseException], Callable[..., Any]] | None = None,
    ) -> None: ...
    fn: Callable[..., Any]
    cache: Cache
    context: object
    __wrapped__: Callable[..., Any]
    _torchdynamo_orig_callable: Callable[..., Any]
    __name__: str
    __qualname__: str
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __get__(self, obj: Any, owner: type | None = None, /) -> Any: ...
    def __copy__(self) -> Compiled: ...
    def __deepcopy__(self, memo: Any, /) -> Compiled: ...
    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Inputs:
        """Frame inputs for a call; raises the TypeError CPython raises."""

@final
class Direct:
    """An entry function without a Python frame: fn(*[inputs[i] for i in args]), then pick the result.
    out: None = the result itself, int k = result[k], tuple of ints = tuple(result[k] ...).
    When fn raises an Exception and there is a rescue, the result is Tail(rescue, (exception, None, *inputs))."""
    def __init__(
        self, fn: Callable[..., Any], args: tuple[int, ...], out: int | tuple[int, ...] | None, rescue: Callable[..., Any] | None = None
    ) -> None: ...
    fn: Callable[..., Any]
    args: tuple[int, ...]
    out: int | tuple[int, ...] | None
    rescue: Callable[..., Any] | None
    def __call__(self, *inputs: Any) -> Any: ...

@final
class Tail:
    """A pending call. Entries, native steps and resume functions return it; the driver in Compiled (and in the frame hook) performs it, so chains use no stack.
    native=True: fn is run with the frame hook active for the frames it calls (not for fn's own frame)."""
    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], native: bool = False) -> None: ...
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    native: bool

guard_accessors: dict[GuardAccessor, tuple[str, str]]  # name -> (argument, meaning); the same rows as above
guard_kinds: dict[GuardKind, tuple[str, str]]

def set_frame_handler(handler: Callable[[Any, Any], Compiled | None] | None, /) -> Callable[[Any, Any], Compiled | None] | None:
    """handler(function_object, context) decides once per (code, context) what the hook does with a frame of that code: a Compiled whose cache and miss
    serve it, or None = leave it alone. The answer is remembered per code and context until reset_frames(). A frame whose function has other globals
    than the Compiled's runs natively. Without a handler the hook is never installed. Returns the old handler."""

def reset_frames() -> None: ...
def hook_active() -> bool:
    """True while the PEP 523 evaluator is installed (test aid)."""

def set_frozen_handler(handler: Callable[[Compiled, Inputs], object] | None, /) -> Callable[[Compiled, Inputs], object] | None:
    """handler(compiled, inputs) hears of every call that found no entry under stance 1; the call then runs natively. What it raises is reported as
    unraisable. Returns the old handler."""

def disabled_call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None, then: Callable[[bool], object] | None = None, /) -> Any:
    """Call fn with every Compiled object running natively and the hook off, in this thread, until it returns (dynamo.disable).
    Then then(whether it returned) is called; what that raises takes the place of the result or the error."""

def run_outermost(code: CodeType, globals: dict[str, Any], /) -> Any:
    """Run the code of a module as Python runs that of `__main__`: no frame is behind its own."""

def write_whole(fd: int, data: bytes, /) -> None:
    """Write all of the bytes; no signal handler runs in between. OSError where the descriptor can't be written."""

def enter_scope(context: object, /) -> object:
    """From here on the frame hook looks at frames of this thread on behalf of the context, which the caller keeps alive (`with optimize():`)."""

def leave_scope(scope: object, /) -> None:
    """Undo the enter_scope that gave the scope. Each scope is left once, in the reverse order."""

def set_stance(stance: int, /) -> int:
    """0 default, 1 frozen (never call miss: run()), 2 force eager; per thread. Returns the old one."""

def layout_report() -> dict[str, object]:
    """{"tensor": "raw", <field>: offset ...} or {"tensor": "api", "reason": why}, and "state": "raw" or "partly through Python" (shown by `dynamo-debug doctor`)."""

def sharing(args: tuple[Any, ...], /) -> bytes:
    """Per tensor of a tuple two int32: the first position with its memory, and the first with itself. Raises what a tensor without storage raises."""

def free_variable(cell: CellType, name: str, /) -> Any:
    """What the cell of a free variable holds, or the NameError that CPython raises for it."""

def inst_dict(obj: object, /) -> dict[str, Any]:
    """obj.__dict__, read without any code of its class."""
