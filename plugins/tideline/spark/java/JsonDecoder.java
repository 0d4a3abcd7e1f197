package tideline.spark;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonFactoryBuilder;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.core.exc.StreamConstraintsException;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;
import java.io.StringWriter;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.math.RoundingMode;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.types.variant.Variant;
import org.apache.spark.types.variant.VariantBuilder;
import org.apache.spark.types.variant.VariantSizeLimitException;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.unsafe.types.VariantVal;

/**
 * A JSON document as a row of typed fields, exact, or what is wrong with it.
 *
 * <p>Jackson reads the tokens (RFC 8259). What it passes over is looked at here: bytes that are no
 * UTF-8, a byte order mark, half of a surrogate pair, names twice, text behind the document. A
 * document is read to its end even if something is wrong, so its class does not depend on the order
 * of its members. docs/decoding.md has the rule of each type.
 *
 * <p>It has no state but its specification: tasks of one executor may share it. Compiled by Janino
 * (tideline.launch.java), which knows no lambdas, and takes no element of a collection without a
 * cast.
 */
public final class JsonDecoder extends Decoder {

  private static final long serialVersionUID = 1L;

  /** What may be wrong, the first of these that is found anywhere counts; as model.decoding has it. */
  private static final String[] CLASSES = {
    "malformed",
    "trailing_bytes",
    "invalid_utf8",
    "duplicate_field",
    "too_large",
    "type_mismatch",
    "out_of_range"
  };

  private static final int MALFORMED = 0;
  private static final int TRAILING = 1;
  private static final int NO_TEXT = 2;
  private static final int TWICE = 3;
  private static final int TOO_LARGE = 4;
  private static final int MISMATCH = 5;
  private static final int RANGE = 6;

  /** Of strings and names a record's length is bound enough; Jackson would refuse long ones. */
  static final StreamReadConstraints BOUNDS =
      StreamReadConstraints.builder()
          .maxStringLength(Integer.MAX_VALUE)
          .maxNameLength(Integer.MAX_VALUE)
          .build();

  private static final JsonFactory FACTORY =
      ((JsonFactoryBuilder)
              ((JsonFactoryBuilder)
                      ((JsonFactoryBuilder) new JsonFactoryBuilder())
                          .disable(JsonFactory.Feature.INTERN_FIELD_NAMES)
                          .disable(JsonFactory.Feature.FAIL_ON_SYMBOL_HASH_OVERFLOW))
                  .streamReadConstraints(BOUNDS))
          .build();

  /** From here on, doubles skip whole numbers. */
  private static final double WHOLE = 9007199254740992.0;

  /** So many significant digits always come back from a double (DBL_DIG of C). */
  private static final int SAFE_DIGITS = 15;

  /** Most digits of a VARIANT's decimals. */
  private static final int DECIMAL_DIGITS = 38;

  private final Field document;
  private final boolean isWrapped;

  /** Whether the document is the payload of Kafka Connect's JSON converter. */
  private final boolean isPayload;

  /** Whether 1.0 is a whole number: since draft 6 of JSON Schema it is. */
  private final boolean takesPoints;

  /**
   * @param read The specification: the type of the fields' struct, as Spark writes it; the shape of
   *     the document; whether that is the only field's value rather than an object of fields.
   */
  public JsonDecoder(String specification, JsonNode read) {
    super(specification, read);
    this.document = new Field("", (JsonNode) read.get("shape"));
    this.isWrapped = ((JsonNode) read.get("wrapped")).booleanValue();
    this.isPayload = read.has("payload");
    this.takesPoints = read.has("points");
    for (int i = 0; i < lenient.length; i++) {
      Field field = document;
      for (int n = isWrapped ? 1 : 0; n < lenient[i].length; n++) {
        field = field.fields[lenient[i][n]];
      }
      field.lenient = i;
    }
  }

  @Override
  public DataType[] inputTypes() {
    return new DataType[] {DataTypes.BinaryType};
  }

  @Override
  public String name() {
    return "decode_json";
  }

