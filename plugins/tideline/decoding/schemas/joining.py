"""The shape that holds a known shape's values and a new one's. Pure.

The known shape is a column's: its type never changes, it only gains nested fields at the end.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tideline.decoding.schemas.schema_changes import free_name
from tideline.decoding.schemas.shapes import (
    Enum,
    Field,
    Fixed,
    List,
    Map,
    Record,
    Scalar,
    Shape,
    Union,
    as_written,
)
from tideline.model.decoding import without_case

Path = tuple[str, ...]

WIDE = {"int": "long", "float": "double"}
"""Kinds that get a wider column from the start: delta-rs cannot widen a column later."""

FITS = {
    ("long", "int"): "long",
    ("double", "float"): "double",
    ("double", "int"): "double",
    ("double", "long"): "double",
    ("double", "integer"): "double",
    ("unsigned long", "int"): "unsigned long",
    ("unsigned long", "long"): "unsigned long",
    ("string", "bytes"): "string",
    ("bytes", "string"): "bytes",
    ("number", "integer"): "number",
    ("string", "date-time"): "string",
    ("string", "day"): "string",
    ("string", "text"): "text",
    ("string", "enum"): "string",
    ("enum", "string"): "string",
}
"""(known, new) -> what both are read as. The column's type is the known one's. A whole number that
no double holds exactly is set aside by the decoder."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A field that does not fit what is known.

    Args:
        path: Where.
        reason: Why, in one sentence.
        known, found: Both shapes.
        since: The schema that brought the known one.
    """

    path: Path
    reason: str
    known: Shape
    found: Shape
    since: str


@dataclass
class Joiner:
    """Joins one schema's shape to the known one.

    Args:
        since: The schema's name.
        one_case: Whether the decoder takes names that differ only in case for the same.
        plain: Whether new fields take no notice of Connect's logical types.
        misfits: What did not fit; then the joined shape is of no use.
        added: Fields that are new, and what they hold.
        kept: Columns of before their schemas' better type, that were not known to be.
    """

    since: str
    one_case: bool
    plain: bool = False
    misfits: list[Misfit] = field(default_factory=list)
    added: list[tuple[Path, Shape]] = field(default_factory=list)
    kept: list[Path] = field(default_factory=list)
    _known_since: str = ""

    def record(self, known: Record, new: Record, path: Path = ()) -> Record:
        """The known fields, with the new record's merged in, and the others behind them."""
        fields = list(known.fields)
        taken = {f.name for f in (*known.fields, *new.fields)}
        for mine, theirs in paired(known, new):
            if mine is None:
                aliases = tuple(a for a in theirs.aliases if a not in taken)
                fields.append(self._new_field(fields, replace(theirs, aliases=aliases), path))
                continue
            if not path:
                self._known_since = mine.since
            shape = self.shape(mine.shape, theirs.shape, (*path, mine.name))
            others = [n for n in theirs.aliases if n not in taken]
            others += [theirs.name] if theirs.name != mine.name else []
            aliases = () if theirs.number else tuple(dict.fromkeys((*mine.aliases, *others)))
            fields[fields.index(mine)] = replace(mine, shape=shape, aliases=aliases)
        closed = new.closed and known.closed
        return replace(known, fields=tuple(fields), closed=closed)

    def _new_field(self, known: list[Field], theirs: Field, path: Path) -> Field:
        if theirs.number:  # its name is no more than a name
            name = free_name(theirs.name, {without_case(f.name) for f in known})
            theirs = replace(theirs, name=name)
        where = (*path, theirs.name)
        twin = next((f for f in known if without_case(f.name) == without_case(theirs.name)), None)
        renamed = next((f for f in known if theirs.name in f.aliases), None)
        if twin is not None and self.one_case:
            reason = f"its name differs from {twin.name} only in case"
            self.misfits.append(Misfit(where, reason, twin.shape, theirs.shape, twin.since))
        elif renamed is not None:
            reason = f"it is another name of {renamed.name}, and now both are there"
            self.misfits.append(Misfit(where, reason, renamed.shape, theirs.shape, renamed.since))
        else:
            self.added.append((where, theirs.shape))
        return replace(theirs, shape=self._fresh(theirs.shape, where), since=self.since)

    def shape(self, known: Shape, new: Shape, path: Path) -> Shape:
        """What both are read as; the known shape where they do not fit, with a misfit noted."""
        match known, new:
            case Record(), Record() if known.wrapped == new.wrapped:
                return self.record(known, new, path)
            case List(mine), List(theirs):
                return List(self.shape(mine, theirs, (*path, "[]")))
            case Map(mine), Map(theirs):
                return Map(self.shape(mine, theirs, (*path, "{}")))
            case Enum(symbols=mine), Enum(symbols=theirs):
                return replace(known, symbols=tuple(dict.fromkeys((*mine, *theirs))))
            case Union(), _:
                for member in new.members if isinstance(new, Union) else (new,):
                    known = self._member(known, member, path)
                return known
        if known == new or known == Scalar("text"):
            return known
        if new != (written := as_written(new)) and written is not None:
            return self._kept(self.shape(known, written, path), path)
        if (fitting := FITS.get((_kind(known), _kind(new)))) is not None:
            return replace(known, kind=fitting) if isinstance(known, Scalar) else Scalar(fitting)
        self.misfits.append(Misfit(path, _why(known, new), known, new, self._known_since))
        return known

    def _kept(self, known: Shape, path: Path) -> Shape:
        if not isinstance(known, Scalar) or known.kept:
            return known
        self.kept.append(path)
        return replace(known, kept=True)

    def _member(self, known: Union, new: Shape, path: Path) -> Union:
        index = member_index(known, new)
        if index is None:
            where = (*path, f"member{len(known.members)}")
            self.added.append((where, new))
            return Union((*known.members, self._fresh(new, where)))
        members = list(known.members)
        members[index] = self.shape(members[index], new, (*path, f"member{index}"))
        return Union(tuple(members))

    def _fresh(self, shape: Shape, path: Path) -> Shape:
        """A new field's shape as it begins: wide, and free of fields that differ only in case."""
        if self.plain and shape != (written := as_written(shape)) and written is not None:
            return self._fresh(written, path)
        match shape:
            case Scalar(kind):
                return replace(shape, kind=WIDE.get(kind, kind))
            case List(item):
                return List(self._fresh(item, (*path, "[]")))
            case Map(value):
                return Map(self._fresh(value, (*path, "{}")))
            case Union(members):
                named = ((m, (*path, f"member{i}")) for i, m in enumerate(members))
                return Union(tuple(self._fresh(m, where) for m, where in named))
            case Record():
                inner = Joiner(self.since, self.one_case, self.plain)
                made = inner.record(replace(shape, fields=()), shape, path)
                self.misfits += inner.misfits
                return made
        return shape


