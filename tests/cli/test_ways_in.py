"""Ways in besides a file: modules, code, and what ends a command before anything runs."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.cli import command as command_module
from tests.cli.command import COMMAND, EMITTING, TIMEOUT, environment, run, write

ARGUMENTS = """
import sys, os
print(sys.argv, __name__, __package__, __spec__ and __spec__.name, sys.path[0] == os.getcwd() or sys.path[0])
"""


@pytest.mark.parametrize(
    "arguments",
    [("-m", "package.part", "one", "--two"), ("-m", "package", "x"), ("-c", ARGUMENTS, "one", "--two")],
    ids=["part", "package", "code"],
)
def test_a_module_and_code_run_as_under_python(arguments: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    for name in ("__init__", "__main__", "part"):
        write(tmp_path, "" if name == "__init__" else ARGUMENTS, f"package/{name}.py")
    plain = subprocess.run([sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True)
    done = run("trace", "-o", "rec", *arguments, cwd=tmp_path)

    assert done.returncode == 0
    assert done.stdout == plain.stdout


TELLING = """
import os, sys
main = sys.modules["__main__"]
print(__name__, __package__, __spec__ and __spec__.name, sys.argv, sys.path[0] == os.getcwd() or sys.path[0], type(__loader__))
print(getattr(main, "__file__", None), main.__spec__ and main.__spec__.name, main.__loader__ is __loader__, "torch" in sys.modules)
"""
PACKAGES = {
    "once/__init__.py": TELLING + "COUNT = [1]\n",
    "once/__main__.py": TELLING + "from . import COUNT, part\nfrom once.part import COUNT as same\nassert COUNT is same is part.COUNT\n",
    "once/part.py": TELLING + "from once import COUNT\n",
    "space/without/init/__main__.py": TELLING,
    "space/without/init/part.py": TELLING,
    "only/__init__.py": TELLING,
    "raising/__init__.py": TELLING + "raise ValueError('in it')\n",
    "raising/__main__.py": TELLING,
    "exiting/__init__.py": "import sys\nsys.exit('enough')\n",
    "exiting/__main__.py": TELLING,
    "lacking/__init__.py": "import nothing_of_that_name\n",
    "lacking/__main__.py": TELLING,
    "early/__init__.py": "from . import part\n",
    "early/part.py": TELLING,
    "extended/__init__.py": "import os\n__path__.append(os.path.join(os.getcwd(), 'elsewhere'))\n",
    "elsewhere/__main__.py": TELLING,
}


@pytest.mark.parametrize(
    "name, code",
    [
        ("once", 0),
        ("once.part", 0),
        ("once.__main__", 0),
        ("space.without.init", 0),
        ("space.without.init.part", 0),
        ("zipped", 0),
        ("early.part", 0),
        ("extended", 0),
        ("only", 1),
        ("once.nothing", 1),
        ("once.part.nothing", 1),
        ("once.py", 1),
        ("raising", 1),
        ("exiting", 1),
        ("lacking", 1),
        ("sys", 1),
    ],
)
def test_packages_of_a_module_run_once_and_as_under_python(name: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, text in PACKAGES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path, text, path)
    with zipfile.ZipFile(tmp_path / "packages.zip", "w") as packed:
        packed.writestr("zipped/__init__.py", TELLING)
        packed.writestr("zipped/__main__.py", TELLING)
    command = [sys.executable, "-m", name, "one", "--json"]
    path = os.pathsep.join((environment()["PYTHONPATH"], str(tmp_path / "packages.zip")))
    monkeypatch.setattr(command_module, "environment", lambda: environment() | {"PYTHONPATH": path})
    plain = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=command_module.environment())
    done = run("trace", "-o", "rec", *command[1:], cwd=tmp_path)

    assert (plain.returncode, done.returncode) == (code, code), done.stderr
    assert done.stdout == plain.stdout
    said = [line for line in plain.stderr.splitlines() if "<frozen runpy>" not in line]
    assert done.stderr.splitlines()[: len(said)] == said


def test_a_module_with_a_syntax_error_is_refused_before_its_package_runs(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    write(tmp_path, "print('ran')\n", "broken/__init__.py")
    write(tmp_path, "def f(:\n", "broken/__main__.py")
    done = run("trace", "-o", "rec", "-m", "broken", cwd=tmp_path)

    assert done.returncode == 2
    assert "error[CL004]" in done.stderr and "__main__.py:1" in done.stderr
    assert "ran" not in done.stdout


@pytest.mark.parametrize("script", ["app", "./app/", "app.pyz"])
def test_a_folder_or_zip_file_with_a_main_runs_as_under_python(script: str, tmp_path: Path) -> None:
    text = "import sys\nfrom part import VALUE\nprint(sys.argv, sys.path[0], __file__, __name__, repr(__package__), __spec__.name, VALUE)\n"
    for folder in ("app", "zipped"):
        (tmp_path / folder).mkdir()
        write(tmp_path, text, f"{folder}/__main__.py")
        write(tmp_path, "VALUE = 3\n", f"{folder}/part.py")
    shutil.make_archive(str(tmp_path / "app"), "zip", tmp_path / "zipped")
    (tmp_path / "app.zip").rename(tmp_path / "app.pyz")
    plain = subprocess.run([sys.executable, script, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    done = run("trace", "-o", "rec", script, "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout


@pytest.mark.parametrize(
    "words", [["-m", "this"], ["{}/script.py"], ["-c", "import sys; print(sys.path[0])"]], ids=["module", "file", "code"]
)
def test_a_program_runs_in_a_folder_that_is_deleted(words: list[str], tmp_path: Path) -> None:
    write(tmp_path, "import sys\nprint(sys.argv, sys.path[0])\n")
    words = [word.format(tmp_path) for word in words]
    gone = f"import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); sys.argv[1:] = {words!r}\n"
    plain = subprocess.run(
        [sys.executable, "-c", f"{gone}os.execv(sys.executable, [sys.executable, *{words!r}])"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    called = f"{gone}from tui.main import main; main(['trace', '-o', {str(tmp_path / 'rec')!r}, *sys.argv[1:]])"
    command = [sys.executable, "-P", "-c", called]  # looks for no modules in the current folder, as the installed command
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False, timeout=TIMEOUT)

    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout


def test_standard_input_runs_as_under_python(tmp_path: Path) -> None:
    text = "import sys\nprint(sys.argv, sys.path[0], __file__, __name__, __package__, __spec__, type(__loader__), __cached__)\n"
    plain = subprocess.run([sys.executable, "-", "x"], cwd=tmp_path, input=text, capture_output=True, text=True, check=True)
    command = [*COMMAND, "trace", "-o", "rec", "-", "x"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), input=text, capture_output=True, text=True, check=False, timeout=TIMEOUT
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout


def test_a_module_that_is_not_there_is_named_as_python_names_it(tmp_path: Path) -> None:
    plain = subprocess.run([sys.executable, "-m", "nowhere.at_all"], cwd=tmp_path, capture_output=True, text=True, check=False)
    done = run("trace", "-o", "rec", "-m", "nowhere.at_all", cwd=tmp_path)

    assert done.returncode == 2
    assert "error[CL001]: -m nowhere.at_all: no such module" in done.stderr
    assert "No module named" in plain.stderr
    assert not (tmp_path / "rec").exists()


OPTIONS = """
import sys, warnings
print(sys.flags, sys.warnoptions, sys._xoptions, sys.orig_argv, sys.argv, __debug__, sys.stdout.write_through)
try:
    warnings.warn("old", DeprecationWarning)