  @Override
  public Object produceResult(InternalRow input) {
    return invoke(input.isNullAt(0) ? null : input.getBinary(0));
  }

  /** Spark calls it from the code that it makes; null for a record without a payload. */
  public InternalRow invoke(byte[] payload) {
    if (payload == null) {
      return good(null);
    }
    Reading reading = new Reading(payload, takesPoints);
    Object found = null;
    try {
      found = reading.document(this);
    } catch (StreamConstraintsException error) {
      reading.note(MALFORMED, null, "more than 1,000 levels, or a number of 1,000 characters");
    } catch (IOException error) {
      reading.note(reading.isBehind ? TRAILING : MALFORMED, null, null);
    }
    if (reading.problem < 0) {
      Object fields = isWrapped ? new GenericInternalRow(new Object[] {found}) : found;
      return good(fields, reading.invalid);
    }
    return bad(CLASSES[reading.problem], reading.sentence());
  }

  /** What one place of a document holds: a leaf, a list, a map or an object of fields. */
  private static final class Field implements Serializable {

    private static final long serialVersionUID = 1L;

    final String kind;

    /** For messages: names of the schema, never of a document. */
    final String path;

    final Field item;
    final Field[] fields;
    final Map places;

    /** Places by names without their case, as Spark compares names. */
    final Map alike;

    final boolean isClosed;

    /** Digits behind a decimal's point. */
    final int scale;

    /** How many of a time's units a day has. */
    final long ofDay;

    /** Its number among the lenient places; -1 for none. */
    int lenient = -1;

    Field(String path, JsonNode shape) {
      this.path = path;
      this.kind = ((JsonNode) shape.get("kind")).textValue();
      this.isClosed = shape.has("closed");
      this.scale = shape.has("scale") ? ((JsonNode) shape.get("scale")).intValue() : 0;
      this.ofDay = shape.has("of_day") ? ((JsonNode) shape.get("of_day")).longValue() : 0;
      this.item =
          shape.has("item") ? new Field(path + itemSuffix(), (JsonNode) shape.get("item")) : null;
      this.places = new HashMap();
      this.alike = new HashMap();
      List made = new ArrayList();
      if (shape.has("fields")) {
        JsonNode all = (JsonNode) shape.get("fields");
        for (int i = 0; i < all.size(); i++) {
          JsonNode one = (JsonNode) all.get(i);
          String name = ((JsonNode) one.get(0)).textValue();
          made.add(
              new Field(path.isEmpty() ? name : path + "." + name, (JsonNode) one.get(1)));
          places.put(name, Integer.valueOf(i));
          alike.put(withoutCase(name), Integer.valueOf(i));
        }
      }
      this.fields = (Field[]) made.toArray(new Field[0]);
    }

    private String itemSuffix() {
      return "list".equals(kind) ? "[]" : "{}";
    }
  }

  /** As equalsIgnoreCase compares, and with it Spark. */
  private static String withoutCase(String name) {
    char[] made = name.toCharArray();
    for (int i = 0; i < made.length; i++) {
      made[i] = Character.toLowerCase(Character.toUpperCase(made[i]));
    }
    return new String(made);
  }

  /** One document while it is read. */
  private static final class Reading {

    private final byte[] payload;
    private final boolean takesPoints;
    private final boolean hasEscapes;
    private JsonParser parser;
    int problem = -1;
    boolean isBehind;
    private String path;
    private String said;

    /** Numbers of the lenient places that hold nothing; null for none. */
    List invalid;

    Reading(byte[] payload, boolean takesPoints) {
      this.payload = payload;
      this.takesPoints = takesPoints;
      this.hasEscapes = hasUnicodeEscapes(payload);
    }

    /** The first class counts, and of one class the first place. */
    void note(int found, Field where, String what) {
      if (problem < 0 || found < problem) {
        problem = found;
        path = where == null ? null : where.path;
        said = what;
      }
    }

