"""Running a script in eager and keeping every graph that it would compile, with the values it is called with first.

    python -m minifier.record FOLDER dynamo|torch dynamo|aot BACKEND SCRIPT|-m NAME [ARGS]...

The first word says whose compiler, the second which graphs. Nothing is compiled, so no fault of a compiler of graphs can end the script
before all graphs are there. BACKEND '' is what the script asks for.
"""

from __future__ import annotations

import gc
import json
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamo.peer.after_import import AfterImport
from dynamo.surroundings.parent import end_with_parent
from minifier import children, stands
from minifier.isolation.standing import tell_parent_when_asked
from minifier.programs import run_as_main

if TYPE_CHECKING:
    from minifier.recorder import Recorder

END = "end"  # the file that says how the script ended


def main() -> None:
    end_with_parent()
    tell_parent_when_asked()
    folder, engine, after, wanted = sys.argv[1:5]
    children.take_part("minifier.record:begin", sys.argv[5:], folder=folder, engine=engine, after=after, wanted=wanted)
    _record(folder, engine, after, wanted)
    end: dict[str, Any] = {"error": "", "code": 0}
    try:
        run_as_main(sys.argv[5:])
    except SystemExit as e:
        end["code"] = e.code if isinstance(e.code, int) else int(e.code is not None)
        raise
    except BaseException as e:
        end = {"error": traceback.format_exception_only(e)[-1].strip(), "code": 1}
        raise
    finally:
        end["internal_errors"] = children.internal()
        Path(folder, END).write_text(json.dumps(end))


def begin(request: dict[str, Any]) -> None:
    """The beginning of a process that the script has started: its graphs are kept beside those of the script."""
    children.begun(request)
    _record(request["folder"], request["engine"], request["after"], request["wanted"])


def _record(folder: str, engine: str, after: str, wanted: str) -> None:
    made: list[Recorder] = []

    def recorder() -> Recorder:
        from minifier.recorder import Recorder  # noqa: PLC0415  # loads torch, which the script may want to prepare first

        if not made:
            made.append(Recorder(Path(folder), engine, after, wanted))
        return made[0]

    stands.of(engine).record(recorder, after, wanted)
    sys.meta_path.insert(0, AfterImport("torch", gc.freeze))  # Python would look through it for garbage three times at its end


if __name__ == "__main__":
    main()
