"""The profile as people read it."""

from __future__ import annotations

from collections.abc import Iterator

from dynamo.trace.model import plural, short
from minifier.recompiles.profile import Finding, Profile

_GUARDS, _WIDTH = 8, 80


def as_text(profile: Profile) -> str:
    """Causes of recompiles first, then breaks and guards."""
    recompiles = sum(f.count for f in profile.recompiles) + profile.unexplained
    breaks = sum(b.count for b in profile.breaks)
    compiles = f"{plural(profile.compiles, 'compile')} in {profile.seconds:.3f} s"
    causes = f"{plural(recompiles, 'recompile')} of {plural(len(profile.recompiles), 'cause')}"
    lines = [f"{compiles}, {causes}, {plural(breaks, 'graph break')}"]
    for number, finding in enumerate(profile.recompiles, 1):
        lines += ["", *_finding(number, finding)]
    if profile.unexplained:
        lines += ["", f"{plural(profile.unexplained, 'recompile')} of unknown cause"]
    if profile.together is not None:
        lines += ["", f"with all verified fixes: {plural(profile.together, 'compile')} instead of {profile.compiles}"]
    if profile.limits:
        lines += ["", *profile.limits]
    if profile.failures:
        lines += ["", "the compiler failed, eager ran", *(f"  {line}" for line in dict.fromkeys(profile.failures))]
    if profile.breaks:
        lines += ["", "graph breaks", *(f"  {b.count:>3}x {b.id} {short(b.file)}:{b.line}  {b.reason}" for b in profile.breaks)]
    if profile.guard_costs:
        total = sum(g.ns for g in profile.guard_costs)
        lines += ["", f"guards, ns per call ({len(profile.guard_costs)} in all, {total:.0f} ns)"]
        for g in profile.guard_costs[:_GUARDS]:
            where = f"  ({short(g.file)}:{g.line})" if g.file else ""
            guard = g.guard if len(g.guard) <= _WIDTH else g.guard[: _WIDTH - 3] + "..."
            lines.append(f"  {g.ns:>7.1f}  {g.frame}: {guard}{where}")
    return "\n".join(lines) + "\n"


def _finding(number: int, f: Finding) -> Iterator[str]:
    yield f"{number}. {f.cause}: {f.at} in {f.frame}  {f.count}x, {f.seconds:.3f} s"
    yield f"   values: {', '.join(f.values[:8])}" + (f" and {len(f.values) - 8} more" if len(f.values) > 8 else "")
    yield f"   read at {short(f.file)}:{f.line}, changed at {short(f.changed_file)}:{f.changed_line}"
    yield f"   fix: {f.fix}"
    if f.besides:
        yield f"   the same calls also changed {', '.join(f.besides[:3])}: mend these too"
    if f.verified:
        yield f"   verified: {plural(f.compiles_before, 'compile')} before, {f.compiles_after} after, the same output"
    elif f.saved:
        yield f"   predicted: {plural(f.saved, 'compile')} less; not verified"
    yield from (f"   tried in vain: {words}" for words in f.rejected)
    yield from (f"     {line}" for line in f.edit.splitlines() if not line.startswith(("---", "+++")))