def paired(known: Record, new: Record) -> list[tuple[Field | None, Field]]:
    """Each new field, in order, with the known one that it is; None for none.

    Where fields have numbers, it is the one with its number. Where they have none, it is the one
    with its name. Otherwise it is the one whose alias it is or that it names as an alias, unless
    the new record has a field of that one's own name.
    """
    by_name = {f.name: f for f in known.fields}
    taken = {f.name for f in new.fields}
    pairs: list[tuple[Field | None, Field]] = []
    for theirs in new.fields:
        if theirs.number:
            same = (f for f in known.fields if f.number == theirs.number)
            pairs.append((next(same, None), theirs))
            continue
        mine = by_name.get(theirs.name)
        if mine is None:
            for other in known.fields:
                related = other.name in theirs.aliases or theirs.name in other.aliases
                if related and other.name not in taken:
                    mine = other
                    taken.add(other.name)
                    break
        pairs.append((mine, theirs))
    return pairs


def member_index(known: Union, new: Shape) -> int | None:
    """Which member of a union a new one is: the same key, or a named type that changed place."""
    keys = [member_key(m) for m in known.members]
    if member_key(new) in keys:
        return keys.index(member_key(new))
    if not isinstance(new, Record | Enum | Fixed):
        return None
    simple = [
        i
        for i, m in enumerate(known.members)
        if type(m) is type(new) and keys[i].rsplit(".", 1)[-1] == new.name.rsplit(".", 1)[-1]
    ]
    return simple[0] if len(simple) == 1 else None


def member_key(shape: Shape) -> str:
    """What tells a shape apart from others in a union: a type, or a named type's full name."""
    match shape:
        case Record() | Enum() | Fixed():
            return shape.name
        case List():
            return "array"
        case Map():
            return "map"
        case Scalar("int" | "long" | "timestamp-millis" | "timestamp-micros" | "time-micros"):
            return "long"
        case Scalar("local-timestamp-millis" | "local-timestamp-micros" | "timestamp-nanos"):
            return "long"
        case Scalar("date" | "time-millis"):
            return "int"
        case Scalar("float" | "double"):
            return "double"
        case Scalar("decimal"):
            return "bytes"
        case Scalar(kind):
            return kind
    raise AssertionError(f"a union in a union: {shape}")


def _kind(shape: Shape) -> str:
    """Of what is in one column: a symbol is a text."""
    return shape.kind if isinstance(shape, Scalar) else "enum" if isinstance(shape, Enum) else ""


def _why(known: Shape, new: Shape) -> str:
    match known, new:
        case Scalar("decimal", mine), Scalar("decimal", theirs):
            return f"the decimal's scale was {mine} and is {theirs}"
        case Fixed(size=mine), Fixed(size=theirs) if mine != theirs:
            return f"the fixed type had {mine} bytes and has {theirs}"
    return f"the column holds {described(known)}, the schema has {described(new)}"


def described(shape: Shape) -> str:
    """A shape in a few words."""
    match shape:
        case Scalar("decimal", scale):
            return f"decimal with scale {scale}"
        case Scalar(kind):
            return kind
        case Enum():
            return "enum"
        case Fixed(size, scale=None):
            return f"fixed({size})"
        case Fixed(size, scale):
            return f"fixed({size}) decimal with scale {scale}"
        case List(item):
            return f"array of {described(item)}"
        case Map(value):
            return f"map of {described(value)}"
        case Union(members):
            return f"union of {', '.join(described(m) for m in members)}"
        case Record():
            return "record"
