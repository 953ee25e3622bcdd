"""Index expressions: integer-affine sums over named axes, with floor-division and remainder where a view needs them.

An `Index` is `const + sum(coef * atom)`; an atom is an `Axis` (a named range from 0 to extent-1), a `Div` or a `Mod` of
an index by a positive constant. All are immutable and interned, so equality is identity. Simplification happens in the
constructors and uses the extents that axes carry; it is exact, never approximate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self
from weakref import WeakValueDictionary

from inductor.ir.dims import Dim


class Axis:
    """A named range `0 <= name < extent`."""

    __slots__ = ("__weakref__", "extent", "index", "key", "name")
    _interned: WeakValueDictionary[tuple[str, Dim], Axis] = WeakValueDictionary()
    name: str
    extent: Dim
    key: str
    index: Index | None

    def __new__(cls, name: str, extent: Dim) -> Axis:  # noqa: PYI034  # interned: an equal node made before is returned
        found = cls._interned.get((name, extent))
        if found is None:
            found = object.__new__(cls)
            found.name, found.extent, found.key, found.index = name, extent, name, None
            cls._interned[(name, extent)] = found
        return found

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[type[Axis], tuple[str, Dim]]:
        return Axis, (self.name, self.extent)


class _Divided:
    """What an index has become by a division that leaves a rest. Interned: an equal node made before is returned."""

    __slots__ = ("__weakref__", "by", "key", "of")
    sign: ClassVar[str]
    _interned: ClassVar[WeakValueDictionary[tuple[Index, Dim], Any]]
    of: Index
    by: Dim
    key: str

    def __init_subclass__(cls) -> None:
        cls._interned = WeakValueDictionary()

    def __new__(cls, of: Index, by: Dim) -> Self:
        found = cls._interned.get((of, by))
        if found is None:
            found = object.__new__(cls)
            found.of, found.by, found.key = of, by, f"(({of}){cls.sign}{by})"
            cls._interned[(of, by)] = found
        return found

    def __repr__(self) -> str:
        return self.key


class Div(_Divided):
    """`floor(of / by)`; made only by `Index.__floordiv__`."""

    __slots__ = ()
    sign = "//"


class Mod(_Divided):
    """`of - by * floor(of / by)`; made only by `Index.__mod__`."""

    __slots__ = ()
    sign = "%"


Atom = Axis | Div | Mod
Terms = tuple[tuple[Atom, Dim], ...]


class Index:
    """`const + sum(coef * atom)`, interned. Terms are sorted by atom key and have non-zero coefficients."""

    __slots__ = ("__weakref__", "_axes", "_bounds", "_text", "const", "is_affine", "terms")
    _interned: WeakValueDictionary[tuple[Dim, Terms], Index] = WeakValueDictionary()
    const: Dim
    terms: Terms
    is_affine: bool
    _axes: frozenset[Axis] | None
    _bounds: tuple[Dim, Dim] | None
    _text: str | None

    def __new__(cls, const: Dim, terms: Terms = ()) -> Index:  # noqa: PYI034  # interned: an equal node made before is returned
        found = cls._interned.get((const, terms))
        if found is None:
            found = object.__new__(cls)
            found.const, found.terms, found._axes, found._bounds, found._text = const, terms, None, None, None
            found.is_affine = all(isinstance(atom, Axis) for atom, _ in terms)
            cls._interned[(const, terms)] = found
        return found

    def __repr__(self) -> str:
        if self._text is None:
            parts = [atom.key if coef == 1 else f"{coef}*{atom.key}" for atom, coef in self.terms]
            if self.const or not parts:
                parts.append(str(self.const))
            self._text = " + ".join(parts)
        return self._text

    def __add__(self, other: Index | Dim) -> Index:
        if isinstance(other, int):
            return Index(self.const + other, self.terms) if other else self
        if not other.terms:
            return Index(self.const + other.const, self.terms) if other.const else self
        if not self.terms:
            return Index(self.const + other.const, other.terms) if self.const else other
        coefs = dict(self.terms)
        for atom, coef in other.terms:
            coefs[atom] = coefs.get(atom, 0) + coef
        return from_terms(self.const + other.const, coefs)

    def __mul__(self, factor: Dim) -> Index:
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Index(self.const * factor, tuple((atom, coef * factor) for atom, coef in self.terms))

    def __sub__(self, other: Index | Dim) -> Index:
        return self + (-other if isinstance(other, int) else other * -1)

    @property
    def bounds(self) -> tuple[Dim, Dim]:
        """Smallest and largest value over the whole range of all axes (both inclusive; empty axes count as one point)."""
        if self._bounds is None:
            low = high = self.const
            for atom, coef in self.terms:
                atom_low, atom_high = atom_bounds(atom)
                low += coef * (atom_low if coef > 0 else atom_high)
                high += coef * (atom_high if coef > 0 else atom_low)
            self._bounds = (low, high)
        return self._bounds

    def __floordiv__(self, by: Dim) -> Index:
        if by == 1:
            return self
        quotient: dict[Atom, Dim] = {}
        rest: dict[Atom, Dim] = {}
        for atom, coef in self.terms:
            if coef % by == 0:
                quotient[atom] = coef // by
            else:
                rest[atom] = coef
        whole = from_terms(self.const // by, quotient)
        left = from_terms(self.const % by, rest)
        low, high = left.bounds
        if low // by == high // by:
            return whole + low // by
        # floor((g*a + c) / (g*m)) = floor((a + floor(c/g)) / m)
        common = by
        for _, coef in left.terms:
            common = gcd(common, coef)
        if common > 1:
            reduced = Index(left.const // common, tuple((a, c // common) for a, c in left.terms))
            return whole + reduced // (by // common)
        apart = left.apart(by)
        if apart is not None:  # floor((g*a + b) / (g*m)) = floor(a/m)
            step, high_part, _ = apart
            return whole + high_part // (by // step)
        if len(left.terms) == 1 and left.const == 0:
            atom, coef = left.terms[0]
            if coef == 1 and isinstance(atom, Div):  # floor(floor(e/a)/b) = floor(e/(a*b))
                return whole + atom.of // (atom.by * by)
        return whole + of_atom(Div(left, by))

    def __mod__(self, by: Dim) -> Index:
        if by == 1:
            return ZERO
        coefs = {atom: coef % by for atom, coef in self.terms}
        left = from_terms(self.const % by, coefs)
        low, high = left.bounds
        if low // by == high // by:
            return left - (low // by) * by
        # (g*a + c) mod (g*m) = g*((a + c//g) mod m) + c%g
        common = by
        for _, coef in left.terms:
            common = gcd(common, coef)
        if common > 1:
            reduced = Index(left.const // common, tuple((a, c // common) for a, c in left.terms))
            return (reduced % (by // common)) * common + left.const % common
        apart = left.apart(by)
        if apart is not None:  # (g*a + b) mod (g*m) = g*(a mod m) + b
            step, high_part, low_part = apart
            return (high_part % (by // step)) * step + low_part
        if len(left.terms) == 1 and left.const == 0:
            atom, coef = left.terms[0]
            if coef == 1 and isinstance(atom, Mod) and atom.by % by == 0:  # (e % (a*b)) % b = e % b
                return atom.of % by
        return of_atom(Mod(left, by))

    def apart(self, by: Dim) -> tuple[Dim, Index, Index] | None:
        """(g, a, b) with self = g*a + b and 0 <= b < g, for a g > 1 that divides `by`."""
        for step in sorted({gcd(by, coef) for _, coef in self.terms} - {1}):
            low_part = Index(self.const % step, tuple((a, c) for a, c in self.terms if c % step))
            low, high = low_part.bounds
            if low >= 0 and high < step:
                return step, Index(self.const // step, tuple((a, c // step) for a, c in self.terms if c % step == 0)), low_part
        return None

    def substitute(self, mapping: Mapping[Axis, Index]) -> Index:
        """Replace axes by indices, everywhere, simplifying on the way."""
        result = Index(self.const)
        changed = False
        for atom, coef in self.terms:
            new = substitute_atom(atom, mapping)
            changed = changed or new is not of_atom(atom)
            result = result + new * coef
        return result if changed else self

    @property
    def axes(self) -> frozenset[Axis]:
        """All axes that occur, also inside divisions."""
        if self._axes is None:
            self._axes = frozenset().union(*[(atom,) if isinstance(atom, Axis) else atom.of.axes for atom, _ in self.terms])
        return self._axes

    def coef(self, axis: Axis) -> Dim:
        """The coefficient of a plain axis term (0 when absent; occurrences inside Div and Mod do not count)."""
        for atom, coef in self.terms:
            if atom is axis:
                return coef
        return 0


def gcd(a: Dim, b: Dim) -> Dim:
    a, b = abs(a), abs(b)
    while b:
        a, b = b, a % b
    return a


def atom_bounds(atom: Atom) -> tuple[Dim, Dim]:
    if isinstance(atom, Axis):
        return 0, max(atom.extent - 1, 0)
    low, high = atom.of.bounds
    if isinstance(atom, Div):
        return low // atom.by, high // atom.by
    return 0, atom.by - 1


def of_atom(atom: Atom) -> Index:
    if isinstance(atom, Axis):
        if atom.extent == 1:
            return ZERO
        if atom.index is None:
            atom.index = Index(0, ((atom, 1),))
        return atom.index
    return Index(0, ((atom, 1),))


def substitute_atom(atom: Atom, mapping: Mapping[Axis, Index]) -> Index:
    if isinstance(atom, Axis):
        return mapping[atom] if atom in mapping else of_atom(atom)
    inner = atom.of.substitute(mapping)
    if inner is atom.of:
        return of_atom(atom)
    return inner // atom.by if isinstance(atom, Div) else inner % atom.by


def from_terms(const: Dim, coefs: Mapping[Atom, Dim]) -> Index:
    """Build an index from unsorted terms; drops zeros and axes of extent 1, and puts digits of one number together."""
    live = {a: c for a, c in coefs.items() if c and not (isinstance(a, Axis) and a.extent == 1)}
    for atom, coef in live.items():
        if isinstance(atom, Mod) and (found := joined(atom, coef, live)) is not None:
            other, index = found
            rest = {a: c for a, c in live.items() if a is not atom and a is not other}
            return from_terms(const, rest) + index * coef
    return Index(const, tuple(sorted(live.items(), key=_atom_key)))


def joined(low: Mod, coef: Dim, live: Mapping[Atom, Dim]) -> tuple[Atom, Index] | None:
    """The term of which `low`, `e%m` with the coefficient c, is the lower digit, and the sum of both over c.

    c*m*(e//m) + c*(e%m) = c*e, and c*m*((e//m + d) % k) + c*(e%m) = c*((e + m*d) % (m*k)). A remainder has lost what `m` divides, so `e`
    is the number of the other term where both leave the same."""
    high = low.of // low.by
    for other, c in live.items():
        if c != coef * low.by:
            continue
        if of_atom(other) is high:
            return other, low.of
        if isinstance(other, Div):
            if _leaves_the_same(other, low):
                return other, other.of
        elif isinstance(other, Mod):
            more = other.of - high
            if len(more.terms) < len(other.of.terms):  # they are digits of one number
                return other, (low.of + more * low.by) % (low.by * other.by)
            for atom, k in other.of.terms:
                if k == 1 and isinstance(atom, Div) and _leaves_the_same(atom, low):
                    more = other.of - of_atom(atom)
                    return other, (atom.of + more * low.by) % (low.by * other.by)
    return None


def _leaves_the_same(high: Div, low: Mod) -> bool:
    return high.by == low.by and (high.of - low.of) % low.by is ZERO


def _atom_key(term: tuple[Atom, Dim]) -> str:
    return term[0].key


ZERO = Index(0)


def const(value: Dim) -> Index:
    return Index(value)


def digits(index: Index, by: Dim) -> tuple[Index, Index]:
    """(index // by, index % by)"""
    return index // by, index % by
