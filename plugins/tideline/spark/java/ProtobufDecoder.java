package tideline.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A Protobuf record as a row of typed fields, exact, or what is wrong with it.
 *
 * <p>The wire format is that of protobuf.dev, "Encoding": unknown fields are passed over, of a field
 * that comes twice the last one counts, a message that comes twice is merged, members of a oneof
 * clear each other. Where Google's parsers change a value in silence (a number that is too long for
 * its type, a known field in another encoding) the record is set aside. docs/decoding.md has the
 * rules; Python makes the specification of descriptors (tideline.decoding.spark.protobuf_decoder).
 *
 * <p>It has no state but its specification. Compiled by Janino, see JsonDecoder.
 */
public final class ProtobufDecoder extends Decoder {

  private static final long serialVersionUID = 1L;

  /** What may be wrong: the first of these that is found counts; as model.decoding has it. */
  private static final String[] CLASSES = {
    "framing", "malformed", "invalid_utf8", "type_mismatch", "out_of_range"
  };

  private static final int FRAMING = 0;
  private static final int MALFORMED = 1;
  private static final int NO_TEXT = 2;
  private static final int MISMATCH = 3;
  private static final int RANGE = 4;

  /** Encodings of the wire format. */
  private static final int VARINT = 0;

  private static final int EIGHT_BYTES = 1;
  private static final int LENGTH = 2;
  private static final int GROUP = 3;
  private static final int GROUP_END = 4;
  private static final int FOUR_BYTES = 5;

  /** Levels of messages and groups, as Google's parsers have it. */
  private static final int DEEPEST = 100;

  /** More message indexes are none. */
  private static final int MOST_INDEXES = 100;

  private static final String NAMED =
      "the message's name stands in place of message indexes, as Apicurio's serializers write it";

  private static final int LARGEST_NUMBER = (1 << 29) - 1;

  /** Seconds since 1970 of the first and the last one of the years 1 to 9999. */
  private static final long FIRST_SECOND = -62135596800L;

  private static final long LAST_SECOND = 253402300799L;

  /** Whole numbers beyond this one are not all doubles. */
  private static final long WHOLE = 1L << 53;

  private final Map writers;
  private final boolean isFramed;

  /** @param read See tideline.decoding.spark.protobuf_decoder. */
  public ProtobufDecoder(String specification, JsonNode read) {
    super(specification, read);
    this.isFramed = ((JsonNode) read.get("framed")).booleanValue();
    this.writers = new HashMap();
    JsonNode all = (JsonNode) read.get("writers");
    for (int i = 0; i < all.size(); i++) {
      Writer writer = new Writer((JsonNode) all.get(i));
      writers.put(Integer.valueOf(writer.id), writer);
      for (int n = 0; n < lenient.length; n++) {
        writer.message.beLenient(n, lenient[n]);
      }
    }
  }

  @Override
  public DataType[] inputTypes() {
    return new DataType[] {DataTypes.BinaryType, DataTypes.IntegerType};
  }

  @Override
  public String name() {
    return "decode_protobuf";
  }

  @Override
  public Object produceResult(InternalRow input) {
    byte[] payload = input.isNullAt(0) ? null : input.getBinary(0);
    return invoke(payload, input.isNullAt(1) ? 0 : input.getInt(1));
  }

  /** Spark calls it from the code that it makes; null for a record without a payload. */
  public InternalRow invoke(byte[] payload, int schemaId) {
    if (payload == null) {
      return good(null);
    }
    Writer writer = (Writer) writers.get(Integer.valueOf(schemaId));
    Reading reading = new Reading(payload, writer);
    Object found = null;
    try {
      if (isFramed) {
        reading.passIndexes();
      }
      State state = new State(writer.message);
      reading.message(state, payload.length, 0, 1);
      found = reading.row(state);
    } catch (Unreadable error) {
      // it is noted
    }
    if (reading.problem < 0) {
      return good(found, reading.invalid);
    }
    return bad(CLASSES[reading.problem], reading.said);
  }

