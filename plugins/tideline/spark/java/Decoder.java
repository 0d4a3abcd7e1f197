package tideline.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * What the decoders of all formats are to Spark: a function of a payload, that gives the fields, or
 * the class and the text of an error.
 *
 * <p>A specification may name lenient places: the fields at the end of paths of columns. What such a
 * field cannot hold is null, and no error; the record tells these places by their numbers.
 *
 * <p>It has no state but its specification: tasks of one executor may share it. Spark calls a
 * method `invoke` of the formats' own from the code that it makes.
 */
abstract class Decoder implements UnboundFunction, ScalarFunction, Serializable {

  private static final long serialVersionUID = 1L;

  static final long MICROS_OF_DAY = 86400000000L;

  /** Days since 1970 of the first and the last day that every reader knows: years 1 to 9999. */
  private static final long FIRST_DAY = -719162;

  private static final long LAST_DAY = 2932896;

  /** Of a decimal that brings its scale: as many as PostgreSQL has behind the point, and in all. */
  static final int MOST_SCALE = 16383;

  static final int MOST_BYTES = 65536;

  private final String specification;
  private final StructType type;

  /** Places of columns, outermost first, that lead to each lenient field. */
  final int[][] lenient;

  /** @param read The specification; its key `type` is the fields' struct, as Spark writes it. */
  Decoder(String specification, JsonNode read) {
    this.specification = specification;
    this.lenient = lenientOf(read);
    DataType fields = DataType.fromJson(read.get("type").toString());
    this.type =
        new StructType(
            new StructField[] {
              DataTypes.createStructField("fields", fields, true),
              DataTypes.createStructField("error_class", DataTypes.StringType, true),
              DataTypes.createStructField("error", DataTypes.StringType, true),
              DataTypes.createStructField(
                  "invalid", DataTypes.createArrayType(DataTypes.IntegerType), true)
            });
  }

  private static int[][] lenientOf(JsonNode read) {
    JsonNode all = read.has("lenient") ? (JsonNode) read.get("lenient") : null;
    int[][] found = new int[all == null ? 0 : all.size()][];
    for (int i = 0; i < found.length; i++) {
      JsonNode path = (JsonNode) all.get(i);
      found[i] = new int[path.size()];
      for (int n = 0; n < found[i].length; n++) {
        found[i][n] = ((JsonNode) path.get(n)).intValue();
      }
    }
    return found;
  }

  @Override
  public BoundFunction bind(StructType given) {
    return this;
  }

  @Override
  public String description() {
    return name();
  }

  @Override
  public DataType resultType() {
    return type;
  }

  @Override
  public String canonicalName() {
    return getClass().getName() + " " + specification;
  }

  /** A good record; all is null for one without a payload. */
  static InternalRow good(Object fields) {
    return good(fields, null);
  }

  /** @param invalid Numbers of lenient places whose value is null for what it was; may be null. */
  static InternalRow good(Object fields, List invalid) {
    Object told = invalid == null ? null : new GenericArrayData(invalid.toArray());
    return new GenericInternalRow(new Object[] {fields, null, null, told});
  }

  static InternalRow bad(String errorClass, String error) {
    return new GenericInternalRow(
        new Object[] {null, UTF8String.fromString(errorClass), UTF8String.fromString(error), null});
  }

  /** The day of ten characters as 2026-01-31; null for others. */
  static LocalDate dateOf(String given) {
    int year = digits(given, 0, 4);
    int month = digits(given, 5, 2);
    int day = digits(given, 8, 2);
    if (year < 1 || month < 0 || day < 0 || given.charAt(4) != '-' || given.charAt(7) != '-') {
      return null;
    }
    try {
      return LocalDate.of(year, month, day);
    } catch (DateTimeException error) {
      return null;
    }
  }

  /** Microseconds of a date-time of RFC 3339; null for any other text. */
  static Long microseconds(String given) {
    int length = given.length();
    if (length < 20 || given.charAt(13) != ':' || given.charAt(16) != ':') {
      return null;
    }
    LocalDate date = dateOf(given);
    int hour = digits(given, 11, 2);
    int minute = digits(given, 14, 2);
    int second = digits(given, 17, 2);
    if (date == null || (given.charAt(10) | 32) != 't' || hour < 0 || minute < 0 || second < 0) {
      return null;
    }
    if (hour > 23 || minute > 59 || second > 59) {
      return null;
    }
    int at = 19;
    int parts = 0;
    if (given.charAt(at) == '.') {
      int first = ++at;
      while (at < length && given.charAt(at) >= '0' && given.charAt(at) <= '9') {
        parts = at - first < 6 ? parts * 10 + given.charAt(at) - '0' : parts;
        at++;
      }
      if (at == first) {
        return null;
      }
      for (int i = at - first; i < 6; i++) {
        parts *= 10;
      }
    }
    if (at == length) {
      return null;
    }
    int shift = 0;
    if ((given.charAt(at) | 32) != 'z') {
      int hours = at + 6 == length ? digits(given, at + 1, 2) : -1;
      int minutes = at + 6 == length ? digits(given, at + 4, 2) : -1;
      char sign = given.charAt(at);
      if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59) {
        return null;
      }
      if (given.charAt(at + 3) != ':' || (sign != '+' && sign != '-')) {
        return null;
      }
      shift = (hours * 60 + minutes) * (sign == '+' ? 60 : -60);
    } else if (at + 1 != length) {
      return null;
    }
    long seconds = date.toEpochDay() * 86400L + hour * 3600L + minute * 60L + second - shift;
    return Long.valueOf(seconds * 1000000L + parts);
  }

  /**
   * Whether a time since 1970 is within the years 1 to 9999.
   *
   * @param ofDay How many of the number's units a day has.
   */
  static boolean isInCalendar(long number, long ofDay) {
    return number >= FIRST_DAY * ofDay && number < (LAST_DAY + 1) * ofDay;
  }

  /** A decimal's own characters; null for one with more digits than PostgreSQL has. */
  static UTF8String ownCharacters(byte[] digits, long scale) {
    if (Math.abs(scale) > MOST_SCALE || digits.length > MOST_BYTES) {
      return null;
    }
    BigDecimal found = new BigDecimal(new BigInteger(digits), (int) scale);
    return UTF8String.fromString(found.toPlainString());
  }

  /** A number of some digits; -1 where others stand there. */
  static int digits(String given, int from, int count) {
    int found = 0;
    for (int i = from; i < from + count; i++) {
      char digit = given.charAt(i);
      if (digit < '0' || digit > '9') {
        return -1;
      }
      found = found * 10 + digit - '0';
    }
    return found;
  }
}
