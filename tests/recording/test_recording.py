"""Frames that are written when their capture fails, and run again: the same values, the same failure, in another process."""

from __future__ import annotations

import abc
import array
import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import inspect
import io
import json
import logging
import math
import operator
import os
import pathlib
import re
import subprocess
import sys
import threading
import types
import typing
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dynamo
from dynamo.recording.build import Builder, NotRecorded, Placeholder
from dynamo.recording.format import RecordingError, read, write
from dynamo.recording.known import MAKERS
from dynamo.recording.save import save
from tests.cli.command import environment, run
from tests.cli.command import write as script_of
from tests.schemas import validate
from tui.commands.replay import replay

SCALE = 3.0
LOCK = threading.Lock()
LOG = open(os.devnull, "w")
STEPS = (n for n in range(3))


def back(tmp_path: Path, fn: Any, *inputs: Any) -> tuple[Any, list[Any]]:
    """A function and values through a file."""
    path = tmp_path / "frame.rec"
    write(path, *save(fn, inputs, "", False))
    recording = read(path)
    builder = Builder(recording)
    return builder.whole(recording.frame["function"]), [builder.whole(n) for n in recording.frame["inputs"]]


def helper(x: Any, k: int = 2, *, z: float = 1.0) -> Any:
    return x * k + z * SCALE


class Base:
    kind = "base"

    def __init__(self, x: float) -> None:
        self.x = x

    @property
    def double(self) -> float:
        return self.x * 2

    @staticmethod
    def plus(a: float) -> float:
        return a + SCALE

    @classmethod
    def name(cls) -> str:
        return cls.__name__


class Derived(Base):
    def __init__(self, x: float) -> None:
        super().__init__(x + 1)
        self.me = [self]


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self) -> float: ...


class Square(Shape):
    def area(self) -> float:
        return 4.0


def program(x: torch.Tensor, base: Base, *more: Any, flag: bool = False, **named: Any) -> Any:
    def recursive(n: int) -> Any:
        return x if n == 0 else helper(recursive(n - 1), z=math.sqrt(4))

    y = recursive(2) + base.double + Base.plus(1)
    if flag:
        y = y + functools.reduce(lambda a, b: a + b, more, 0)
    return y, named


def test_function_with_globals_closure_defaults_and_classes_runs_as_before(tmp_path: Path) -> None:
    fn, (x, base) = back(tmp_path, program, torch.arange(3.0), Derived(2.0))

    got, named = fn(x, base, 1, 2, flag=True, word="w")
    want, _ = program(torch.arange(3.0), Derived(2.0), 1, 2, flag=True)
    torch.testing.assert_close(got, want)
    assert named == {"word": "w"}
    assert fn is not program
    assert [base.me[0] is base, base.kind, base.name(), type(base).__mro__[1].__name__] == [True, "base", "Derived", "Base"]
    assert type(base)(5.0).x == 6.0, "super() finds its class"


VALUES: list[Any] = [
    None, True, 0, -(10**30), 1.5, math.inf, -0.0, 1e-320, 2 - 3j, "", "snow ☃ \ud800", b"\x00\xff", ..., NotImplemented,
    range(1, 9, 2), slice(None, 3), [1, [2, (3,)]], {1: {2}, "k": None, (1, 2): []}, frozenset({1, 2}), torch.Size([2, 3]),
    collections.OrderedDict(a=1, b=2), torch.float16, torch.device("cpu"), torch.strided, torch.channels_last,
    torch.nn.functional.relu, math.pi, len, dict.get, int, torch.nn.Linear, torch.relu, torch.nn.functional.gelu,
    collections.deque([1, [2]], maxlen=3), collections.deque(), collections.defaultdict(list, a=[1]), collections.defaultdict(None, {1: 2}),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda v: getattr(v, "__qualname__", None) or repr(v))
def test_plain_values_come_back(tmp_path: Path, value: Any) -> None:
    _, (again,) = back(tmp_path, helper, value)

    assert type(again) is type(value)
    assert repr(again) == repr(value)


def test_nan_and_shared_objects_come_back(tmp_path: Path) -> None:
    shared: list[Any] = [1]
    shared.append(shared)
    _, (nan, a, b, method, part) = back(tmp_path, helper, math.nan, shared, [shared], Derived(1.0).name, functools.partial(helper, k=5))

    assert math.isnan(nan)
    assert a[1] is a
    assert b[0] is a
    assert method() == "Derived"
    assert part(2) == 13.0
    assert Square().area() == back(tmp_path, helper, Square())[1][0].area()


