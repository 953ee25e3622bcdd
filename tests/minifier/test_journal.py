"""The journal: what it keeps, and what it says of files that are none."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minifier.engine import Journal, JournalError, Keep, Kind, Rule, Signature, Verdict
from minifier.engine.journal import Answer
from minifier.engine.signature import chain_of, exception_names, normalised
from tests.minifier.toys import NumberList, shrink
from tests.special import SPECIAL, bounded

SIGNATURES = st.builds(
    Signature,
    st.sampled_from(Kind),
    st.lists(st.text(), max_size=3).map(tuple),
    st.text(),
    st.text(),
    st.integers(-64, 255),
    st.text(),
    st.text(),
)


@settings(max_examples=20)
@given(signature=st.none() | SIGNATURES, verdict=st.sampled_from(Verdict), detail=st.text())
def test_answers_come_back(tmp_path_factory: pytest.TempPathFactory, signature: Signature | None, verdict: Verdict, detail: str) -> None:
    path = tmp_path_factory.mktemp("journal") / "j"
    answer = Answer(verdict, signature, detail.encode(errors="replace").decode())
    journal = Journal(path, "a")
    journal.record("key", answer)
    journal.close()
    again = Journal(path, "a", resume=True)

    assert again.answer("key") == answer
    assert again.answer("other") is None
    again.close()


def test_journal_of_another_reduction_is_refused(tmp_path: Path) -> None:
    Journal(tmp_path / "j", "one").close()
    with pytest.raises(JournalError, match="belongs to another reduction"):
        Journal(tmp_path / "j", "two", resume=True)


@pytest.mark.parametrize("content", [b"no journal at all, but long enough to be one" * 30, b"SQLite format 3\0" + b"\xff" * 3000])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "j").write_bytes(content)
    with pytest.raises(JournalError, match="j: is not a journal"):
        Journal(tmp_path / "j", "one", resume=True)


@settings(max_examples=25)
@given(cut=st.integers(0, 40000), garbage=st.binary(max_size=200))
def test_damaged_journals_are_refused_or_read(tmp_path_factory: pytest.TempPathFactory, cut: int, garbage: bytes) -> None:
    path = tmp_path_factory.mktemp("journal") / "j"
    whole = shrink(NumberList(), tuple(range(30)), lambda s: 7 in s and 9 in s, journal=path)
    data = path.read_bytes()
    path.write_bytes(data[:cut] + garbage + data[cut + len(garbage) :])
    try:
        again = shrink(NumberList(), tuple(range(30)), lambda s: 7 in s and 9 in s, journal=path, resume=True)
    except JournalError:
        return
    assert again.state == whole.state or garbage


IN_THE_WAY: dict[str, Callable[[Path], None]] = {
    "a pipe": SPECIAL["it is a pipe, not a file"],
    "a socket": SPECIAL["it is a socket, not a file"],
    "a folder": lambda path: path.mkdir(),
    "a link": lambda path: path.symlink_to("elsewhere"),
}


@pytest.mark.parametrize("name", ["j", "j-wal"])
@pytest.mark.parametrize("says", IN_THE_WAY)
def test_what_is_no_file_is_not_gone_on_with(tmp_path: Path, says: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Journal(tmp_path / "j", "one").close()
    (tmp_path / "j").rename(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    IN_THE_WAY[says](tmp_path / name)
    with bounded(), pytest.raises(JournalError, match=f"{name}: is no file but {says}; remove it"):
        Journal(tmp_path / "j", "one", resume=True)
    with contextlib.ExitStack() as stack:
        if says == "a folder":
            stack.enter_context(pytest.raises(JournalError, match=f"{name}: can't be removed"))
        with bounded():
            Journal(tmp_path / "j", "one").close()
        Journal(tmp_path / "j", "one", resume=True).close()
    assert (tmp_path / "elsewhere").read_bytes() == before


def test_row_that_nobody_wrote_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "j"
    Journal(path, "one").close()
    with sqlite3.connect(path) as db:
        db.execute("insert into answers values ('key', 'no such verdict', null, '')")
    with pytest.raises(JournalError, match="damaged"):
        Journal(path, "one", resume=True).answer("key")


def test_smallest_candidate_of_another_failure_is_kept() -> None:
    journal, failure = Journal(None, "one"), Signature(Kind.SIGNAL, code=11)

    assert journal.file_other(failure, "long", 5)
    assert not journal.file_other(failure, "short", 1)
    assert not journal.file_other(failure, "longer", 4)
    assert journal.others() == {failure: "short"}


@pytest.mark.parametrize(
    "one, two",
    [
        ("shape [2, 3] at 0x7f12 of relu_12", "shape [4, 5, 6] at 0x88 of relu_7"),
        ("/tmp/a/b/kernel.c:12: error: v3", "/home/x/kernel.c:9: error: v3"),
        ("got 1.5e-3 for (1,)", "got 2 for (3,)"),
        ("two\n  lines", "two lines"),
        ('KeyError: lost\n\nfrom user code:\n   File "a.py", line 3, in f\n    return x.sin()\n\nSet ...', "KeyError: lost"),
        ("KeyError: lost\n\nSet TORCHDYNAMO_VERBOSE=1 for the internal stack trace (please do", "KeyError: lost"),
    ],
)
def test_messages_are_compared_without_what_changes(one: str, two: str) -> None:
    assert normalised(one) == normalised(two)
    assert normalised(one) != normalised("something else")


OF_GCC = """the C compiler failed with exit code 1: 'v5' undeclared [DI001]
/tmp/dynamo-build-x1/unit.c: In function 'k0_part':
/tmp/dynamo-build-x1/unit.c:12:47: warning: unused variable 'a'
/tmp/dynamo-build-x1/unit.c:171:47: error: 'v5' undeclared (first use in this function)
  171 |   const float v6 = v5;