  /** Ends the reading of a record. */
  private static final class Unreadable extends RuntimeException {

    private static final long serialVersionUID = 1L;

    Unreadable() {
      super(null, null, false, false);
    }
  }

  /** One schema that records were written with. */
  private static final class Writer implements Serializable {

    private static final long serialVersionUID = 1L;

    final int id;
    final Message message;

    /** Full names of the schema's messages by their indexes, as "0,1". */
    final Map names;

    Writer(JsonNode read) {
      this.id = ((JsonNode) read.get("id")).intValue();
      this.message = new Message((JsonNode) read.get("message"));
      this.names = new HashMap();
      Iterator each = ((JsonNode) read.get("names")).fields();
      while (each.hasNext()) {
        Map.Entry one = (Map.Entry) each.next();
        names.put(one.getKey(), ((JsonNode) one.getValue()).textValue());
      }
    }
  }

  /** A message's fields, and the columns that are made of them. */
  private static final class Message implements Serializable {

    private static final long serialVersionUID = 1L;

    final String name;

    /** By column; null where the writer has no such field. */
    final Field[] columns;

    final Field[] fields;
    final Map byNumber;

    Message(JsonNode read) {
      this.name = ((JsonNode) read.get("name")).textValue();
      JsonNode all = (JsonNode) read.get("fields");
      this.fields = new Field[all.size()];
      this.columns = new Field[((JsonNode) read.get("columns")).intValue()];
      this.byNumber = new HashMap();
      for (int i = 0; i < fields.length; i++) {
        fields[i] = new Field((JsonNode) all.get(i), i, name);
        byNumber.put(Integer.valueOf(fields[i].number), fields[i]);
        if (fields[i].column >= 0) {
          columns[fields[i].column] = fields[i];
        }
      }
    }

    /** Mark the field at the end of a path of columns. */
    void beLenient(int number, int[] path) {
      Message message = this;
      for (int i = 0; i < path.length && message != null; i++) {
        Field field = message.columns[path[i]];
        if (field != null && i == path.length - 1) {
          field.lenient = number;
        }
        message = field == null ? null : field.message;
      }
    }
  }

  /** A field of a writer's message. */
  private static final class Field implements Serializable {

    private static final long serialVersionUID = 1L;

    final int place;
    final int number;
    final String path;
    final String type;

    /** How it is encoded. */
    final int wire;

    /** Place of its column; -1 for none: then its value is only passed over. */
    final int column;

    /** What its column holds: the first letter of a kind, r for a record, k for a map's key. */
    final char kind;

    final boolean isList;
    final boolean isMap;
    final boolean isPackable;
    final boolean hasPresence;
    final boolean isRequired;

    /** Its oneof; -1 for none. */
    final int oneof;

    final Map symbols;
    final int first;

    /** Of a record, a wrapper, a time, and of a map's entry, whose fields are key and value. */
    final Message message;

    final boolean isWrapper;

    /** Its number among the lenient places; -1 for none. */
    int lenient = -1;

    Field(JsonNode read, int place, String message) {
      this.place = place;
      this.number = ((JsonNode) read.get("number")).intValue();
      this.path = message + "." + ((JsonNode) read.get("name")).textValue();
      this.type = ((JsonNode) read.get("type")).textValue();
      this.wire = wireOf(type);
      this.column = ((JsonNode) read.get("column")).intValue();
      this.kind = ((JsonNode) read.get("kind")).textValue().charAt(0);
      this.isList = ((JsonNode) read.get("list")).booleanValue();
      this.isMap = ((JsonNode) read.get("map")).booleanValue();
      this.isPackable = ((JsonNode) read.get("repeated")).booleanValue() && wire != LENGTH;
      this.hasPresence = ((JsonNode) read.get("presence")).booleanValue();
      this.isRequired = ((JsonNode) read.get("required")).booleanValue();
      this.oneof = ((JsonNode) read.get("oneof")).intValue();
      this.isWrapper = ((JsonNode) read.get("wrapper")).booleanValue();
      this.message = read.has("message") ? new Message((JsonNode) read.get("message")) : null;
      this.first = read.has("first") ? ((JsonNode) read.get("first")).intValue() : 0;
      this.symbols = new HashMap();
      if (read.has("symbols")) {
        Iterator each = ((JsonNode) read.get("symbols")).fields();
        while (each.hasNext()) {
          Map.Entry one = (Map.Entry) each.next();
          symbols.put(
              Integer.valueOf((String) one.getKey()), ((JsonNode) one.getValue()).textValue());
        }
      }
    }

