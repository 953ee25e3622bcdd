"""What a part of a program takes with it: its modules, and of a package names that need none."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from dynamo.peer.located import NoSuchModule
from minifier.beside import MOST_FILES, copy_beside, copy_data, data_beside, modules_beside, naming
from minifier.engine import Kind, Signature
from minifier.programs import absolute, program
from minifier.scripts.oracle import ScriptSetting
from minifier.scripts.repro import write_script
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


def test_a_package_with_compiled_parts_stays_where_it_is(tmp_path: Path) -> None:
    files(tmp_path, helper="import built, plain", plain="", built__S____init__="from .deep import part", built__S__deep__S__part="")
    (tmp_path / "built" / "deep" / f"part{EXTENSION_SUFFIXES[0]}").touch()

    assert modules_beside("import helper", tmp_path) == ["helper.py", "plain.py"]


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


def test_data_that_a_script_names_goes_with_it(tmp_path: Path) -> None:
    here, there, out = tmp_path / "here", tmp_path / "there", tmp_path / "out"
    for file in ("rows.csv", "parts/a.bin", "parts/b/c.bin", "other.csv", ".hidden", "args.json"):
        for folder in (here, there):
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(f"{folder.name} {file}")
    (there / "only.txt").write_text("there")
    script = "open('./rows.csv'); f'parts/{n}.bin'; open('.hidden'); x = 'only.txt'; '../..'; '/'; '\\0'; '" + "n" * 5000 + "'"

    copy_data(naming(script, ("--config", "args.json")), [here, there], out)

    found = {p.relative_to(out).as_posix(): p.read_text() for p in out.rglob("*") if p.is_file()}
    expected = {name: f"here {name}" for name in ("rows.csv", "parts/a.bin", "parts/b/c.bin", "args.json")}
    assert found == {**expected, "only.txt": "there"}


def test_much_data_stays_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    for n in range(MOST_FILES + 1):
        (tmp_path / "rows" / str(n)).touch()

    assert data_beside("open('rows/1')", tmp_path) == []
    assert data_beside("no Python", tmp_path) == []


@pytest.mark.parametrize(
    "data, expected",
    [
        (b"x = 1", "x = 1"),
        (b"", ""),
        (b"# coding: latin-1\nx = '\xf6'\n", "\nx = 'ö'\n"),
        (b"#!/usr/bin/python\r\n# -*- coding: cp1252 -*-\r\nx = '\x80'\r\n", "#!/usr/bin/python\n\nx = '€'\n"),
        (b"x = 1\n# coding: latin-1\n", "x = 1\n# coding: latin-1\n"),
        (b"\xef\xbb\xbfx = '\xc3\xb6'\n", "x = 'ö'\n"),
    ],
)
def test_source_is_read_as_python_reads_it(data: bytes, expected: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_bytes(data)

    assert program(str(tmp_path / "script.py"), ()).text() == expected


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfimport deeper\n", b"# coding: latin-1\nimport deeper\n'\xf6'\n"])
def test_what_modules_in_other_encodings_import_is_found(data: bytes, tmp_path: Path) -> None:
    files(tmp_path, deeper="")
    (tmp_path / "helper.py").write_bytes(data)

    assert modules_beside("import helper", tmp_path) == ["deeper.py", "helper.py"]


def test_the_repro_of_a_script_has_the_backend_that_the_command_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("program", "here"):
        (tmp_path / name).mkdir()
    files(tmp_path / "program", near="import nearer", nearer="")
    files(tmp_path / "here", near="", far="")
    monkeypatch.chdir(tmp_path / "here")
    for backend, expected in (("near:compiler", ["near.py", "nearer.py"]), ("far:compiler", ["far.py"]), ("inductor", [])):
        out = tmp_path / backend
        setting = ScriptSetting("script.py", str(tmp_path / "program"), backend=backend)
        write_script("import torch\n", setting, Signature(Kind.EXIT, code=1), out)
        assert sorted(p.name for p in out.iterdir() if p.name != "repro.py") == expected
