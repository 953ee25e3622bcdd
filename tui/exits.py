"""Exit codes, the same for every command."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """`EXIT_HELP` is the text `--help` and docs/cli.md show."""

    OK = 0
    FINDING = 1
    USAGE = 2
    TOOL = 3
    NOT_REPRODUCED = 4
    FLAKY = 5
    INTERRUPTED = 130


MEANINGS: dict[Exit, str] = {
    Exit.OK: "ok",
    Exit.FINDING: (
        "a finding: a graph break with --fail-on-break, a repro of `minify` or `fuzz`, wrong numbers of `bisect`, "
        "faults of `sanitize`; also an exception the script did not catch"
    ),
    Exit.USAGE: "wrong usage: no such script, a syntax error in it, an unknown id, a place that is taken",
    Exit.TOOL: "dynamo-debug itself failed; or a check of `verify` did",
    Exit.NOT_REPRODUCED: (
        "`minify` or `bisect` saw a failure and could not make it happen again, or could not look at a graph; "
        "or `run` does not show the failure of a repro"
    ),
    Exit.FLAKY: "a repro of `minify` or `run`, or wrong numbers of `bisect`, that show in some runs and not in others",
    Exit.INTERRUPTED: "interrupted with Ctrl-C",
}

SIGNAL_BASE = 128
SCRIPT_RULE = (
    "a script that calls sys.exit(N) passes its N on, and one killed by signal S ends with 128+S; "
    "a line on stderr says that it was the script"
)
EXIT_HELP = "exit codes: " + "; ".join(f"{code.value} {text}" for code, text in MEANINGS.items()) + ". " + SCRIPT_RULE + "."
