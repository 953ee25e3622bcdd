"""Unchanged scripts reach this compiler, torch keeps what it needs of its own, and everything can be put back.

Each program runs in a process of its own: what is replaced is global.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
import torch

PROLOGUE = """
import sys
from dynamo.peer.script_adapter import install_when_torch_loads
install_when_torch_loads()
def peer():
    "modules of torch's own compiler that are really loaded"
    return [m for m in ("torch._dynamo.convert_frame", "torch._inductor.ir") if m in sys.modules]
import torch
"""


def output(program: str, prologue: str = PROLOGUE) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", prologue + textwrap.dedent(program)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


PROGRAMS = {
    "torch.compile": """
        f = torch.compile(lambda x: x.sin() + 1, backend="eager", fullgraph=True)
        print(torch.equal(f(torch.ones(3)), torch.ones(3).sin() + 1), type(f).__module__)
    """,
    "torch.compile as decorator": """
        @torch.compile(backend="eager")
        def f(x):
            return x * 2
        print(f(torch.ones(1)).item(), type(f).__module__)
    """,
    "module.compile": """
        m = torch.nn.Linear(2, 2)
        m.compile(backend="eager")
        print(m(torch.ones(1, 2)).shape[1], "dynamo._C")
    """,
    "torch.compiler.disable": """
        @torch.compiler.disable
        def f(x):
            return x * 2
        print(f(torch.ones(1)).item(), "dynamo._C")
    """,
    "torch.compiler.reset and list": """
        torch.compiler.reset()
        print("eager" in torch.compiler.list_backends(None), "dynamo._C")
    """,
    "old import": """
        import torch._dynamo as dynamo
        f = dynamo.optimize("eager")(lambda x: x + 1)
        print(f(torch.ones(1)).item(), type(f).__module__)
    """,
    "old from-import": """
        from torch._dynamo import optimize, disable, config
        from torch._dynamo.utils import CompileProfiler, compile_times
        from torch._dynamo.testing import CompileCounter
        counter = CompileCounter()
        f = optimize(counter, nopython=True)(lambda x: x.sin() + x)
        f(torch.ones(1))
        print(counter.frame_count, counter.op_count, type(f).__module__)
    """,
    "attribute of torch": """
        f = torch._dynamo.optimize("eager")(lambda x: x + 1)
        print(f(torch.ones(1)).item(), type(f).__module__)
    """,
    "optimizer and checkpoint": """
        from torch.utils.checkpoint import checkpoint
        p = torch.nn.Parameter(torch.ones(2))
        opt = torch.optim.Adam([p])
        checkpoint(lambda x: x.sin(), p, use_reentrant=False).sum().backward()
        opt.step()
        print(p.grad is not None, "dynamo._C")
    """,
    "profiler": """
        from torch._dynamo.utils import CompileProfiler
        prof = CompileProfiler()
        f = torch.compile(lambda x: x + 1, backend=prof)
        f(torch.ones(2)), f(torch.ones(3))
        print("Num Recompiles" in prof.report(), len(prof.get_metrics()["guard_failures"]), "dynamo._C")
    """,
    "default backend": """
        seen = []
        def mine(gm, inputs):
            seen.append(gm)
            return gm.forward
        torch.compiler.set_default_backend(mine)
        torch.compile(lambda x: x + 1)(torch.ones(1))
        torch.compiler.set_default_backend(None)
        print(len(seen), torch.compiler.get_default_backend() == "inductor", "dynamo._C")
    """,
    "nested region": """
        @torch.compiler.nested_compile_region
        def region(x):
            return x.sin()
        f = torch.compile(lambda x: region(x) + region(x), backend="eager", fullgraph=True)
        print(f(torch.ones(1)).shape[0], type(f).__module__)
    """,
    "optimized modules are recognised": """
        m = torch.compile(torch.nn.Linear(2, 2), backend="eager")
        print(isinstance(m, torch._dynamo.eval_frame.OptimizedModule), isinstance(m, torch._dynamo.OptimizedModule), "dynamo._C")
    """,
}


if not hasattr(torch.compiler, "set_default_backend"):  # new in torch 2.12
    del PROGRAMS["default backend"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_reach_this_compiler_without_the_peer(name: str) -> None:
    lines = output(PROGRAMS[name] + "\n        print(peer())\n").splitlines()

    assert lines[0].split()[0] not in ("False", "0")
    assert lines[0].split()[-1].startswith("dynamo")
    assert lines[-1] == "[]"


def test_stances() -> None:
    program = """
    from torch._dynamo.testing import CompileCounter
    counter = CompileCounter()
    f = torch.compile(lambda x: x + 1, backend=counter)
    with torch.compiler.set_stance("force_eager"):
        f(torch.ones(1))
    @torch.compiler.set_stance("force_eager")
    def eagerly():
        return f(torch.ones(1))
    eagerly()
    print(counter.frame_count)
    f(torch.ones(1))
    print(counter.frame_count)
    torch.compiler.set_stance("eager_on_recompile")
    f(torch.ones(2))
    torch.compiler.set_stance("default")
    print(counter.frame_count)
    f(torch.ones(2))
    print(counter.frame_count, peer())
    """

    assert output(program).splitlines() == ["0", "1", "1", "2 []"]


def test_compiles_that_are_not_wanted_raise() -> None:
    program = """
    import torch._dynamo as d
    @torch.compile(backend="eager")
    def f(x, k=1):
        return x + k
    f(torch.ones(1))
    def tried(call):
        try:
            call()
            return "ran"
        except RuntimeError as e:
            return type(e).__name__ + (" size" if "size" in str(e) else "")
    with torch.compiler.set_stance("fail_on_recompile"):
        print(tried(lambda: f(torch.ones(1))), tried(lambda: f(torch.ones(2))))
        with torch.compiler.set_stance("force_eager"):
            print(tried(lambda: f(torch.ones(2))))
        print(tried(lambda: torch.compile(torch.cos, backend="eager")(torch.ones(1))))
    d.config.error_on_recompile = True
    print(tried(lambda: f(torch.ones(3))), issubclass(d.exc.RecompileError, RuntimeError))
    print(tried(lambda: torch.compile(lambda x: x.sin(), backend="eager")(torch.ones(1))))
    d.config.error_on_recompile = False
    print(tried(lambda: f(torch.ones(3))), peer())
    """

    assert output(program).splitlines() == ["ran RecompileError size", "ran", "RecompileError", "RecompileError size True", "ran", "ran []"]


def test_past_the_limit_fullgraph_raises_and_its_errors_have_the_reasons_of_torch() -> None:
    program = """
    import torch._dynamo as d
    d.config.recompile_limit = 2
    @torch.compile(backend="eager", fullgraph=True, dynamic=False)
    def f(x):
        return x.sin()
    def tried(size):
        try:
            f(torch.ones(size))
            return "ran"
        except d.exc.FailOnRecompileLimitHit:
            return "limit"
        except d.exc.RecompileError:
            return "recompile"
    print(*map(tried, (1, 2, 3, 4, 3, 1)))
    with torch.compiler.set_stance("fail_on_recompile"):
        print(*map(tried, (3, 1)))
    with d.config.patch(error_on_recompile=True):
        print(*map(tried, (3, 1)))
    with torch.compiler.set_stance("eager_on_recompile"):
        print(*map(tried, (3, 1)))
    d.reset()
    print(*map(tried, (3, 4, 5, 3)))
    """

    assert output(program).splitlines() == [
        "ran ran limit limit limit ran",
        "recompile ran",
        "recompile ran",
        "ran ran",
        "ran ran limit ran",
    ]


def test_errors_have_the_names_of_torch_while_it_is_replaced() -> None:
    program = """
    import copy, pickle, traceback
    import dynamo
    from torch._dynamo import exc
    def broken(gm, inputs):
        raise ValueError("no")
    def of(call):
        try:
            call()
        except exc.TorchDynamoException as e:
            found = traceback.format_exception_only(e)[0].partition(":")[0]
            return type(e).__name__, found, repr(e).partition("(")[0], type(e) is getattr(exc, type(e).__name__), e
    *said, error = of(lambda: torch.compile(lambda x: print(x), fullgraph=True)(torch.ones(1)))
    print(*said, pickle.loads(pickle.dumps(type(error))) is exc.Unsupported)
    *said, error = of(lambda: torch.compile(lambda x: x + 1, backend=broken)(torch.ones(1)))
    print(*said, error.backend_name, repr(error.inner_exception))
    try:
        torch.compile(lambda x: x + 1, backend="nowhere")(torch.ones(1))
    except exc.InvalidBackend as e:
        print(type(e).__qualname__)
    dynamo.peer.script_adapter.uninstall()
    print(dynamo.GraphBreakError.__module__, dynamo.GraphBreakError.__qualname__, dynamo.GraphBreakError.own_name)
    """
    first, second, *rest = output(program).splitlines()

    assert first == "Unsupported torch._dynamo.exc.Unsupported Unsupported True True"
    assert second == "BackendCompilerFailed torch._dynamo.exc.BackendCompilerFailed BackendCompilerFailed True broken ValueError('no')"
    assert rest == ["InvalidBackend", "dynamo.errors GraphBreakError dynamo.errors.GraphBreakError"]


def test_set_logs_asks_for_our_lines() -> None:
    program = """
    import contextlib, io
    torch._logging.set_logs(recompiles=True, aot_joint_graph=False)
    f = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    def said(size):
        with contextlib.redirect_stderr(io.StringIO()) as found:
            f(torch.ones(size))
        return [line.split()[2] for line in found.getvalue().splitlines() if line.startswith("dynamo [")]
    print(said(2), said(3))
    torch._logging.set_logs()
    print(said(4), peer())
    """

    assert output(program).splitlines() == ["[] ['recompiles:']", "[] []"]


def test_names_that_are_not_served_are_torchs_own_and_steering_ones_are_noted() -> None:
    program = """
    import torch._dynamo as d
    from dynamo.trace import current, events
    print(peer())
    print(d.symbolic_convert.__name__, d.error_on_graph_break.__module__, d.error_on_graph_break is d.decorators.error_on_graph_break)
    from torch._dynamo.variables import TensorVariable
    from torch._dynamo.utils import istype
    print(TensorVariable.__module__, istype(1, int), hasattr(d, "nowhere"), d.decorators.mark_dynamic is d.mark_dynamic)
    print([(n.id, n.message.split()[0]) for n in current().of(events.Note)])
    """
    first, second, third, last = output(program).splitlines()

    assert first == "[]"
    assert second == "torch._dynamo.symbolic_convert torch._dynamo.decorators True"
    assert third == "torch._dynamo.variables.tensor True False True"
    assert last == "[('DN015', 'torch._dynamo.error_on_graph_break'), ('DN015', 'torch._dynamo.decorators.error_on_graph_break')]"


def test_options_are_set_here_and_others_noted() -> None:
    program = """
    import torch._dynamo, dynamo
    from torch._dynamo import config
    from dynamo.trace import current, events
    torch._dynamo.config.cache_size_limit = 3
    config.verbose = True
    config.specialize_int = True
    print(dynamo.config.recompile_limit, config.recompile_limit, dynamo.config.verbose, config.specialize_int)
    with config.patch(recompile_limit=9), config.patch({"cache_size_limit": 7}), config.patch("assume_static_by_default", False):
        print(dynamo.config.recompile_limit)
    print(dynamo.config.recompile_limit)
    print([(n.id, n.message.split()[0]) for n in current().of(events.Note)], peer())
    try:
        config.specialise_int = True
    except AttributeError as e:
        print(e)
    """

    assert output(program).splitlines() == [
        "3 3 True True",
        "7",
        "3",
        "[('DN012', 'torch._dynamo.config.specialize_int'), ('DN012', 'torch._dynamo.config.assume_static_by_default')] []",
        "torch._dynamo.config.specialise_int does not exist",
    ]


def test_torch_gets_its_own_where_it_needs_it_and_the_script_still_gets_ours() -> None:
    program = """
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    import torch._dynamo as d
    with FakeTensorMode() as mode:
        print((mode.from_tensor(torch.ones(2)) + 1).shape)
    print(make_fx(lambda x: x.sin())(torch.ones(2)).code.count("aten.sin"))
    print(type(d).__name__, type(torch._dynamo).__name__, torch._dynamo is d, sys.modules["torch._dynamo"] is d)
    print(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item())
    """

    assert output(program).splitlines() == ["torch.Size([2])", "1", "ServedModule ServedModule True True", "2.0"]


def test_libraries_load_without_the_peer_where_they_can() -> None:
    program = """
    from tests.models import torchvision_ops
    torchvision_ops.declare()
    import transformers
    from transformers import BertModel
    from transformers.masking_utils import TransformGetItemToIndex
    print(TransformGetItemToIndex.__module__, peer())
    """

    assert output(program).splitlines()[-1] == "torch._dynamo._trace_wrapped_higher_order_op []"


def test_an_option_that_nobody_set_has_the_default_of_torch() -> None:
    program = """
    import dynamo
    from torch._dynamo import config
    print(config.suppress_errors, dynamo.config.suppress_errors)
    with config.patch(suppress_errors=True):
        print(config.suppress_errors)
    config.suppress_errors = False
    print(config.suppress_errors, dynamo.config.suppress_errors)
    """

    assert output(program).splitlines() == ["False True", "True", "False False"]


def test_libraries_get_what_is_not_served() -> None:
    program = """
    import sysconfig, types
    source = "import torch._dynamo as d\\nfound = d.symbolic_convert.__name__\\nfrom torch._dynamo.variables import TensorVariable\\n"
    library = types.ModuleType("library")
    exec(compile(source, sysconfig.get_path("purelib") + "/library.py", "exec"), library.__dict__)
    print(library.found, library.TensorVariable.__name__)
    import torch._dynamo as mine
    print(hasattr(mine, "symbolic_convert"), mine.optimize.__module__)
    """

    assert output(program).splitlines() == ["torch._dynamo.symbolic_convert TensorVariable", "True dynamo.peer.replacements"]


def test_a_peer_that_is_loaded_already_does_not_matter() -> None:
    prologue = """
