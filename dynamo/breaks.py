"""Graph breaks: one row per reason. `dynamo-debug explain --code ID` prints a row as a page.

Ids are stable: never renumber, never reuse. Adding a reason is one row here and one case in tests/capture.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Reason:
    """What can't be captured. `explanation` says why, `hint` what to write instead, `example` a failing and a working form."""

    id: str
    title: str
    explanation: str
    hint: str
    example: str = ""


_ROWS: tuple[Reason, ...] = (
    Reason(
        "DD001",
        "data-dependent branch",
        "`if`, `while`, `and`, `or` or `not` on a tensor needs the tensor's value, which is known only when the graph runs. "
        "(On a CPU, branches of which one side only raises are checked by the graph.)",
        "choose with `torch.where(cond, a, b)`, or branch on a Python value such as a shape or a flag.",
        "if x.sum() > 0:        # breaks\n    y = x + 1\nelse:\n    y = x - 1\n\ny = torch.where(x.sum() > 0, x + 1, x - 1)   # one graph",
    ),
    Reason(
        "DD002",
        "graph break asked for",
        "`dynamo.graph_break()` (or `torch._dynamo.graph_break()`) was called here.",
        "remove the call when the break is no longer wanted.",
    ),
    Reason(
        "DD003",
        "value of a tensor needed",
        "the operation hands tensor data to Python (`.item()`, `int(t)`), or its result's shape depends on data (`nonzero`, masks).",
        "keep the value a tensor, or compute it outside the compiled function. Numbers that only flow into tensor arithmetic stay in the "
        "graph with `dynamo.config.capture_scalar_outputs`; shapes are static, so `capture_dynamic_output_shape_ops` changes nothing.",
        "y = x * x.max().item()    # breaks\n\ny = x * x.max()           # one graph",
    ),
    Reason(
        "DD004",
        "output to the terminal or a log",
        "`print`, `input` and logging act at run time, between graphs.",
        "print after the compiled function returns, or return what you want to see.",
        "print(x.shape)   # breaks",
    ),
    Reason(
        "DD005",
        "C function that can't be seen into",
        "the callee is implemented in C and has no row in the handler tables, so what it reads and changes is unknown.",
        "call it outside the compiled region, or register a handler; if it takes and gives tensors, wrap it with `dynamo.allow_in_graph`.",
        "y = torch.from_numpy(scipy.fft.dct(x.numpy()))   # breaks",
    ),
    Reason(
        "DD006",
        "operator on an unknown object",
        "one operand is an object of a C type (a numpy array, for example) that is not captured.",
        "convert to a tensor before the compiled function.",
    ),
    Reason(
        "DD007",
        "iterator that can't be seen into",
        "the loop runs over an iterator that existed before the frame or comes from C code; each step is taken by CPython.",
        "iterate over a list or tuple.",
    ),
    Reason(
        "DD008",
        "operation without shape propagation",
        "the operation has no meta kernel or takes tensors of a kind that fakes don't cover.",
        "use another formulation, or give the custom op a fake implementation with `torch.library.register_fake`.",
    ),
    Reason(
        "DD009",
        "operation fails",
        "the operation raises when it is traced; the same call is run by CPython to raise the real error.",
        "fix the call: the message says what torch objects to.",
    ),
    Reason(
        "DD010",
        "object in a graph operation",
        "a graph operation takes a Python object whose value isn't known while tracing.",
        "pass numbers, strings, dtypes, devices or tensors to torch functions.",
    ),
    Reason(
        "DD011",
        "tensor kind",
        "tensor subclasses, sparse, quantized and nested tensors are passed through but not captured.",
        "convert to a dense torch.Tensor inside the compiled function's caller.",
    ),
    Reason(
        "DD012",
        "state that can't be rebuilt",
        "a generator or iterator in use is alive at a break; generated code can't make it again, so the break moves to before it was made.",
        "finish the generator (`list(gen)`) before the break.",
    ),
    Reason(
        "DD013",
        "hash or equality of an object",
        "a dict or set key compares by a method of its own and was made while tracing.",
        "use strings, numbers or tuples as keys.",
    ),
    Reason(
        "DD014",
        "attribute that can't be read while tracing",
        "the attribute lives in C or behind a descriptor without a row.",
        "read it before the compiled function and pass the value in.",
    ),
    Reason(
        "DD015",
        "attribute that can't be set while tracing",
        "assigning class attributes or C attributes has effects that are not replayed.",
        "set it outside the compiled function.",
    ),
    Reason(
        "DD016",
        "instruction that isn't supported",
        "this bytecode instruction has no row in the interpreter.",
        "rewrite the statement in a plainer form.",
    ),
    Reason(
        "DD017",
        "inlining too deep",
        "calls are inlined up to a depth of 200 frames.",
        "make the recursion a loop.",
    ),
    Reason(
        "DD018",
        "coroutine or async generator",
        "`async` code runs by an event loop, outside of any graph.",
        "compile the synchronous function that does the tensor work.",
    ),
    Reason(
        "DD019",
        "class statement",
        "defining a class runs arbitrary code of metaclasses.",
        "define the class at module level.",
    ),
    Reason(
        "DD020",
        "loop too long",
        "unrolled loops are limited to 100,000 steps.",
        "vectorise the loop with tensor operations.",
    ),
    Reason(
        "DD021",
        "function marked not to be compiled",
        "the function is under `disable` or `skip`, or its module is on the skip list.",
        "remove the mark if the function can be compiled.",
    ),
    Reason(
        "DD022",
        "torch machinery that acts outside of graphs",
        "hooks on the engine, `backward()` and transforms of functions with effects act outside of the captured graph.",
        "call it outside of the compiled function.",
        "loss.backward()   # runs between graphs",
    ),
    Reason(
        "DD023",
        "random state of Python",
        "`random` and `numpy.random` draw at run time.",
        "draw with torch (`torch.rand`), or pass the number in.",
    ),
    Reason(
        "DD024",
        "exception at run time",
        "the exception leaves the compiled function; CPython raises it with its own traceback.",
        "",
        "",
    ),
    Reason(
        "DD025",
        "generator function",
        "a generator's frame suspends and resumes, so it is not compiled as a whole; functions it calls are.",
        "compile the function that consumes the generator.",
    ),
    Reason(
        "DD026",
        "recompile limit",
        "this code has been compiled `recompile_limit` times.",
        "see the recompile reasons: make the changing value a tensor, or raise `dynamo.config.recompile_limit`.",
    ),
    Reason(
        "DD027",
        "a leaf of autograd made or changed",
        "`requires_grad_()`, `detach_()` of an input, `requires_grad=True` and `nn.Parameter(...)` make or change a tensor that gradients "
        "accumulate in. A graph is differentiated from its inputs to its results, so such a tensor is made between graphs. And a view that "
        "`no_grad` made of what needs a gradient is a leaf in which none accumulates.",
        "make the tensor before the compiled function and pass it in.",
        "def f(x):\n    x.requires_grad_()   # breaks\n    return (x * x).sum()",
    ),
    Reason(
        "DD028",
        "calls nested deeper than Python allows",
        "the compiler follows calls with Python's own stack, which ended first. CPython runs the frame, and may raise RecursionError.",
        "turn the recursion into a loop, or raise `sys.setrecursionlimit`.",
    ),
    Reason(
        "DD029",
        "first call of a lazy module",
        "the first call of `nn.LazyLinear` and the like gives parameters their shapes and the module another class. It is left to CPython; "
        "from the second call on there is nothing lazy, and the frame is captured whole.",
        "call the module once before compiling it.",
    ),
    Reason(
        "DD030",
        "a compile where none is wanted",
        "a call would have compiled while `dynamo.config.error_on_recompile` is set, or the stance `fail_on_recompile` is taken.",
        "warm up with calls of this kind first, or make the value that changed a tensor.",
    ),
    Reason(
        "DD031",
        "object with a finalizer",
        "the class has `__del__`, which CPython runs when the last reference goes; an object that only the trace had is never dropped.",
        "make the object outside of the compiled function, or give the class a method that is called to end it.",
    ),
    Reason(
        "DD032",
        "a signal handler raised",
        "a handler of the program raised while a call was being compiled, so the call ended there, as it would have in eager.",
        "the next call compiles again; where a limit of time is meant for the work, compile before it begins.",
    ),
    Reason(
        "DD033",
        "a debugger is entered",
        "`breakpoint()` hands the frame to whoever steps on from there, so the rest of it runs as plain Python, with all its variables.",
        "take the call out when done; `dynamo-debug replay FRAME --break LINE` stops in a recorded frame without changing the program.",
        "breakpoint()   # breaks",
    ),
    Reason(
        "DD034",
        "more memory than there is",
        "an operation asked for more memory than Python gives. CPython runs the instruction, and may raise MemoryError.",
        "make what is that large a tensor, or make it outside of the compiled function.",
        "[0] * sys.maxsize   # breaks",
    ),
    Reason(
        "DD090",
        "internal error while compiling",
        "compiling a frame failed inside this tool; the frame runs in eager.",
        "report it with `dynamo-debug trace`; `dynamo.config.suppress_errors = False` raises the error itself.",
    ),
    Reason(
        "DD091",
        "backend failed",
        "the backend raised while it compiled a captured graph.",
        "try `backend='eager'`, then `backend='aot_eager'`: the first that fails names the stage.",
    ),
    Reason(
        "DD092",
        "dynamic shapes asked for",
        "shapes are static in this version; each new shape compiles anew.",
        "pad inputs to a few fixed shapes, or raise `dynamo.config.recompile_limit`.",
    ),
    Reason(
        "DD093",
        "frozen call without an entry",
        "`dynamo.run` uses only what is compiled; this call fits no entry and ran in eager.",
        "warm up with inputs of this kind before freezing.",
    ),
    Reason(
        "DD094",
        "not a function of its arguments",
        "`export` needs one graph without side effects, and results made of tensors, constants and containers.",
        "return what the function changes instead of changing it.",
    ),
    Reason(
        "DD095",
        "compiled graph failed on its own",
        "a compiled graph raised where the program does not; plain Python ran the frame instead, so the result is right.",
        "report it with `dynamo-debug trace`; `dynamo.config.suppress_errors = False` raises the error itself.",
    ),
    Reason(
        "EXP001",
        "argument of an exported graph",
        "an exported graph holds for arguments like those of its example: structure, shapes, dtypes, devices and the plain values it read.",
        "pass arguments of the same kind, or export again for these.",
    ),
    Reason(
        "EXP002",
        "no form in a file",
        "files hold functions of torch, plain values and dense tensors; the graph has something else in it.",
        "make it a custom operator (torch.library), a dataclass of plain values, or a dense tensor.",
    ),
    Reason(
        "EXP003",
        "damaged file",
        "the file is no exported graph, is cut short, or says things that contradict each other.",
        "save the graph again with `dynamo.export.save`.",
    ),
    Reason(
        "EXP004",
        "outside the vocabulary of files",
        "reading a file calls and imports nothing: it may name functions of torch from a fixed list, and container classes.",
        "for an operator or class that you trust, load(..., operators=[...], classes=[...]).",
    ),
    Reason(
        "DD096",
        "surroundings changed",
        "with `check_surroundings`, a compile, a compiled graph or its backward left a mode of torch different from what the program left.",
        "report it with `dynamo-debug trace`.",
    ),
    Reason(
        "DD097",
        "frame not recorded",
        "a frame could not be written to a file for `replay`: the folder refuses files, or a value failed while it was read.",
        "name another folder with `replay_record_dir`; the program itself goes on as without recording.",
    ),
    Reason(
        "DD098",
        "frame recorded",
        "a frame was written to a file because its capture failed, or because `replay_record_always` is set.",
        "run it alone with `dynamo-debug replay FILE` or `dynamo.replay(FILE)`; `replay --show` says what is in the file and runs nothing.",
    ),
    Reason(
        "DD099",
        "torch is newer than tested",
        "this version of dynamo-debug was tested with older versions of torch; private names of torch may have changed.",
        "install a newer dynamo-debug, or a torch within the range that `dynamo-debug doctor` shows.",
    ),
    Reason(
        "AOT001",
        "no ahead-of-time graph",
        "the captured graph can't be made functional, so it runs as it was captured.",
        "the note names the operation; replace it, or keep `backend='eager'` for this function.",
    ),
    Reason(
        "AOT002",
        "gradient inside a compiled graph",
        "a gradient between two results of one compiled graph was asked for, and the graph can't be run again in eager to find it.",
        "break the graph after the first result (`dynamo.graph_break()`), or run that part outside the compiled function.",
    ),
    Reason(
        "AOT003",
        "second derivative of a compiled graph",
        "for second derivatives (`create_graph=True`) the captured graph runs again in eager, and not all that this needs was kept.",
        "run the part that needs second derivatives outside the compiled function, or write to its tensors outside.",
    ),
)

REASONS: dict[str, Reason] = {r.id: r for r in _ROWS}
# Those that end in an exception of the program when CPython runs the instruction: only if it does not, was there a break.
PROGRAM_RAISES = ("DD009", "DD024")
