"""Keys' texts, buckets and sums of rows by Spark's own expressions: the definition of them."""

from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructType

from tideline.model.current import COORDINATES, IS_DELETED
from tideline.model.decoding import UNAVAILABLE
from tideline.table.schema import current_columns

_BITS = 60
_NESTED = (ArrayType, MapType, StructType)


def current_schema(plan):
    """The current table's columns, in order."""
    return StructType.fromJson({"type": "struct", "fields": [*current_columns(plan)]})


def bucket_of(plan):
    """The bucket that a key is in; a decimal of many places is no key here."""
    types = {c.name: c.type for c in plan.columns}
    texts = [
        F.hex(F.col(n)) if types[n] == "binary" else F.col(n).cast("string")
        for n in plan.layout.key
    ]
    number = F.pmod(F.xxhash64(F.to_json(F.array(*texts))), F.lit(plan.layout.buckets).cast("long"))
    return number.cast("int")


def hash_of(plan):
    """A hash of all that a row holds: numbers say with their bits which columns are there."""
    types = {f.name: f.dataType for f in current_schema(plan).fields}
    own = (*COORDINATES, IS_DELETED, UNAVAILABLE, *(c.name for c in plan.sequence))
    names = [*own, *(c.name for c in plan.columns)]
    words, told = [F.lit(0).cast("bigint")] * (len(names) // _BITS + 1), []
    for n, name in enumerate(names):
        if name not in types:
            continue
        value, kind = F.col(name), types[name]
        bit = F.when(value.isNotNull(), F.lit(1 << n % _BITS)).otherwise(F.lit(0))
        words[n // _BITS] = words[n // _BITS].bitwiseOR(bit.cast("bigint"))
        is_nested = isinstance(kind, _NESTED) and name != UNAVAILABLE
        told.append(F.when(value.isNotNull(), _content(value, kind)) if is_nested else value)
    return F.xxhash64(*(F.nullif(word, F.lit(0)) for word in words), *told)


def _content(value, kind):
    if isinstance(kind, StructType):
        told = []
        for number, inner in enumerate(kind.fields):
            field = value.getField(inner.name)
            said = F.struct(F.lit(number), _content(field, inner.dataType))
            told.append(F.when(field.isNotNull(), said))
        return F.struct(*told)
    if isinstance(kind, MapType):
        pair = StructType().add("key", kind.keyType).add("value", kind.valueType)
        value, kind = F.array_sort(F.map_entries(value), _by_key), ArrayType(pair)
    if isinstance(kind, ArrayType):
        item = kind.elementType
        items = F.transform(value, lambda one: F.struct(one.isNotNull(), _content(one, item)))
        return F.struct(F.size(value), items)
    return value


def _by_key(one, other):
    left, right = one.getField("key"), other.getField("key")
    return F.when(left < right, -1).when(left > right, 1).otherwise(0)