import sys, torch, torch._dynamo
real, original = torch._dynamo, torch.compile
from dynamo.peer.script_adapter import install, uninstall
install()
"""
    program = """
    import torch._dynamo as d
    from torch._dynamo import optimize
    print(d is real, type(optimize("eager")(lambda x: x + 1)).__module__, type(torch.compile(lambda x: x, backend="eager")).__module__)
    uninstall()
    import torch._dynamo
    print(torch._dynamo is real, sys.modules["torch._dynamo"] is real, torch.compile is original)
    print(real.utils is sys.modules["torch._dynamo.utils"])
    print(torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item())
    """

    assert output(program, prologue).splitlines() == ["False dynamo._C dynamo._C", "True True True", "True", "2.0"]


def test_uninstall_puts_everything_back() -> None:
    prologue = """
import sys, torch
before = torch.compile, dict(vars(torch.compiler)), "_dynamo" in vars(torch), list(sys.meta_path)
import dynamo
from dynamo.peer.script_adapter import as_torch_compile
"""
    program = """
    with as_torch_compile():
        import torch._dynamo.utils
        inside = torch.compile, torch.compiler.disable, dynamo.compile
    with dynamo.install_as_torch_compile():
        print(torch.compile is inside[0], torch.compiler.disable is inside[1])
    after = torch.compile, dict(vars(torch.compiler)), "_dynamo" in vars(torch), list(sys.meta_path)
    print(before == after, [m for m in sys.modules if m.startswith("torch._dynamo")], dynamo.compile is inside[2])
    """

    assert output(program, prologue).splitlines() == ["True True", "True [] False"]


def test_nothing_is_loaded_before_the_script_loads_torch() -> None:
    prologue = """