    private static int wireOf(String type) {
      if ("double".equals(type) || "fixed64".equals(type) || "sfixed64".equals(type)) {
        return EIGHT_BYTES;
      }
      if ("float".equals(type) || "fixed32".equals(type) || "sfixed32".equals(type)) {
        return FOUR_BYTES;
      }
      if ("string".equals(type) || "bytes".equals(type) || "message".equals(type)) {
        return LENGTH;
      }
      return "group".equals(type) ? GROUP : VARINT;
    }

    UTF8String symbol(int number) {
      Object found = symbols.get(Integer.valueOf(number));
      return UTF8String.fromString(found == null ? String.valueOf(number) : (String) found);
    }
  }

  /** What was read of a message so far, by the fields' places. */
  private static final class State {

    final Message message;
    final Object[] found;
    final boolean[] seen;

    /** Which lenient fields were given what they cannot hold. */
    final boolean[] invalid;

    State(Message message) {
      this.message = message;
      this.found = new Object[message.fields.length];
      this.seen = new boolean[message.fields.length];
      this.invalid = new boolean[message.fields.length];
    }
  }

  /** One record while it is read. */
  private static final class Reading {

    private final byte[] data;
    private final Writer writer;
    private int at;

    /** Whether the last number had more than 64 bits, as other parsers allow it. */
    private boolean isCut;

    int problem = -1;
    String said;

    /** Numbers of the lenient places that hold nothing; null for none. */
    List invalid;

    Reading(byte[] data, Writer writer) {
      this.data = data;
      this.writer = writer;
    }

    void note(int found, String what) {
      if (problem < 0 || found < problem) {
        problem = found;
        said = what;
      }
    }

    private Unreadable malformed() {
      note(MALFORMED, "not a " + writer.message.name);
      return new Unreadable();
    }

    /** Confluent's message indexes: a count and so many numbers, zigzag; 0 alone is the first. */
    void passIndexes() {
      int begin = at;
      long count = index();
      if (count < 0 || count > MOST_INDEXES) {
        throw misframed(isNamed(begin) ? NAMED : "the message indexes are wrong");
      }
      StringBuilder path = new StringBuilder(count == 0 ? "0" : "");
      for (long i = 0; i < count; i++) {
        path.append(i == 0 ? "" : ",").append(index());
      }
      Object name = writer.names.get(path.toString());
      if (name == null) {
        throw misframed(isNamed(begin) ? NAMED : "message indexes that the schema does not have");
      }
      if (!name.equals(writer.message.name)) {
        note(MISMATCH, "the message is a " + name + ", and no " + writer.message.name);
        throw new Unreadable();
      }
    }

    /** Apicurio's way: a message of a length, whose field 1 is the name and ends where it ends. */
    private boolean isNamed(int begin) {
      return data.length >= begin + 3
          && data[begin + 1] == (1 << 3 | LENGTH)
          && data[begin + 2] > 0
          && data[begin] == data[begin + 2] + 2
          && data.length >= begin + 3 + data[begin + 2];
    }

    private long index() {
      long number = 0;
      for (int i = 0; i < 5 && at < data.length; i++) {
        byte one = data[at++];
        number |= (long) (one & 0x7F) << (7 * i);
        if (one >= 0) {
          return (number >>> 1) ^ -(number & 1);
        }
      }
      throw misframed("the message indexes are cut off, or too long");
    }

    private Unreadable misframed(String what) {
      note(FRAMING, what);
      return new Unreadable();
    }