class Slotted:
    __slots__ = ("__hidden", "empty", "me")

    def __init__(self) -> None:
        self.me, self.__hidden = self, 3

    def hidden(self) -> int:
        return self.__hidden


class BesideSlots(Slotted):
    def __init__(self) -> None:
        super().__init__()
        self.free = [1]


@dataclasses.dataclass(slots=True, frozen=True)
class Frozen:
    rate: float = 0.5


def test_what_slots_hold_comes_back(tmp_path: Path) -> None:
    _, (slotted, beside, frozen) = back(tmp_path, helper, Slotted(), BesideSlots(), Frozen(2.0))

    for value in (slotted, beside):
        assert type(value) is not Slotted
        assert (value.hidden(), value.me is value, hasattr(value, "empty")) == (3, True, False)
    assert (beside.free, hasattr(slotted, "__dict__")) == ([1], False)
    assert (frozen.rate, hasattr(frozen, "__dict__")) == (2.0, False)


class Colour(enum.Enum):
    RED = 1
    BLUE = "b"


class Level(enum.IntEnum):
    LOW = 3


class Pair(typing.NamedTuple):
    first: int
    second: Any = None


@dataclasses.dataclass
class Options:
    colour: Colour = Colour.RED
    names: list[str] = dataclasses.field(default_factory=list)


def test_enumerations_named_tuples_and_dataclasses_come_back(tmp_path: Path) -> None:
    pair, colour, level, options, method = Pair(1, [2]), Colour.BLUE, Level.LOW, Options(Colour.BLUE, ["a"]), inspect.Parameter.KEYWORD_ONLY
    _, (p, c, n, o, m) = back(tmp_path, helper, pair, colour, level, options, method)

    assert (p.first, p.second, p[:1], type(p).__name__) == (1, [2], (1,), "Pair")
    assert (c.name, c.value, c is o.colour, type(c)["RED"].value) == ("BLUE", "b", True, 1)
    assert (n + 1, m, o.names, type(o)().colour.name) == (4, method, ["a"], "RED")
    assert p._replace(first=5).first == 5