import sys
from dynamo.peer.script_adapter import install_when_torch_loads
install_when_torch_loads()
"""
    program = """
    print("torch" in sys.modules)
    import os
    os.environ["DYNAMO_RECOMPILE_LIMIT"] = "5"
    import torch
    print(torch.compile.__module__, torch.__spec__.loader is torch.__loader__, type(torch.__loader__).__name__)
    import dynamo
    print(dynamo.config.recompile_limit)
    """

    assert output(program, prologue).splitlines() == ["False", "dynamo.peer.replacements True SourceFileLoader", "5"]


def test_a_forced_backend_wins() -> None:
    prologue = """
import sys
from dynamo.peer.script_adapter import install_when_torch_loads
install_when_torch_loads("eager")
import torch, dynamo
"""
    program = """
    def mine(gm, inputs):
        raise RuntimeError("not asked for")
    for way in (torch.compile, dynamo.compile):
        print(way(lambda x: x + 1, backend=mine)(torch.ones(1)).item())
    for way in (torch._dynamo.optimize, dynamo.optimize):
        print(way(mine)(lambda x: x + 1)(torch.ones(1)).item())
    print(torch.compile(lambda x: x + 1, options={"max_autotune": True})(torch.ones(1)).item())
    """

    assert output(program, prologue).splitlines() == ["2.0"] * 5