    /**
     * Read a message's fields.
     *
     * @param end Where it ends at the latest, exclusive; a group ends by a tag.
     * @param group Number of the group; 0 for a message.
     */
    void message(State into, int end, int group, int depth) {
      if (depth > DEEPEST) {
        throw malformed();
      }
      while (group != 0 || at < end) {
        long tag = varint(end);
        int number = (int) (tag >>> 3);
        int wire = (int) (tag & 7);
        if (tag >>> 32 != 0 || number == 0 || number > LARGEST_NUMBER) {
          throw malformed();
        }
        if (wire == GROUP_END) {
          if (group != number) {
            throw malformed();
          }
          return;
        }
        Field field = into == null ? null : (Field) into.message.byNumber.get(Integer.valueOf(number));
        if (field == null) {
          skip(number, wire, end, depth);
        } else if (field.lenient < 0) {
          read(field, into, number, wire, end, depth);
        } else {
          int before = problem;
          String what = said;
          problem = -1;
          read(field, into, number, wire, end, depth);
          if (settled(before, what)) {
            into.invalid[field.place] = true;
          }
        }
      }
    }

    private void read(Field field, State into, int number, int wire, int end, int depth) {
      if (wire == field.wire) {
        value(field, into, number, end, depth);
      } else if (field.isPackable && wire == LENGTH) {
        packed(field, into, end);
      } else {
        note(MISMATCH, field.path + ": a field in the encoding of another type");
        skip(number, wire, end, depth);
      }
    }

    /** Whether a lenient field was given what it cannot hold; what else is wrong stays noted. */
    private boolean settled(int before, String what) {
      boolean isInvalid = problem == RANGE;
      if (isInvalid || problem < 0 || before >= 0 && before <= problem) {
        problem = before;
        said = what;
      }
      return isInvalid;
    }

    private void skip(int number, int wire, int end, int depth) {
      switch (wire) {
        case VARINT:
          varint(end);
          break;
        case EIGHT_BYTES:
          pass(8, end);
          break;
        case LENGTH:
          pass(length(end), end);
          break;
        case GROUP:
          message(null, end, number, depth + 1);
          break;
        case FOUR_BYTES:
          pass(4, end);
          break;
        default:
          throw malformed();
      }
    }

    private void value(Field field, State into, int number, int end, int depth) {
      into.seen[field.place] = true;
      if (field.oneof >= 0) {
        clear(field, into);
      }
      if (field.column < 0) {
        skip(number, field.wire, end, depth);
      } else if (field.isMap) {
        entry(field, into, end, depth);
      } else if (field.isList) {
        list(field, into).add(
            field.message == null
                ? scalar(field, end)
                : inner(field, new State(field.message), number, end, depth));
      } else if (field.message == null) {
        into.found[field.place] = scalar(field, end);
      } else {
        Object known = into.found[field.place];
        State state = known == null ? new State(field.message) : (State) known;
        into.found[field.place] = inner(field, state, number, end, depth);
      }
    }

    private void clear(Field field, State into) {
      Field[] all = into.message.fields;
      for (int i = 0; i < all.length; i++) {
        if (all[i].oneof == field.oneof && i != field.place) {
          into.found[i] = null;
          into.seen[i] = false;
          into.invalid[i] = false;
        }
      }
    }

    private static List list(Field field, State into) {
      if (into.found[field.place] == null) {
        into.found[field.place] = new ArrayList();
      }
      return (List) into.found[field.place];
    }

    private void packed(Field field, State into, int end) {
      into.seen[field.place] = true;
      int stop = length(end) + at;
      List found = list(field, into);
      while (at < stop) {
        found.add(scalar(field, stop));
      }
    }

    private State inner(Field field, State into, int number, int end, int depth) {
      if (field.wire == GROUP) {
        message(into, end, number, depth + 1);
      } else {
        int stop = length(end) + at;
        message(into, stop, 0, depth + 1);
      }
      return into;
    }