def test_tensors_keep_layout_sharing_and_gradients(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    parameter = torch.nn.Parameter(torch.ones(2))
    model = torch.nn.Linear(2, 2)
    model.register_buffer("same", model.weight.detach())
    given = (base, base.t(), base[1:, ::2], parameter, torch.zeros(0, 3), torch.ones(2, dtype=torch.bool), base.to(torch.bfloat16), model)

    _, (whole, turned, part, p, empty, flags, halves, linear) = back(tmp_path, helper, *given)

    for old, new in zip(given[:7], (whole, turned, part, p, empty, flags, halves), strict=True):
        assert isinstance(old, torch.Tensor)
        assert (new.dtype, new.shape, new.stride(), new.requires_grad, type(new)) == (
            old.dtype,
            old.shape,
            old.stride(),
            old.requires_grad,
            type(old),
        )
        assert torch.equal(new, old)
    whole[1, 0] = 100
    assert [turned[0, 1].item(), part[0, 0].item()] == [100, 100]
    torch.testing.assert_close(linear(torch.ones(2)), model(torch.ones(2)))
    with torch.no_grad():
        linear.weight[0, 0] = 7
    assert linear.same[0, 0] == 7


def test_what_cannot_be_kept_is_named_where_it_is_used(tmp_path: Path) -> None:
    def saying(x: Any) -> Any:
        print(x, file=LOG)
        return x

    fn, (log, steps, empty) = back(tmp_path, saying, LOG, STEPS, torch.empty(2, 2, device="meta"))

    assert repr(log) == f"<not recorded: _io.TextIOWrapper (the file {os.devnull!r}, open for 'w')>"
    assert repr(steps).startswith("<not recorded: builtins.generator (of <genexpr>, ") and __file__ in repr(steps)
    assert repr(empty) == "<not recorded: torch.Tensor (strided, float32 [2, 2] on meta)>"
    with pytest.raises(NotRecorded, match=r"TextIOWrapper .*'/dev/null'.* is not in the recording"):
        fn(1)


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2

    @property
    def steps(self) -> int:
        return self.value * 10

    def other(self) -> Mode:
        return Mode.SLOW if self is Mode.FAST else Mode.FAST


class Access(enum.IntFlag):
    READ = 4
    WRITE = 2


class Label(str, enum.Enum):  # noqa: UP042  # as programs have it
    A = "a"


@dataclasses.dataclass(frozen=True)
class Key:
    name: str


class Registry:
    """One for the whole program, with a key that needs its own attributes to be hashed."""

    only: Any = None

    def __new__(cls) -> typing.Self:
        if cls.only is None:
            cls.only = super().__new__(cls)
            cls.only.known = {Key("x"): 1}
            cls.only.seen = {Key("y"), cls.only}
        return cls.only

    known: dict[Key, int]
    seen: set[Any]


class Config(dict[str, Any]):
    def __getattr__(self, name: str) -> Any:
        return self[name]


class Stack(list[int]):
    top = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Sizes:
    width: int
    names: tuple[str, ...] = ()


def test_values_of_libraries_come_back(tmp_path: Path) -> None:
    values = [
        re.compile(r"a(\d+)", re.IGNORECASE), pathlib.PurePosixPath("a/b"), dt.timedelta(2, 3), decimal.Decimal("1.50"),
        dt.datetime(2020, 1, 2, 3, tzinfo=dt.UTC), fractions.Fraction(1, 3), types.SimpleNamespace(rate=0.5),
        types.MappingProxyType({"a": 1}), bytearray(b"ab"), operator.itemgetter(1, 2), list[int], int | None, logging.getLogger("a.b"),
        logging.getLogger(), sys.stdout, torch.device("cpu"), torch.float16, torch.Size([1, 2]), torch.finfo(torch.float32),
        torch.ops.aten.sin.default, functools.partial(operator.add, 1), collections.Counter("aab"), Mode.SLOW, Access.READ | Access.WRITE,
        Label.A, Sizes(3, ("a",)), np.float32(1.5), np.bool_(True), np.dtype("int16"), threading.Event(), array.array("i", [1, 2]),
    ]  # fmt: skip
    _, made = back(tmp_path, helper, *values)

    for old, new in zip(values, made, strict=True):
        assert not isinstance(new, Placeholder), repr(new)
        assert (type(new).__qualname__, re.sub("0x.*", "", repr(new))) == (type(old).__qualname__, re.sub("0x.*", "", repr(old)))
    error, generator, lock = ValueError("a", 1), torch.Generator().manual_seed(7), threading.RLock()
    _, (again, drawing, free, cursor) = back(tmp_path, helper, error, generator, lock, io.StringIO("text"))
    assert (type(again), again.args, drawing.get_state().tolist() == generator.get_state().tolist()) == (ValueError, ("a", 1), True)
    assert free.acquire(blocking=False) and cursor.read() == "text"


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6).reshape(2, 3),
        np.arange(6.0).reshape(2, 3).T,
        np.array(["a", "bc"]),
        np.zeros((0, 2), np.uint8),
        np.array(1j),
        np.array([[1, "a"], [None, (2, 3)]], dtype=object).T,
        np.array(None, dtype=object),
        np.array([(1.5, [1, 2], b"x")], dtype=[("a", "f4"), ("b", ">i8", 2), ("c", "S3")]),
    ],
)
def test_arrays_come_back(tmp_path: Path, value: Any) -> None:
    _, (made,) = back(tmp_path, helper, value)

    np.testing.assert_array_equal(made, value)
    assert (made.dtype, made.flags.writeable) == (value.dtype, True) and (not value.size or made.strides == value.strides)


def test_arrays_of_what_cannot_be_kept_name_it(tmp_path: Path) -> None:
    fields = np.zeros(2, dtype=[("a", "O")])
    _, (held, made) = back(tmp_path, helper, np.array([1, STEPS], dtype=object), fields)

    assert held[0] == 1 and repr(held[1]).startswith("<not recorded: builtins.generator")
    assert isinstance(made, Placeholder)


def test_what_draws_random_numbers_goes_on_where_it_was(tmp_path: Path) -> None:
    kinds = (np.random.PCG64, np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.PCG64DXSM)
    drawing = [np.random.Generator(kind(3)) for kind in kinds]
    legacy, twin = np.random.RandomState(5), np.random.Generator(drawing[0].bit_generator)
    for each in (*drawing, legacy):
        each.normal(size=3)
    _, made = back(tmp_path, helper, *drawing, legacy, twin)

    assert made[0].bit_generator is made[-1].bit_generator
    for old, new in zip((*drawing, legacy, twin), made, strict=True):
        assert type(new) is type(old)
        np.testing.assert_array_equal(new.normal(size=5), old.normal(size=5))