    String sentence() {
      if (said != null) {
        return path == null || path.isEmpty() ? said : path + ": " + said;
      }
      switch (problem) {
        case MALFORMED:
          return "not a JSON document";
        case TRAILING:
          return "text follows the JSON document";
        case NO_TEXT:
          return "the bytes are no UTF-8, or an escape is half a character";
        case TWICE:
          return "an object has a name twice";
        case TOO_LARGE:
          return "too large for a VARIANT";
        default:
          return "a value is not of its field's type";
      }
    }

    Object document(JsonDecoder decoder) throws IOException {
      if (!UTF8String.fromBytes(payload).isValid()) {
        note(NO_TEXT, null, null);
        return null;
      }
      // Jackson would pass over a mark, and take zeros for another encoding.
      for (int i = 0; i < payload.length && i < 4; i++) {
        if (payload[i] == 0 || payload[i] == (byte) 0xEF) {
          if (payload[i] == 0 || i == 0) {
            note(MALFORMED, null, null);
            return null;
          }
        }
      }
      parser = FACTORY.createParser(payload);
      try {
        if (parser.nextToken() == null) {
          note(MALFORMED, null, null);
          return null;
        }
        Object found = decoder.isPayload ? payload(decoder) : outermost(decoder);
        parser.finishToken(); // strings are read when they are asked for
        isBehind = true;
        if (parser.nextToken() != null) {
          note(TRAILING, null, null);
        }
        return found;
      } finally {
        parser.close();
      }
    }

    private Object outermost(JsonDecoder decoder) throws IOException {
      if (decoder.isWrapped) {
        return value(decoder.document);
      }
      if (parser.currentToken() == JsonToken.START_OBJECT) {
        return object(decoder.document);
      }
      if (parser.currentToken() == JsonToken.VALUE_NULL) {
        return null; // what that means is said by the writer's schema
      }
      note(MISMATCH, null, "the document is no object");
      skip(null);
      return null;
    }

    /** What Connect's converter has put into an envelope; its framing has read the schema. */
    private Object payload(JsonDecoder decoder) throws IOException {
      Object found = null;
      Set names = new HashSet();
      if (parser.currentToken() != JsonToken.START_OBJECT) {
        note(MISMATCH, null, "the document is no object");
        skip(null);
        return null;
      }
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = name();
        if (!names.add(name)) {
          note(TWICE, null, null);
        }
        parser.nextToken();
        if ("schema".equals(name)) {
          parser.skipChildren(); // the framing has read it
        } else if (!"payload".equals(name)) {
          skip(null);
        } else {
          found = outermost(decoder);
        }
      }
      if (!names.contains("payload")) {
        note(MISMATCH, null, "there is no payload");
      }
      return found;
    }

    /** A value; null for what a lenient field cannot hold, which is noted as that alone. */
    private Object value(Field field) throws IOException {
      if (field.lenient < 0) {
        return strict(field);
      }
      int before = problem;
      String where = path;
      String what = said;
      problem = -1;
      Object found = strict(field);
      if (problem >= TOO_LARGE) {
        invalid = invalid == null ? new ArrayList() : invalid;
        invalid.add(Integer.valueOf(field.lenient));
        found = null;
      } else if (problem >= 0 && (before < 0 || problem < before)) {
        return found;
      }
      problem = before;
      path = where;
      said = what;
      return found;
    }

