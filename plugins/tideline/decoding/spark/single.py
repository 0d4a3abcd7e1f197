"""Single values, as the serializers of Kafka's clients and Connect's own converters write them.

`org.apache.kafka.common.serialization`: a text is UTF-8, a UUID its text, a number big-endian with
the length of its type, bytes are themselves.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tideline.decoding.spark.avro_decoder import decode as decode_avro
from tideline.decoding.spark.fields import ERROR, ERROR_CLASS, FIELDS, PAYLOAD
from tideline.model.decoding import PartPlan

_LENGTHS = {"long": 8, "int": 4, "short": 2, "double": 8, "float": 4}
_WRONG = "_wrong"
_UUID = r"^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\z"


def decode(rows: DataFrame, part: PartPlan) -> DataFrame:
    """Decode single values; what comes and goes is said in `fields`."""
    data, (column,) = F.col(PAYLOAD), part.reader.columns
    length = _LENGTHS.get(part.format)
    is_wrong, wrong_class, why = F.lit(False), "malformed", F.lit("")
    if length is not None:
        is_wrong = F.length(data) != length
        suffix = f" bytes, and a {part.format} has {length}"
        why = F.concat(F.length(data).cast("string"), F.lit(suffix))
    elif part.format == "text":
        is_wrong, wrong_class = ~F.is_valid_utf8(data.cast("string")), "invalid_utf8"
        why = F.lit("the bytes are no UTF-8")
    elif part.format == "uuid":
        is_wrong, why = ~data.cast("string").rlike(_UUID), F.lit("no text of a UUID")
    if part.format in ("double", "float"):
        return _by_avro(rows, part, is_wrong, why)
    is_bad = F.coalesce(is_wrong, F.lit(False))
    value = F.struct(F.when(~is_bad, _value(part.format, data)).alias(column.name))
    made = {
        FIELDS: F.when(data.isNotNull() & ~is_bad, value),
        ERROR_CLASS: F.when(is_bad, wrong_class),
        ERROR: F.when(is_bad, why),
    }
    return rows.withColumns(made)


def _value(format: str, data: Column) -> Column:
    if format == "bytes":
        return data
    if format in ("text", "uuid"):
        return data.cast("string")
    bits = 8 * _LENGTHS[format]
    unsigned = F.conv(F.hex(data), 16, 10).cast("decimal(20,0)")
    limit = F.lit(str(2 ** (bits - 1))).cast("decimal(20,0)")
    full = F.lit(str(2**bits)).cast("decimal(20,0)")
    return F.when(unsigned >= limit, unsigned - full).otherwise(unsigned).cast("bigint")


def _by_avro(rows: DataFrame, part: PartPlan, is_wrong: Column, why: Column) -> DataFrame:
    """A number of IEEE 754's: Avro writes the same bytes, the last one first."""
    data, length = F.col(PAYLOAD), _LENGTHS[part.format]
    turned = F.concat(*(F.substring(data, n, 1) for n in range(length, 0, -1)))
    looked = rows.withColumns({_WRONG: F.when(is_wrong, why), PAYLOAD: F.when(~is_wrong, turned)})
    errors = {ERROR_CLASS: F.when(F.col(_WRONG).isNotNull(), "malformed"), ERROR: F.col(_WRONG)}
    return decode_avro(looked, part).withColumns(errors).drop(_WRONG)
