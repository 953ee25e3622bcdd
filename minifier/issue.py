"""The text of an issue, in Markdown, about a failure with a certified repro."""

from __future__ import annotations

from minifier.bundle import Manifest

_LINES = 400  # of a script that is shown whole


def issue_text(manifest: Manifest, script: str, culprit: str = "") -> str:
    """What a maintainer needs: the failure, a script that shows it, how often it does, versions."""
    signature = manifest.signature
    where = f"stage `{manifest.stage}`" + (f", graph `{manifest.graph}`" if manifest.graph else "")
    where += f", in {culprit}" if culprit else ""
    hits, runs = manifest.rate
    rows = "".join(f"| {name} | {version} |\n" for name, version in manifest.versions.items())
    fence = "`" * max(3, _longest_fence(script) + 1)
    lines = script.rstrip("\n").split("\n")
    shown = "\n".join(lines[:_LINES]) + ("" if len(lines) <= _LINES else f"\n# {len(lines) - _LINES} more lines in {manifest.main}")
    named = f"{signature.exceptions[0] if signature.exceptions else signature.kind.value}: {signature.message}"
    return (
        f"# {_one_line(named if signature.message else str(signature))}\n\n"
        f"`{_one_line(str(signature)).replace('`', chr(39))}`\n\n"
        f"Fails at {where}. A minimised script shows it in {hits} of {runs} runs, each in a new process:\n\n"
        f"{fence}python\n{shown}\n{fence}\n\n"
        "Exit code 1 means that it fails as said, 0 that it works, 4 that it fails in another way.\n\n"
        f"| | version |\n|---|---|\n{rows}"
    )


def _one_line(text: str) -> str:
    return " ".join(text.split())[:120]


def _longest_fence(text: str) -> int:
    longest = now = 0
    for character in text:
        now = now + 1 if character == "`" else 0
        longest = max(longest, now)
    return longest