SPARSE = {
    "coo": lambda: torch.tensor([[0.0, 2.0], [3.0, 0.0]]).to_sparse(),
    "uncoalesced": lambda: torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2)),
    "hybrid": lambda: torch.rand(2, 3, 2).to_sparse(1),
    "csr": lambda: torch.eye(3, dtype=torch.float64).to_sparse_csr(),
    "csc": lambda: torch.eye(3).to_sparse_csc(),
    "bsr": lambda: torch.rand(4, 4).to_sparse_bsr((2, 2)),
    "bsc": lambda: torch.rand(4, 4).to_sparse_bsc((2, 2)),
    "with gradients": lambda: torch.eye(2).to_sparse().requires_grad_(),
}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("kind", SPARSE)
def test_sparse_tensors_come_back(tmp_path: Path, kind: str) -> None:
    old = SPARSE[kind]()
    _, (new,) = back(tmp_path, helper, old)

    assert (new.layout, new.dtype, new.shape, new.requires_grad) == (old.layout, old.dtype, old.shape, old.requires_grad)
    assert old.layout is not torch.sparse_coo or new.is_coalesced() == old.is_coalesced()
    assert torch.equal(new.detach().to_dense(), old.detach().to_dense())


@pytest.mark.parametrize(
    "parts",
    [
        ("sparse", [torch.tensor([[0, 9]]), torch.ones(2), torch.Size([2]), False, False]),
        ("sparse", [torch.tensor([[1, 0]]), torch.ones(2), torch.Size([2]), True, False]),
        ("sparse compressed", [torch.tensor([0, 9]), torch.tensor([0]), torch.ones(1), torch.Size([1, 1]), torch.sparse_csr, False]),
        ("numpy.BitGenerator", ["seed", {}]),
        ("numpy.RandomState", [3, {}]),
        ("numpy.Generator", ["PCG64"]),
        ("numpy.ndarray", [[("a", "O")], (1,), "C", torch.zeros(8, dtype=torch.uint8)]),
    ],
    ids=lambda parts: parts[0],
)
@pytest.mark.filterwarnings("ignore:Sparse")
def test_parts_that_do_not_fit_make_nothing(parts: tuple[str, list[Any]]) -> None:
    name, given = parts
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        MAKERS[name](*given)


class Counting(type):
    made: list[str] = []

    def __new__(cls, name: str, bases: tuple[type, ...], space: dict[str, Any]) -> Counting:
        Counting.made.append(name)
        return super().__new__(cls, name, bases, {**space, "scale": 3})

    def __call__(cls, *given: Any) -> Any:
        made = super().__call__(*given)
        made.is_counted = True
        return made

    def __setattr__(cls, name: str, value: object) -> None:
        raise AttributeError(name)


class CountingAbstract(abc.ABCMeta):
    @property
    def title(cls) -> str:
        return cls.__name__.lower()


class Counted(metaclass=Counting):
    def scaled(self, x: Any) -> Any:
        return x * self.scale  # type: ignore[attr-defined]  # the metaclass gives it


class Figure(metaclass=CountingAbstract):
    @abc.abstractmethod
    def area(self) -> int: ...


class Tile(Figure):
    def area(self) -> int:
        return 4


def test_classes_with_a_metaclass_of_the_program_come_back(tmp_path: Path) -> None:
    Counting.made.clear()
    _, (counted, one, square, shape) = back(tmp_path, helper, Counted, Counted(), Tile(), Figure)

    assert Counting.made == []
    assert type(counted).__name__ == "Counting" and type(counted) is not Counting
    assert (counted.scale, one.scaled(2), one.is_counted, counted().is_counted) == (3, 6, True, True)
    with pytest.raises(AttributeError):
        counted.scale = 4
    assert (square.area(), type(square).title, shape.title) == (4, "tile", "figure")
    assert isinstance(square, shape)