    private void entry(Field field, State into, int end, int depth) {
      State made = inner(field, new State(field.message), 0, end, depth);
      Object known = into.found[field.place];
      Map map = known == null ? new TreeMap() : (Map) known;
      into.found[field.place] = map;
      Field key = field.message.columns[0];
      Object found = made.found[key.place];
      map.put(found == null ? key(key, 0) : found, made);
    }

    /** A map's key, such that keys are sorted as numbers and texts are. */
    private static Object key(Field field, long number) {
      if ("string".equals(field.type)) {
        return UTF8String.EMPTY_UTF8;
      }
      if ("uint64".equals(field.type) || "fixed64".equals(field.type)) {
        return new BigInteger(Long.toUnsignedString(number));
      }
      return "bool".equals(field.type) ? (Object) Boolean.valueOf(number != 0) : Long.valueOf(number);
    }

    private Object scalar(Field field, int end) {
      if (field.wire == LENGTH) {
        return bytes(field, end);
      }
      long number;
      switch (field.wire) {
        case EIGHT_BYTES:
          number = fixed(8, end);
          break;
        case FOUR_BYTES:
          number = fixed(4, end);
          break;
        default:
          number = varint(end);
          refuse(field, isCut);
      }
      String type = field.type;
      if ("double".equals(type)) {
        return Double.valueOf(Double.longBitsToDouble(number));
      }
      if ("float".equals(type)) {
        return Double.valueOf(Float.intBitsToFloat((int) number));
      }
      if ("sint32".equals(type)) {
        refuse(field, number >>> 32 != 0);
        number = (number >>> 1) ^ -(number & 1);
      } else if ("sint64".equals(type)) {
        number = (number >>> 1) ^ -(number & 1);
      } else if ("int32".equals(type) || "enum".equals(type)) {
        refuse(field, number != (int) number);
      } else if ("uint32".equals(type)) {
        refuse(field, number >>> 32 != 0);
      } else if ("sfixed32".equals(type)) {
        number = (int) number;
      }
      return number(field, number);
    }

    private void refuse(Field field, boolean isTooLong) {
      if (isTooLong) {
        note(RANGE, field.path + ": a number beyond " + field.type);
      }
    }

    private Object number(Field field, long number) {
      boolean isUnsigned = "uint64".equals(field.type) || "fixed64".equals(field.type);
      switch (field.kind) {
        case 'k':
          return key(field, number);
        case 'b':
          return Boolean.valueOf(number != 0);
        case 'e':
          return field.symbol((int) number);
        case 'u':
          String digits = isUnsigned ? Long.toUnsignedString(number) : String.valueOf(number);
          return Decimal.apply(new BigDecimal(digits), 20, 0);
        case 'd':
          refuse(field, number > WHOLE || number < -WHOLE);
          return Double.valueOf(number);
        default:
          refuse(field, isUnsigned && number < 0);
          return Long.valueOf(number);
      }
    }

    /** A text or bytes, whichever the column holds. */
    private Object bytes(Field field, int end) {
      int length = length(end);
      int from = at;
      at += length;
      boolean isText = "string".equals(field.type) || field.kind != 'b';
      UTF8String text = isText ? UTF8String.fromBytes(data, from, length) : null;
      if (text != null && !text.isValid()) {
        note(NO_TEXT, field.path + ": invalid UTF-8 in a string");
      }
      return field.kind == 'b' ? (Object) Arrays.copyOfRange(data, from, at) : text;
    }

    private long varint(int end) {
      long number = 0;
      for (int i = 0; i < 10; i++) {
        if (at >= end) {
          throw malformed();
        }
        byte one = data[at++];
        isCut = i == 9 && (one & 0xFE) != 0;
        number |= (long) (one & 0x7F) << (7 * i);
        if (one >= 0) {
          return number;
        }
      }
      throw malformed();
    }

    private long fixed(int count, int end) {
      int from = at;
      pass(count, end);
      long number = 0;
      for (int i = count - 1; i >= 0; i--) {
        number = number << 8 | data[from + i] & 0xFF;
      }
      return number;
    }

    private int length(int end) {
      long found = varint(end);
      if (found < 0 || found > end - at) {
        throw malformed();
      }
      return (int) found;
    }