except DeprecationWarning as e:
    print("raised", e)
"""


@pytest.mark.parametrize(
    "given",
    [
        "-W error",
        "-Werror::DeprecationWarning -Xdev",
        "-X utf8 -O",
        "-OO -u",
        "-uBW error",
        "-I",
        "-E -s",
        "-bb -P",
        "-X frozen_modules=off",
    ],
)
def test_options_of_python_reach_the_interpreter_of_the_script(given: str, tmp_path: Path) -> None:
    write(tmp_path, OPTIONS)
    words = [*given.split(), "script.py", "-W", "-O"]
    plain = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
    done = run("trace", "-o", "rec", *words, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout == plain.stdout


@pytest.mark.parametrize("words", [["-W"], ["-uX"], ["-i", "script.py"], ["--python"]])
def test_options_that_python_would_not_take_so_are_refused(words: list[str], tmp_path: Path) -> None:
    write(tmp_path, "print('ran')\n")
    done = run("explain", *words, cwd=tmp_path)

    assert done.returncode == 2
    assert "CL034" in done.stderr and "ran" not in done.stderr


@pytest.mark.parametrize("variable", ["DYNAMO_LOGS=foo", "DYNAMO_RECOMPILE_LIMIT=abc"])
def test_variables_that_nothing_can_read_end_before_the_script_starts(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, value = variable.split("=")
    monkeypatch.setenv(name, value)
    write(tmp_path, "print('ran')\n")
    done = run("explain", "script.py", cwd=tmp_path)

    assert done.returncode == 2
    assert f"error[CL016]: {name}" in done.stderr
    assert "ran" not in done.stderr


FORKING = (
    EMITTING
    + """
import os
pid = os.fork()
if not pid:
    emit(ev.CompileStarted("1/0", "g", me, 4))
    emit(ev.CompileEnded("1/0", "ok"))
    os._exit(0)
os.waitpid(pid, 0)
"""
)


def test_what_a_forked_process_compiles_stands_beside_the_scripts_own(tmp_path: Path) -> None:
    write(tmp_path, FORKING)
    value = json.loads(run("explain", "--json", "script.py", cwd=tmp_path).stdout)
    (process,) = value["processes"]

    assert process["compiles"] == 1 and process["rank"] == -1
    assert process["key"] == f"p{process['pid']}."
    assert [c["id"] for f in value["frames"] for c in f["compiles"]] == ["0/0", f"{process['key']}1/0"]


WAITING = (
    EMITTING
    + """
import signal, time
def stop(number, frame):
    print("handled", number, flush=True)
    raise SystemExit(9)
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGHUP, stop)
print("ready", flush=True)
time.sleep(60)
"""
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_reach_the_script_and_its_own_code_stays(number: signal.Signals, tmp_path: Path) -> None:
    write(tmp_path, WAITING)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    env = {**environment(), "TMPDIR": str(temporary)}
    command = [*COMMAND, "trace", "script.py", "-o", "rec"]
    process = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # the tests may run under nohup
    )
    assert process.stdout is not None
    while process.stdout.readline() != "ready\n":
        time.sleep(0.01)
    os.kill(process.pid, number)
    rest = process.stdout.read()

    assert process.wait(TIMEOUT) == 9
    assert rest == f"handled {int(number)}\n"
    assert list(temporary.iterdir()) == []