def test_classes_of_a_program_come_back_with_what_they_are_for(tmp_path: Path) -> None:
    def reads(registry: Registry, config: Config, stack: Stack, mode: Mode, label: Label, ref: Any) -> Any:
        known = registry.known[Key("x")], Key("y") in registry.seen, registry in registry.seen, type(registry).only is registry
        return (
            *known,
            config.rate,
            config.extra,
            stack[0],
            len(stack),
            stack.top,
            mode.steps,
            mode.other().name,
            label == "a",
            ref() is stack,
        )

    config, stack = Config(rate=0.5), Stack([4, 5])
    config.__dict__["extra"] = 3
    stack.top = 9
    given = Registry(), config, stack, Mode.FAST, Label.A, weakref.ref(stack)

    fn, made = back(tmp_path, reads, *given)

    assert fn(*made) == reads(*given) == (1, True, True, True, 0.5, 3, 4, 2, 9, 10, "SLOW", True, True)
    assert type(made[0]) is not Registry


def test_frames_run_where_they_do_not_use_what_is_not_recorded(tmp_path: Path) -> None:
    class Holder:
        def __init__(self) -> None:
            self.log, self.steps, self.parts, self.rate = LOG, STEPS, {LOG: 1, "thread": threading.current_thread()}, 2

    def reads(holder: Holder, x: int) -> int:
        return holder.rate * x + len(holder.parts)

    fn, (holder, x) = back(tmp_path, reads, Holder(), 4)

    assert fn(holder, x) == 10


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3 * SCALE

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return gradient * x


def test_functions_with_gradients_of_their_own_come_back(tmp_path: Path) -> None:
    fn, (x,) = back(tmp_path, lambda x: Cube.apply(x).sum(), torch.tensor([2.0], requires_grad=True))

    result = fn(x)
    result.backward()

    assert (result.item(), x.grad.item()) == (24.0, 2.0)


def test_operators_that_a_program_defines_are_named(tmp_path: Path) -> None:
    library = torch.library.Library("recorded_here", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    path = tmp_path / "frame.rec"
    write(path, *save(lambda op, x: op(x) if x else x, (torch.ops.recorded_here.twice.default, 0), "", False))
    script = f"""
from pathlib import Path
from dynamo.recording.build import Builder
from dynamo.recording.format import read
frame = read(Path({str(path)!r}))
builder = Builder(frame)
fn, op, x = (builder.whole(n) for n in (frame.frame["function"], *frame.frame["inputs"]))
print(fn(op, x), op)
"""
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=120)

    said = "<not recorded: torch operator recorded_here.twice.default, which the program defines,>"
    assert done.stdout == f"0 {said}\n", done.stderr


