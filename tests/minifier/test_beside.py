"""What a part of a program takes with it: its modules, and of a package names that need none."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynamo.peer.located import NoSuchModule
from minifier.beside import copy_beside, modules_beside
from minifier.programs import absolute, program
from tests.cli.command import write


def files(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = folder / (name.replace("__S__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("import helper", ["deeper.py", "helper.py"]),
        ("from helper import x", ["deeper.py", "helper.py"]),
        ("import pkg.part", ["pkg/__init__.py", "pkg/other.py", "pkg/part.py"]),
        ("from pkg import part, NAME", ["pkg/__init__.py", "pkg/other.py", "pkg/part.py"]),
        ("import space.inner", ["space/inner.py"]),
        ("import torch, os, json.decoder", []),
        ("def f():\n    import helper", ["deeper.py", "helper.py"]),
        ("this is no Python", []),
    ],
)
def test_modules_of_the_folder_and_what_they_import(tmp_path: Path, text: str, expected: list[str]) -> None:
    files(tmp_path, helper="import deeper", deeper="import helper", torch="1", unread="1")
    files(
        tmp_path, pkg__S____init__="NAME = 1", pkg__S__part="from . import other", pkg__S__other="from .part import x", space__S__inner=""
    )

    assert modules_beside(text, tmp_path) == expected
    copy_beside(text, tmp_path, tmp_path / "out")
    assert sorted(p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.py")) == expected


@pytest.mark.parametrize(
    "text, expected",
    [
        ("from . import a", "from pkg.sub import a"),
        ("from .. import a", "from pkg import a"),
        ("from .b.c import (\n    d,\n)", "from pkg.sub.b.c import (\n    d,\n)"),
        ("é = 1; from . import a; from .b import c", "é = 1; from pkg.sub import a; from pkg.sub.b import c"),
        ("from \\\n  .b import c", "from pkg.sub.b import c"),
        ("print(__package__, '__package__')", "print('pkg.sub', '__package__')"),
        ("from os import path  # from . import", "from os import path  # from . import"),
    ],
)
def test_text_of_a_module_without_its_package(text: str, expected: str) -> None:
    assert absolute(text, "pkg.sub") == expected


def test_modules_are_found_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files(tmp_path, pkg__S____init__="raise SystemExit", pkg__S____main__="from . import a", pkg__S__part="", alone="")
    monkeypatch.chdir(tmp_path)

    found = program("-m", ("pkg", "x"))
    assert (found.path, found.folder, found.args, found.package) == (tmp_path / "pkg" / "__main__.py", tmp_path, ("x",), "pkg")
    assert found.text() == "from pkg import a"
    assert (program("-m", ("pkg.part",)).package, program("-m", ("alone",)).package) == ("pkg", "")
    for name in ("pkg.nothing", "nothing", "alone.part", "pkg..part", "sys"):
        with pytest.raises(NoSuchModule, match=f"^{name}: no such module"):
            program("-m", (name,))


def test_script_is_taken_as_it_is(tmp_path: Path) -> None:
    found = program(str(tmp_path / write(tmp_path, "from . import a\n")), ("--x",))
    assert (found.text(), found.folder, found.args) == ("from . import a\n", tmp_path, ("--x",))