    /** The value at the current token, in Spark's own representation; it is read to its end. */
    private Object strict(Field field) throws IOException {
      JsonToken token = parser.currentToken();
      if (token == JsonToken.VALUE_NULL && !"variant".equals(field.kind)) {
        return null;
      }
      switch (field.kind.charAt(0)) {
        case 'i': // integer
          if (token == JsonToken.VALUE_NUMBER_INT) {
            return whole(field);
          }
          if (token == JsonToken.VALUE_NUMBER_FLOAT && takesPoints) {
            return integral(field);
          }
          return mismatch(field, "no whole number");
        case 'n': // number
          if (token == JsonToken.VALUE_NUMBER_INT || token == JsonToken.VALUE_NUMBER_FLOAT) {
            return number(field);
          }
          return mismatch(field, "no number");
        case 'b': // boolean
          if (token == JsonToken.VALUE_TRUE || token == JsonToken.VALUE_FALSE) {
            return Boolean.valueOf(token == JsonToken.VALUE_TRUE);
          }
          return mismatch(field, "neither true nor false");
        case 's': // string
          if (token == JsonToken.VALUE_STRING) {
            return UTF8String.fromString(text());
          }
          return mismatch(field, "no string");
        case 'd': // date-time, day
          if (token != JsonToken.VALUE_STRING) {
            return mismatch(field, "no string");
          }
          return "day".equals(field.kind) ? day(field) : instant(field);
        case 't': // text
          if (token == JsonToken.VALUE_STRING) {
            return UTF8String.fromString(text());
          }
          return written();
        case 'c': // of Kafka Connect's
          return connect(field, token);
        case 'v': // variant
          return variant(field);
        case 'l': // list
          if (token == JsonToken.START_ARRAY) {
            return list(field);
          }
          return mismatch(field, "no list");
        case 'm': // map
          if (token == JsonToken.START_OBJECT) {
            return map(field);
          }
          return mismatch(field, "no object");
        default: // record
          if (token == JsonToken.START_OBJECT) {
            return object(field);
          }
          return mismatch(field, "no object");
      }
    }

    private Object mismatch(Field field, String what) throws IOException {
      note(MISMATCH, field, what);
      skip(null);
      return null;
    }

