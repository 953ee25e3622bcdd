"""Values that a command cannot use: one line that names the value and the way out, exit code 2, nothing run and nothing left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import run, write

SCRIPT = """
import torch
print("it ran")
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
"""
NOT_PRINTABLE = "\udcff"
# (arguments, what the line on stderr begins with; in the folder are script.py, an empty folder `empty` and `garbage`, which is no text,
# and raises.py, a module that can't be imported)
ROWS = (
    ("explain garbage", "error[CL003]: garbage: is not Python source: it holds null bytes; name a script"),
    ("explain empty", "error[CL002]: empty: is a folder; name a Python file in it"),
    (f"explain {NOT_PRINTABLE}.py", "error[CL001]: \\udcff.py: no such file"),
    ("explain -m", "error[CL008]: -m: name what to run, as for python -m"),
    ("explain --graph 9/9 record", "error[CL006]: 9/9: no such graph (captured: "),
    ("graphs --graph -1 record", "error[CL006]: -1: no such graph (captured: "),
    ("guards --graph 99999999999999999999/0 record", "error[CL006]: 99999999999999999999/0: no such graph (captured: "),
    ("explain --stage nope record", "error[CL013]: nope: no such stage (stages: "),
    ("explain --code DD999999", "error[CL005]: DD999999: unknown id; "),
    ("explain --engine tourch script.py", "error[CL010]: tourch: no such engine; choose dynamo or torch"),
    ("explain --backend eagr script.py", "error[CL012]: eagr: no such backend; did you mean eager or aot_eager?"),
    ("compare record garbage", "error[CL007]: garbage: no such record; write one with "),
    ("export record --to dott", "error[CL011]: dott: no such format"),
    ("export record -o garbage/x", "error[CL007]: garbage/x: cannot be written: Not a directory"),
    ("trace script.py -o garbage", "error[CL007]: garbage: exists and is not a folder; choose another name"),
    ("minify script.py -o garbage", "error[CL032]: garbage: cannot be written: it is a file; choose another folder with -o"),
    ("minify script.py -o garbage/x", "error[CL032]: garbage/x: cannot be written: Not a directory"),
    ("minify script.py --backend eagr", "error[CL012]: eagr: no such backend; did you mean eager or aot_eager?"),
    ("minify script.py --after auott", "error[CL013]: --after auott: unknown; did you mean "),
    ("minify script.py --keep-signature lose", "error[CL017]: --keep-signature lose: unknown; did you mean loose?"),
    ("minify script.py --oracle ./none", "error[CL020]: --oracle ./none: there is no command ./none"),
    ("bisect script.py --backend eagr", "error[CL012]: eagr: no such backend; did you mean eager or aot_eager?"),
    ("bisect script.py --device cpuu", "error[CL031]: --device cpuu: no such device; did you mean cpu?; devices are cpu"),
    ("sanitize --kernels gpu script.py", "error[CL013]: --kernels gpu: unknown; it is cpu or cuda"),
    ("record script.py -o garbage", "error[CL032]: garbage: cannot be written: it is a file; choose another folder with -o"),
    ("replay empty", "error[CL001]: empty: is a folder; name a file in it"),
    ("replay garbage", "error[CL030]: garbage: not a recorded frame"),
    ("run garbage", "error[CL021]: garbage: not a bundle"),
    ("run script.py", "error[CL021]: script.py: a script and no repro, which has a repro.json beside it; `explain` runs scripts"),
    *(
        (f"{command} --forse script.py", "error[CL034]: --forse: no such option; those of the script stand behind SCRIPT")
        for command in ("minify", "bisect", "profile")
    ),
    ("run repro.py", "error[CL001]: repro.py: no such file"),
    ("fuzz --time soon", "error[CL035]: --time soon: not a time; write it as 90s, 10m or 8h"),
    ("fuzz --kinds tensor", "error[CL035]: --kinds tensor: unknown; did you mean tensors?"),
    ("fuzz --backend nowhere:f", "error[CL012]: --backend nowhere:f: No module named 'nowhere'; an import in "),
    ("fuzz --backend raises:f", "error[CL012]: --backend raises:f: its module raises KeyError: 'nope' (raises.py:1); an import in "),
    ("fuzz --backend :f", "error[CL012]: --backend :f: unknown backend ':f': no module is named"),
    ("minify script.py --backend lacks:f", "error[CL012]: --backend lacks:f: No module named 'nowhere' (lacks.py:2); an import in "),
    ("minify script.py --backend raises:f --engine torch", "error[CL012]: --backend raises:f: its module raises KeyError: 'nope' (rai"),
    ("bisect script.py --backend lacks:f", "error[CL012]: --backend lacks:f: No module named 'nowhere' (lacks.py:2); an import in "),
    ("explain --backend lacks:f script.py", "error[CL012]: --backend lacks:f: No module named 'nowhere' (lacks.py:2); an import in "),
    ("profile --backend ends:f script.py", "error[CL012]: --backend ends:f: its module ends the process with 7; an import in "),
    ("explain --backend json:f script.py", "error[CL012]: --backend json:f: module 'json' has no attribute 'f'; an import in "),
    *(
        (f"{command} -m package.nope", "error[CL001]: -m package.nope: no such module; it is looked up in ")
        for command in ("explain", "minify", "bisect", "profile", "trace -o r")
    ),
    *(
        (f"{command} -m package", "error[CL001]: -m package: no such module, for there is no package.__main__; it is looked up in ")
        for command in ("explain", "minify")
    ),
    ("explain -m empty", "error[CL001]: -m empty: no such module, for there is no empty.__main__; it is looked up in "),
    ("fuzz -o garbage/x", "error[CL032]: garbage/x: cannot be written: Not a directory"),
    ("corpus run -o garbage/x wrong_lowering", "error[CL032]: garbage/x: cannot be written: Not a directory"),
    ("cache clean", "error[CL014]: clean: "),
    ("corpus show nothing", "error[CL025]: corpus: no case nothing; "),
)
# Numbers are refused by the parser of options.
NUMBERS = (
    "minify --jobs -1",
    "minify --time-limit nan",
    "bisect --draws 0",
    "profile --limit -5",
    "run --times 0",
    "fuzz --seed -1",
    "fuzz --jobs x",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, SCRIPT)
    (tmp_path / "garbage").write_bytes(bytes(range(256)) * 8)
    (tmp_path / "empty").mkdir()
    (tmp_path / "raises.py").write_text("{}['nope']\n")
    (tmp_path / "lacks.py").write_text("print('loading')\nimport nowhere\n")
    (tmp_path / "ends.py").write_text("import os\nos._exit(7)\n")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    return tmp_path


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("made")
    write(made, SCRIPT)
    run("trace", "-o", "record", "script.py", cwd=made)
    return made / "record"


@pytest.mark.parametrize("arguments, line", ROWS, ids=[row[0].encode("ascii", "backslashreplace").decode() for row in ROWS])
def test_one_line_says_what_is_wrong(arguments: str, line: str, folder: Path, record: Path) -> None:
    (folder / "record").symlink_to(record)
    before = sorted(folder.rglob("*"))
    done = run(*arguments.split(), cwd=folder)

    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"dynamo-debug: {line}")
    assert done.stderr.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


def test_a_graph_that_bisect_does_not_meet(folder: Path) -> None:
    done = run("bisect", "script.py", "--graph", "7/7", cwd=folder)

    assert done.returncode == 2
    assert done.stderr.endswith("dynamo-debug: error[CL006]: --graph 7/7: no such graph; graphs are 0/0\n")


@pytest.mark.parametrize("arguments", NUMBERS)
def test_numbers_out_of_range(arguments: str, folder: Path) -> None:
    command, option, value = arguments.split()
    done = run(command, *([] if command == "fuzz" else ["script.py"]), option, value, cwd=folder)

    assert done.returncode == 2
    assert f"Error: Invalid value for '{option}'" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