def failing(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print(end="")
    return y


def recordings(tmp_path: Path, **options: Any) -> list[Path]:
    dynamo.reset()
    fn = dynamo.compile(failing, backend="eager", fullgraph=True)
    with dynamo.config.patch(replay_record_dir=str(tmp_path), **options), pytest.raises(dynamo.GraphBreakError) as caught, torch.no_grad():
        fn(torch.ones(3))
    notes = getattr(caught.value, "__notes__", [])
    files = sorted(tmp_path.glob("*"))
    assert notes == [
        f"Last frame execution written to {p}. To run only this frame while debugging, run dynamo.replay('{p}')." for p in files[:1]
    ]
    return files


def test_failed_capture_is_written_under_a_name_of_its_own_and_fails_again(tmp_path: Path) -> None:
    assert recordings(tmp_path) == []
    (path,) = recordings(tmp_path, replay_record_enabled=True)
    assert path.name == f"failing_GraphBreakError_{failing.__code__.co_firstlineno}.rec"

    grad = []
    with pytest.raises(dynamo.GraphBreakError, match="DD004"):
        dynamo.replay(path, lambda gm, inputs: grad.append(1))
    assert torch.is_grad_enabled(), "modes of the recording are left"
    assert len({p.name for p in [*tmp_path.glob("*")]}) == 1


def test_every_frame_is_kept_on_request_and_runs_with_its_result_and_modes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dynamo.reset()

    def drawing(x: torch.Tensor, bias: float = 0.5) -> tuple[torch.Tensor, bool]:
        return x + bias + torch.rand(3), torch.is_grad_enabled()

    fn = dynamo.compile(drawing, backend="eager")
    with dynamo.config.patch(replay_record_dir=str(tmp_path), replay_record_always=True), torch.no_grad():
        torch.manual_seed(3)
        want, on = fn(torch.ones(3), bias=0.25)
    (path,) = tmp_path.glob("*.rec")

    got, again = dynamo.replay(path)
    torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert [on, again] == [False, False]
    assert replay(path, show=True) == 0
    assert "\nerror: none\n" in capsys.readouterr().out


def test_rest_of_a_frame_behind_a_break_is_kept_too(tmp_path: Path) -> None:
    dynamo.reset()
    fn = dynamo.compile(failing, backend="eager")
    with dynamo.config.patch(replay_record_dir=str(tmp_path), replay_record_always=True):
        fn(torch.ones(3))
    paths = {read(p).title.partition(" ")[0]: p for p in tmp_path.glob("*.rec")}

    (rest,) = [p for name, p in paths.items() if name.startswith("failing__resume_at")]
    torch.testing.assert_close(dynamo.replay(rest), torch.full((3,), 2.0))
    torch.testing.assert_close(dynamo.replay(paths["failing"]), torch.full((3,), 2.0))


def test_folder_that_cannot_be_written_costs_the_program_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    dynamo.reset()
    options = dynamo.config.patch(replay_record_dir=str(tmp_path / "file" / "below"), replay_record_always=True)
    with options, dynamo.trace.session() as store:
        dynamo.compile(lambda x: x + 1, backend="eager")(torch.ones(2))

    assert [e.id for e in store.of(dynamo.trace.events.Note)] == ["DD097"]


def test_other_python_version_is_refused(tmp_path: Path) -> None:
    (path,) = recordings(tmp_path, replay_record_enabled=True)
    recording = read(path)
    recording.frame["versions"]["python"] = "3.1.4"
    write(path, recording.frame, recording.tensors)

    with pytest.raises(RecordingError, match=r"recorded under Python 3\.1; its bytecode runs there only"):
        dynamo.replay(path)


SCRIPT = """
import torch
from layers import shifted

@torch.compile(backend="eager", fullgraph=True)
def f(x):
    y = shifted(x)
    print("between")
    return y

f(torch.ones(3))
"""


def test_command_line_records_shows_and_replays_elsewhere(tmp_path: Path) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    elsewhere.mkdir()
    script_of(work, "OFFSET = 2\ndef shifted(x):\n    return x + OFFSET\n", "layers.py")
    done = run("record", script_of(work, SCRIPT), "--json", cwd=work)
    validate("record", json.loads(done.stdout))
    (file,) = json.loads(done.stdout)["files"]
    assert done.returncode == 1
    Path(file).rename(elsewhere / "frame.rec")
    for name in ("layers.py", "script.py"):
        (work / name).unlink()

    again = run("replay", "frame.rec", cwd=elsewhere)
    assert again.returncode == 1
    assert "[DD004]" in again.stdout + again.stderr
    assert " f  script.py:5 " in again.stdout
    assert sorted(p.name for p in elsewhere.iterdir()) == ["frame.rec"]
    validate("replay", json.loads(run("replay", "frame.rec", "--json", cwd=elsewhere).stdout))


def test_file_is_shown_without_running_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = recordings(tmp_path, replay_record_enabled=True)

    assert replay(path, show=True, as_json=True) == 0
    shown = json.loads(capsys.readouterr().out)
    validate("replay-show", shown)
    assert shown["frame"] == f"failing ({__file__}:{failing.__code__.co_firstlineno})"
    assert shown["error"].startswith("GraphBreakError: graph break under fullgraph=True")
    assert [shown["sources"], shown["not_recorded"]] == [[__file__], []]


def test_break_point_stops_in_the_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = recordings(tmp_path, replay_record_enabled=True)
    monkeypatch.setattr(sys, "stdin", io.StringIO("p y\nc\n"))

    result = dynamo.replay(path, lines=[failing.__code__.co_firstlineno + 2])

    said = capsys.readouterr().out
    assert "tensor([2., 2., 2.])" in said
    assert said.count("(Pdb)") == 2
    assert torch.equal(result, torch.full((3,), 2.0))


def test_integers_that_python_does_not_write_out(tmp_path: Path) -> None:
    large = (10**5000 + 1, -(10**5000), {10**4999: [2**1024, -(2**1023)]}, 0, -7)
    assert back(tmp_path, helper, large)[1] == [large]


def test_command_line_says_why_a_frame_was_not_recorded(tmp_path: Path) -> None:
    script = """\
import torch
open("recorded-frames", "w").close()
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(3))
"""
    done = run("record", "--always", script_of(tmp_path, script), cwd=tmp_path)
    assert done.stdout == ""
    assert "warning[DD097]: <lambda> could not be recorded: FileExistsError:" in done.stderr
    assert "no frame was recorded" not in done.stderr