    private InternalRow object(Field field) throws IOException {
      Object[] found = new Object[field.fields.length];
      boolean[] seen = new boolean[found.length];
      Set others = null;
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = name();
        Integer place = (Integer) field.places.get(name);
        parser.nextToken();
        if (place == null) {
          others = others == null ? new HashSet() : others;
          if (!others.add(name)) {
            note(TWICE, null, null);
          }
          skip(null);
          continue;
        }
        int i = place.intValue();
        if (seen[i]) {
          note(TWICE, null, null);
        }
        seen[i] = true;
        found[i] = value(field.fields[i]);
      }
      if (others != null) {
        refuseStrange(field, seen, others);
      }
      return new GenericInternalRow(found);
    }

    /** Names that are forbidden, or would be a missing field's but for their case. */
    private void refuseStrange(Field field, boolean[] seen, Set others) {
      if (field.isClosed) {
        note(MISMATCH, field, "a name that the schema forbids");
      }
      boolean isMissing = false;
      for (int i = 0; i < seen.length; i++) {
        isMissing |= !seen[i];
      }
      if (!isMissing) {
        return;
      }
      for (Object name : others) {
        Integer place = (Integer) field.alike.get(withoutCase((String) name));
        if (place != null && !seen[place.intValue()]) {
          note(MISMATCH, field.fields[place.intValue()], "its name is there in another case");
        }
      }
    }

    private GenericArrayData list(Field field) throws IOException {
      List found = new ArrayList();
      while (parser.nextToken() != JsonToken.END_ARRAY) {
        found.add(value(field.item));
      }
      return new GenericArrayData(found.toArray(new Object[0]));
    }

    private ArrayBasedMapData map(Field field) throws IOException {
      List names = new ArrayList();
      List found = new ArrayList();
      Set known = new HashSet();
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = name();
        if (!known.add(name)) {
          note(TWICE, null, null);
        }
        parser.nextToken();
        names.add(UTF8String.fromString(name));
        found.add(value(field.item));
      }
      return new ArrayBasedMapData(
          new GenericArrayData(names.toArray(new Object[0])),
          new GenericArrayData(found.toArray(new Object[0])));
    }

    private Object whole(Field field) throws IOException {
      JsonParser.NumberType fits = parser.getNumberType();
      if (fits == JsonParser.NumberType.INT || fits == JsonParser.NumberType.LONG) {
        return Long.valueOf(parser.getLongValue());
      }
      note(RANGE, field, "a whole number beyond 64 bits");
      return null;
    }

    /** A whole number with a point or an exponent; its exponent may be any, so a double is first. */
    private Object integral(Field field) throws IOException {
      String written = parser.getText();
      double near = parser.getDoubleValue();
      if (near == 0 && isZero(written)) {
        return Long.valueOf(0);
      }
      if (Double.isInfinite(near)) {
        note(RANGE, field, "a whole number beyond 64 bits");
        return null;
      }
      BigDecimal found = near == 0 ? null : new BigDecimal(written).stripTrailingZeros();
      if (found == null || found.scale() > 0) {
        return mismatch(field, "no whole number");
      }
      BigInteger exact = found.toBigInteger();
      if (exact.bitLength() > 63) {
        note(RANGE, field, "a whole number beyond 64 bits");
        return null;
      }
      return Long.valueOf(exact.longValue());
    }

    private Object number(Field field) throws IOException {
      double found = parser.getDoubleValue();
      if (Math.abs(found) < WHOLE && found != 0) {
        return Double.valueOf(found);
      }
      if (!comesBack(found, parser.getText())) {
        note(RANGE, field, "a number that a double does not hold");
        return null;
      }
      return Double.valueOf(found);
    }

    /** Whether a double, rounded to as many digits as a number was written with, is that number. */
    private static boolean comesBack(double found, String written) {
      if (Double.isInfinite(found)) {
        return false;
      }
      if (found == 0) {
        return isZero(written);
      }
      BigDecimal number = new BigDecimal(written); // its exponent is a double's
      int digits = number.stripTrailingZeros().precision();
      if (digits <= SAFE_DIGITS) {
        return true;
      }
      BigDecimal again =
          new BigDecimal(found).round(new MathContext(digits, RoundingMode.HALF_EVEN));
      return again.compareTo(number) == 0;
    }

    private static boolean isZero(String written) {
      for (int i = 0; i < written.length() && (written.charAt(i) | 32) != 'e'; i++) {
        if (written.charAt(i) > '0') {
          return false;
        }
      }
      return true;
    }

    /** A value as Connect's converter writes its own types and Debezium's. */
    private Object connect(Field field, JsonToken token) throws IOException {
      boolean isWhole = token == JsonToken.VALUE_NUMBER_INT;
      boolean isNumber = isWhole || token == JsonToken.VALUE_NUMBER_FLOAT;
      switch (field.kind.charAt(1)) {
        case 'a': // any scale
          return token == JsonToken.START_OBJECT ? anyScale(field) : mismatch(field, "no object");
        case 't': // time
          return isWhole ? time(field, whole(field)) : mismatch(field, "no whole number");
        case 'f': // float
          return isNumber ? number(field) : noNumber(field, token);
        case 'd': // decimal
          return isNumber ? decimal(field, parser.getText()) : bytes(field, token);
        case 'z': // zoned
          return token == JsonToken.VALUE_STRING ? instant(field) : mismatch(field, "no string");
        default: // bytes
          return bytes(field, token);
      }
    }

    /** What stands in strings, since JSON has no numbers for it. */
    private Object noNumber(Field field, JsonToken token) throws IOException {
      String given = token == JsonToken.VALUE_STRING ? text() : "";
      if ("NaN".equals(given) || "Infinity".equals(given) || "-Infinity".equals(given)) {
        return Double.valueOf(given);
      }
      return mismatch(field, "no number");
    }

    /** Bytes in Base64, or the decimal that they are. */
    private Object bytes(Field field, JsonToken token) throws IOException {
      byte[] found = token == JsonToken.VALUE_STRING ? base64(text()) : null;
      if (found == null) {
        return mismatch(field, "no bytes in Base64");
      }
      if (field.kind.charAt(1) == 'b') {
        return found;
      }
      if (found.length == 0 || found.length > Decoder.MOST_BYTES) {
        return mismatch(field, "no decimal");
      }
      return fitted(field, new BigDecimal(new BigInteger(found), field.scale));
    }

    /** Null for what no writer of Base64 writes; Java's decoder would do without the padding. */
    private static byte[] base64(String given) {
      try {
        return given.length() % 4 != 0 ? null : Base64.getDecoder().decode(given);
      } catch (IllegalArgumentException error) {
        return null;
      }
    }

    /** Days, or a number of another unit, since 1970. */
    private Object time(Field field, Object given) {
      if (given == null) {
        return null;
      }
      long number = ((Long) given).longValue();
      if (!Decoder.isInCalendar(number, field.ofDay)) {
        note(RANGE, field, "a time outside of the years 1 to 9999");
        return null;
      }
      if (field.ofDay == 1) {
        return Integer.valueOf((int) number);
      }
      return Long.valueOf(number * (Decoder.MICROS_OF_DAY / field.ofDay));
    }

    /** A decimal in its own characters, as the converter's decimal.format NUMERIC has it. */
    private Object decimal(Field field, String written) throws IOException {
      BigDecimal found = written.length() > Decoder.MOST_BYTES ? null : new BigDecimal(written);
      if (found == null || Math.abs((long) found.scale()) > Decoder.MOST_SCALE) {
        note(RANGE, field, "more digits than its column can hold");
        return null;
      }
      found = found.stripTrailingZeros();
      if (found.scale() > field.scale) {
        return mismatch(field, "more digits behind the point than its schema says");
      }
      return fitted(field, found.setScale(field.scale));
    }

    private Object fitted(Field field, BigDecimal found) {
      if (found.precision() > DECIMAL_DIGITS) {
        note(RANGE, field, "more digits than its column can hold");
        return null;
      }
      return Decimal.apply(found, DECIMAL_DIGITS, field.scale);
    }

    /** A decimal with its own scale, as {"scale": 2, "value": Base64}: its own characters. */
    private Object anyScale(Field field) throws IOException {
      InternalRow parts = object(field);
      byte[] digits = parts.isNullAt(1) ? new byte[0] : parts.getBinary(1);
      if (parts.isNullAt(0) || digits.length == 0) {
        return mismatch(field, "no scale and digits of a decimal");
      }
      UTF8String found = Decoder.ownCharacters(digits, parts.getLong(0));
      if (found == null) {
        note(RANGE, field, "a decimal with more digits than PostgreSQL has");
      }
      return found;
    }

    /** A date of RFC 3339: four digits of a year, no sign, and no time. */
    private Object day(Field field) throws IOException {
      String given = text();
      LocalDate found = given.length() == 10 ? Decoder.dateOf(given) : null;
      if (found == null) {
        note(MISMATCH, field, "no date as 2026-01-31");
        return null;
      }
      return Integer.valueOf((int) found.toEpochDay());
    }

    /** A date-time of RFC 3339, with its offset; digits below a microsecond are cut off. */
    private Object instant(Field field) throws IOException {
      Long found = Decoder.microseconds(text());
      if (found == null) {
        note(MISMATCH, field, "no date-time with an offset, as 2026-01-31T23:59:59Z");
      } else if (!Decoder.isInCalendar(found.longValue(), Decoder.MICROS_OF_DAY)) {
        note(RANGE, field, "a time outside of the years 1 to 9999, in UTC");
      }
      return found;
    }

    /** JSON text of the current value: without spaces, each number in its own characters. */
    private UTF8String written() throws IOException {
      StringWriter into = new StringWriter();
      JsonGenerator generator = FACTORY.createGenerator(into);
      skip(generator);
      generator.close();
      return UTF8String.fromString(into.toString());
    }

    /** The document as it is, unless a number in it would not come back. */
    private Object variant(Field field) throws IOException {
      scanVariant(field);
      if (problem >= 0) {
        return null;
      }
      JsonParser again = FACTORY.createParser(payload);
      try {
        again.nextToken();
        Variant found = VariantBuilder.parseJson(again, false);
        return new VariantVal(found.getValue(), found.getMetadata());
      } catch (VariantSizeLimitException error) {
        note(TOO_LARGE, field, "too large for a VARIANT");
        return null;
      } finally {
        again.close();
      }
    }

    private void scanVariant(Field field) throws IOException {
      int depth = 0;
      List known = new ArrayList();
      while (true) {
        JsonToken token = parser.currentToken();
        if (token == JsonToken.START_OBJECT || token == JsonToken.START_ARRAY) {
          depth++;
          known.add(token == JsonToken.START_OBJECT ? new HashSet() : null);
        } else if (token == JsonToken.END_OBJECT || token == JsonToken.END_ARRAY) {
          known.remove(--depth);
        } else if (token == JsonToken.FIELD_NAME) {
          if (!((Set) known.get(depth - 1)).add(name())) {
            note(TWICE, null, null);
          }
        } else if (token == JsonToken.VALUE_STRING) {
          if (hasEscapes) {
            text();
          }
        } else if (token.isNumeric() && !comesBackFromVariant()) {
          note(RANGE, field, "a number that a VARIANT does not hold");
        }
        if (depth == 0) {
          return;
        }
        parser.nextToken();
      }
    }

    /** A VARIANT has decimals of 38 digits, and doubles for what is written in another way. */
    private boolean comesBackFromVariant() throws IOException {
      if (parser.getNumberType() == JsonParser.NumberType.INT) {
        return true;
      }
      String written = parser.getText();
      if (written.indexOf('e') < 0 && written.indexOf('E') < 0) {
        BigDecimal number = new BigDecimal(written);
        if (number.precision() <= DECIMAL_DIGITS && number.scale() <= DECIMAL_DIGITS) {
          return true;
        }
      }
      return comesBack(parser.getDoubleValue(), written);
    }

    /** Read the current value to its end, and look for names twice; write it, if asked to. */
    private void skip(JsonGenerator into) throws IOException {
      JsonToken token = parser.currentToken();
      if (token == JsonToken.START_OBJECT) {
        skipObject(into);
      } else if (token == JsonToken.START_ARRAY) {
        if (into != null) {
          into.writeStartArray();
        }
        while (parser.nextToken() != JsonToken.END_ARRAY) {
          skip(into);
        }
        if (into != null) {
          into.writeEndArray();
        }
      } else if (token == JsonToken.VALUE_STRING) {
        if (into != null) {
          into.writeString(text());
        } else if (hasEscapes) {
          text();
        }
      } else if (into != null && token.isNumeric()) {
        into.writeNumber(parser.getText());
      } else if (into != null) {
        into.copyCurrentEvent(parser);
      }
    }

    private void skipObject(JsonGenerator into) throws IOException {
      if (into != null) {
        into.writeStartObject();
      }
      Set known = new HashSet();
      while (parser.nextToken() == JsonToken.FIELD_NAME) {
        String name = name();
        if (!known.add(name)) {
          note(TWICE, null, null);
        }
        if (into != null) {
          into.writeFieldName(name);
        }
        parser.nextToken();
        skip(into);
      }
      if (into != null) {
        into.writeEndObject();
      }
    }

    private String name() throws IOException {
      return checked(parser.currentName());
    }

    private String text() throws IOException {
      return checked(parser.getText());
    }

    /** A text, whose surrogates have to be pairs: half of one would become another character. */
    private String checked(String text) {
      if (!hasEscapes) {
        return text;
      }
      for (int i = 0; i < text.length(); i++) {
        char one = text.charAt(i);
        if (Character.isSurrogate(one)) {
          boolean isPair =
              Character.isHighSurrogate(one)
                  && i + 1 < text.length()
                  && Character.isLowSurrogate(text.charAt(i + 1));
          if (!isPair) {
            note(NO_TEXT, null, null);
            return text;
          }
          i++;
        }
      }
      return text;
    }

    private static boolean hasUnicodeEscapes(byte[] payload) {
      for (int i = 1; i < payload.length; i++) {
        if (payload[i] == 'u' && payload[i - 1] == '\\') {
          return true;
        }
      }
      return false;
    }
  }
}