/tmp/dynamo-build-x1/unit.c:180:1: error: another
  /usr/bin/gcc -O3 -o /tmp/dynamo-build-x1/unit.so /tmp/dynamo-build-x1/unit.c
"""
OF_GPP = """C++ compile error

Command:
g++ /tmp/torchinductor_me/ab/cab.main.cpp -O3 -o /tmp/torchinductor_me/ab/cab.main.so

Output:
/tmp/torchinductor_me/ab/cab.main.cpp: In function ‘void cpp_fused_relu_0(const float*, float*)’:
/tmp/torchinductor_me/ab/cab.main.cpp:12:30: error: ‘compile_error’ was not declared in this scope
"""


@pytest.mark.parametrize(
    "message, expected",
    [
        (OF_GCC, "k_part: error: 'v' undeclared (first use in this function)"),
        (
            OF_GCC.replace("k0", "k13").replace("x1", "yz").replace("v5", "v11"),
            "k_part: error: 'v' undeclared (first use in this function)",
        ),
        (OF_GPP, "cpp_fused_relu: error: ‘compile_error’ was not declared in this scope"),
        ("unit.c:3:1: fatal error: no_such.h: No such file", "error: no_such.h: No such file"),
        ("/usr/bin/cc1plus: error: bad value for '-march='", "error: bad value for '-march='"),
        ("train.py: error: unrecognized arguments: -x", "train.py: error: unrecognized arguments: -x"),
    ],
)
def test_compile_error_is_the_first_that_the_compiler_names(message: str, expected: str) -> None:
    """Not its command line, which is the same of every failure. What is kept must stand in the message, as repros look for its words."""
    assert normalised(message) == expected


ERROR = Signature(Kind.EXCEPTION, ("RuntimeError",), "a message", "lower")


@pytest.mark.parametrize(
    "found, loose, standard, exact",
    [
        (ERROR, True, True, True),
        (Signature(Kind.EXCEPTION, ("RuntimeError",), "another", "lower"), True, True, False),
        (Signature(Kind.EXCEPTION, ("RuntimeError",), "a message", "elsewhere"), True, True, False),
        (Signature(Kind.EXCEPTION, ("RuntimeError",), "another", "elsewhere"), True, False, False),
        (Signature(Kind.EXCEPTION, ("ImportError",), "a message", "lower"), False, False, False),
        (Signature(Kind.SIGNAL, code=11), False, False, False),
    ],
)
def test_how_much_is_kept(found: Signature, loose: bool, standard: bool, exact: bool) -> None:
    assert [Rule(keep).holds(ERROR, found) for keep in (Keep.LOOSE, Keep.STANDARD, Keep.EXACT)] == [loose, standard, exact]
    assert Rule(Keep.REGEX, "^a mess").holds(ERROR, found) == (found.kind is ERROR.kind and found.message == "a message")


def test_chain_of_an_exception() -> None:
    inner, outer = KeyError("inner"), sqlite3.DataError("outer")
    outer.__cause__ = inner

    assert exception_names(chain_of(outer)) == ("sqlite3.DataError", "KeyError")