    private void pass(int count, int end) {
      if (count > end - at) {
        throw malformed();
      }
      at += count;
    }

    /** The columns of a message that was read whole. */
    InternalRow row(State state) {
      Field[] fields = state.message.fields;
      for (int i = 0; i < fields.length; i++) {
        if (fields[i].isRequired && !state.seen[i]) {
          note(MALFORMED, fields[i].path + ": a required field is missing");
        }
      }
      Field[] columns = state.message.columns;
      Object[] made = new Object[columns.length];
      for (int i = 0; i < made.length; i++) {
        if (columns[i] != null && columns[i].lenient >= 0) {
          made[i] = lenient(columns[i], state);
        } else {
          made[i] = columns[i] == null ? null : column(columns[i], state.found[columns[i].place]);
        }
      }
      return new GenericInternalRow(made);
    }

    private Object lenient(Field field, State state) {
      int before = problem;
      String what = said;
      problem = -1;
      Object found = column(field, state.found[field.place]);
      if (settled(before, what) || state.invalid[field.place]) {
        invalid = invalid == null ? new ArrayList() : invalid;
        invalid.add(Integer.valueOf(field.lenient));
        return null;
      }
      return found;
    }

    private Object column(Field field, Object found) {
      if (field.isMap) {
        return map(field, (Map) found);
      }
      if (field.isList) {
        List all = found == null ? new ArrayList() : (List) found;
        Object[] made = new Object[all.size()];
        for (int i = 0; i < made.length; i++) {
          made[i] = single(field, all.get(i));
        }
        return new GenericArrayData(made);
      }
      return single(field, found);
    }

    private Object map(Field field, Map found) {
      int size = found == null ? 0 : found.size();
      Object[] keys = new Object[size];
      Object[] values = new Object[size];
      Iterator each = size == 0 ? null : found.entrySet().iterator();
      Field value = field.message.columns[1];
      for (int i = 0; i < size; i++) {
        Map.Entry one = (Map.Entry) each.next();
        Object key = one.getKey();
        keys[i] = key instanceof UTF8String ? key : UTF8String.fromString(String.valueOf(key));
        State state = (State) one.getValue();
        Object given = state.found[value.place];
        if (given == null && value.message != null) {
          given = new State(value.message);
        }
        values[i] = given == null ? missing(value) : single(value, given);
      }
      return new ArrayBasedMapData(new GenericArrayData(keys), new GenericArrayData(values));
    }

    private Object single(Field field, Object found) {
      if (found == null) {
        return field.hasPresence ? null : missing(field);
      }
      if (field.message == null) {
        return found;
      }
      State state = (State) found;
      if (field.isWrapper) {
        Field inner = field.message.columns[0];
        return single(inner, state.found[inner.place]);
      }
      return field.kind == 't' ? instant(field, state) : row(state);
    }

    /** What stands for a scalar that is not there. */
    private static Object missing(Field field) {
      switch (field.kind) {
        case 'e':
          return field.symbol(field.first);
        case 's':
          return UTF8String.EMPTY_UTF8;
        case 'd':
          return Double.valueOf(0);
        case 'u':
          return Decimal.apply(BigDecimal.ZERO, 20, 0);
        case 'b':
          return "bool".equals(field.type) ? (Object) Boolean.FALSE : new byte[0];
        default:
          return Long.valueOf(0);
      }
    }

    /** Microseconds since 1970 of Protobuf's Timestamp; what is smaller is cut off. */
    private Object instant(Field field, State state) {
      Object[] parts = state.found;
      long seconds = parts[0] == null ? 0 : ((Long) parts[0]).longValue();
      long nanos = parts[1] == null ? 0 : ((Long) parts[1]).longValue();
      if (seconds < FIRST_SECOND || seconds > LAST_SECOND || nanos < 0 || nanos > 999999999L) {
        note(RANGE, field.path + ": a time is not within the years 1 to 9999");
      }
      return Long.valueOf(seconds * 1000000L + nanos / 1000);
    }
  }
}
