package tideline.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * An Avro record as a row of typed fields, exact, or what is wrong with it.
 *
 * <p>The encoding is that of avro.apache.org, "Binary Encoding". A writer's schema is held against
 * the reader's when the function is made: both call a field, a named type and a member of a union
 * by the same name (tideline.decoding.schemas.avro). Counts and lengths are bounded by the bytes
 * that are there. Where Avro's own reader changes a value in silence (a decimal with more digits
 * than its column, a time beyond the calendar) the record is set aside. docs/decoding.md has the
 * rules.
 *
 * <p>It has no state but its specification. Compiled by Janino, see JsonDecoder.
 */
public final class AvroDecoder extends Decoder {

  private static final long serialVersionUID = 1L;

  /** What may be wrong: the first of these that is found counts; as model.decoding has it. */
  private static final String[] CLASSES = {
    "malformed", "trailing_bytes", "invalid_utf8", "out_of_range", "type_mismatch"
  };

  private static final int MALFORMED = 0;
  private static final int TRAILING = 1;
  private static final int NO_TEXT = 2;
  private static final int RANGE = 3;
  private static final int MISMATCH = 4;

  /** Whole numbers beyond this one are not all doubles. */
  private static final long WHOLE = 1L << 53;

  /** Bits of the largest decimal of 38 digits. */
  private static final int MOST_BITS = 127;

  /** Items without any bytes of their own, where a record has fewer bytes than that. */
  private static final int FEW_ITEMS = 1000;

  private final Map writers;

  /** @param read See tideline.decoding.spark.avro_decoder. */
  public AvroDecoder(String specification, JsonNode read) {
    super(specification, read);
    Map places = new HashMap();
    JsonNode columns = (JsonNode) read.get("columns");
    for (int i = 0; i < columns.size(); i++) {
      places.put(((JsonNode) columns.get(i)).textValue(), Integer.valueOf(i));
    }
    Schema reader = parsed((JsonNode) read.get("reader"));
    this.writers = new HashMap();
    JsonNode all = (JsonNode) read.get("writers");
    for (int i = 0; i < all.size(); i++) {
      JsonNode one = (JsonNode) all.get(i);
      Node node = Node.root(parsed((JsonNode) one.get("text")), reader, places);
      for (int n = 0; n < lenient.length; n++) {
        node.beLenient(n, lenient[n], 0);
      }
      writers.put(Integer.valueOf(((JsonNode) one.get("id")).intValue()), node);
    }
  }

  private static Schema parsed(JsonNode text) {
    return new Schema.Parser().setValidateDefaults(false).parse(text.textValue());
  }

  @Override
  public DataType[] inputTypes() {
    return new DataType[] {DataTypes.BinaryType, DataTypes.IntegerType};
  }

  @Override
  public String name() {
    return "decode_avro";
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
    Reading reading = new Reading(payload, schemaId);
    Object found = null;
    try {
      found = reading.value((Node) writers.get(Integer.valueOf(schemaId)));
      if (reading.at < payload.length) {
        reading.note(TRAILING, "bytes follow the record of " + reading.schema);
      }
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

  /** A type of a writer's schema, and what becomes of its values. */
  private static final class Node implements Serializable {

    private static final long serialVersionUID = 1L;

    /** Avro's name of the type. */
    final String kind;

    /** The field, for messages. */
    final String path;

    /** What a column holds: see `target`; a space where nothing is kept. */
    char to = ' ';

    /** Its number among the lenient places; -1 for none. */
    int lenient = -1;

    /** Place in a union's struct; -1 for none. */
    int member = -1;

    /** How many members that struct has. */
    int members;

    int size;
    int scale;
    int precision;
    UTF8String[] symbols;

    /** Of an array, a map, a union, a record. */
    Node[] inner;

    /** Columns of a record's fields; -1 for a field that is passed over. */
    int[] places;

    int columns;

    /** How many bytes a value has at least. */
    int least = 1;

    Node(Schema writer, String path) {
      this.kind = writer.getType().getName();
      this.path = path;
    }

    /** Of a whole value: the record, null, or a union of these. */
    static Node root(Schema writer, Schema reader, Map places) {
      Node node = new Node(writer, "");
      if ("union".equals(node.kind)) {
        List branches = writer.getTypes();
        node.inner = new Node[branches.size()];
        for (int i = 0; i < node.inner.length; i++) {
          node.inner[i] = root((Schema) branches.get(i), reader, places);
        }
      } else if ("record".equals(node.kind)) {
        node.asRecord(writer, reader, places);
      }
      return node;
    }

    /** @param reader Null where nothing is kept. */
    static Node of(Schema writer, Schema reader, String path) {
      Node node = new Node(writer, path);
      if ("union".equals(node.kind)) {
        List branches = writer.getTypes();
        node.inner = new Node[branches.size()];
        for (int i = 0; i < node.inner.length; i++) {
          node.inner[i] = of((Schema) branches.get(i), reader, path);
        }
        return node;
      }
      if ("null".equals(node.kind)) {
        node.least = 0;
        return node;
      }
      Schema chosen = reader;
      if (reader != null && "union".equals(reader.getType().getName())) {
        chosen = node.chosen(writer, reader);
      }
      node.resolve(writer, chosen);
      return node;
    }

    /** The reader's member that a writer's type is read as. */
    private Schema chosen(Schema writer, Schema reader) {
      List there = new ArrayList();
      List all = reader.getTypes();
      for (int i = 0; i < all.size(); i++) {
        if (!"null".equals(((Schema) all.get(i)).getType().getName())) {
          there.add(all.get(i));
        }
      }
      int found = there.size() == 1 ? 0 : matching(writer, there);
      if (there.size() > 1) {
        member = found;
        members = there.size();
      }
      return (Schema) there.get(found);
    }

    private int matching(Schema writer, List there) {
      for (int i = 0; i < there.size(); i++) {
        Schema one = (Schema) there.get(i);
        boolean isNamed = "record".equals(kind) || "enum".equals(kind) || "fixed".equals(kind);
        if (kind.equals(one.getType().getName())
            && (!isNamed || writer.getFullName().equals(one.getFullName()))) {
          return i;
        }
      }
      for (int i = 0; i < there.size(); i++) {
        if (isWider(((Schema) there.get(i)).getType().getName())) {
          return i;
        }
      }
      throw new IllegalArgumentException(path + ": no member of the union is a " + kind);
    }

    private boolean isWider(String other) {
      if ("int".equals(kind)) {
        return "long".equals(other) || "double".equals(other);
      }
      return "float".equals(kind) && "double".equals(other)
          || "string".equals(kind) && "bytes".equals(other)
          || "bytes".equals(kind) && "string".equals(other);
    }

    private void resolve(Schema writer, Schema reader) {
      if ("record".equals(kind) && reader != null && isMarked(reader, "any_scale")) {
        asAnyScale(writer.getFields());
        return;
      }
      if ("record".equals(kind)) {
        asRecord(writer, reader, reader == null ? new HashMap() : placesOf(reader));
        return;
      }
      if ("array".equals(kind) || "map".equals(kind)) {
        boolean isArray = "array".equals(kind);
        Schema read = reader == null ? null : isArray ? reader.getElementType() : reader.getValueType();
        Schema item = isArray ? writer.getElementType() : writer.getValueType();
        inner = new Node[] {of(item, read, path)};
        to = reader == null ? ' ' : 'C';
        return;
      }
      if ("fixed".equals(kind)) {
        size = writer.getFixedSize();
        least = size;
      } else if ("float".equals(kind)) {
        least = 4;
      } else if ("double".equals(kind)) {
        least = 8;
      } else if ("enum".equals(kind)) {
        List names = writer.getEnumSymbols();
        symbols = new UTF8String[names.size()];
        for (int i = 0; i < symbols.length; i++) {
          symbols[i] = UTF8String.fromString((String) names.get(i));
        }
      }
      if (reader != null) {
        to = target(reader);
      }
    }

    void asRecord(Schema writer, Schema reader, Map known) {
      List fields = writer.getFields();
      inner = new Node[fields.size()];
      places = new int[inner.length];
      columns = known.size();
      to = reader == null ? ' ' : 'C';
      least = 0;
      for (int i = 0; i < inner.length; i++) {
        Schema.Field field = (Schema.Field) fields.get(i);
        Integer place = (Integer) known.get(field.name());
        places[i] = place == null ? -1 : place.intValue();
        Schema read = place == null ? null : reader.getField(field.name()).schema();
        String inside = path.length() == 0 ? field.name() : path + "." + field.name();
        inner[i] = of(field.schema(), read, inside);
        least += inner[i].least;
      }
    }

    /** Mark what is at the end of a path of columns, from one of its steps on. */
    void beLenient(int number, int[] path, int from) {
      if (from == path.length) {
        lenient = number;
      } else if ("union".equals(kind)) {
        for (int i = 0; i < inner.length; i++) {
          inner[i].beLenient(number, path, from);
        }
      } else if (places != null) {
        for (int i = 0; i < places.length; i++) {
          if (places[i] == path[from]) {
            inner[i].beLenient(number, path, from + 1);
          }
        }
      }
    }

    private static boolean isMarked(Schema reader, String name) {
      return Boolean.TRUE.equals(reader.getObjectProp(name));
    }

    /** Two fields, a scale and digits, that are one decimal. */
    private void asAnyScale(List fields) {
      inner = new Node[2];
      to = 'V';
      least = 0;
      for (int i = 0; i < inner.length; i++) {
        Schema part = ((Schema.Field) fields.get(i)).schema();
        inner[i] = of(part, part, path);
        least += inner[i].least;
      }
    }

    private static Map placesOf(Schema reader) {
      Map found = new HashMap();
      List fields = reader.getFields();
      for (int i = 0; i < fields.size(); i++) {
        found.put(((Schema.Field) fields.get(i)).name(), Integer.valueOf(i));
      }
      return found;
    }

    /** What the reader's type makes of a scalar. */
    private char target(Schema reader) {
      String type = reader.getType().getName();
      String logical = reader.getProp("logicalType");
      if ("decimal".equals(logical)) {
        Object digits = reader.getObjectProp("scale");
        scale = digits == null ? 0 : ((Number) digits).intValue();
        precision = ((Number) reader.getObjectProp("precision")).intValue();
        return 'N';
      }
      if ("int".equals(type) && "date".equals(logical)) {
        return 'A';
      }
      if ("int".equals(type) && "time-millis".equals(logical)) {
        return 'I';
      }
      if ("long".equals(type) && "timestamp-millis".equals(logical)) {
        return 'M';
      }
      if ("long".equals(type) && "timestamp-micros".equals(logical)) {
        return 'U';
      }
      if ("int".equals(type) || "long".equals(type)) {
        return 'L';
      }
      if ("float".equals(type) || "double".equals(type)) {
        return 'D';
      }
      if ("string".equals(type) && isMarked(reader, "zoned")) {
        return 'Z';
      }
      if ("string".equals(type) || "enum".equals(type)) {
        return 'T';
      }
      return "boolean".equals(type) ? 'B' : 'Y';
    }
  }

  /** One record while it is read. */
  private static final class Reading {

    final byte[] data;
    final String schema;
    int at;
    int problem = -1;
    String said;

    /** Numbers of the lenient places that hold nothing; null for none. */
    List invalid;

    Reading(byte[] data, int schemaId) {
      this.data = data;
      this.schema = schemaId >= 0 ? "schema " + schemaId : "the schema";
    }

    void note(int found, String what) {
      if (problem < 0 || found < problem) {
        problem = found;
        said = what;
      }
    }

    Unreadable malformed() {
      note(MALFORMED, "not a record of " + schema);
      return new Unreadable();
    }

    /** A value; null for what a lenient field cannot hold, which is noted as that alone. */
    Object value(Node node) {
      if (node.lenient < 0) {
        return strict(node);
      }
      int before = problem;
      String what = said;
      problem = -1;
      Object found = strict(node);
      if (problem >= RANGE) {
        invalid = invalid == null ? new ArrayList() : invalid;
        invalid.add(Integer.valueOf(node.lenient));
        found = null;
      } else if (problem >= 0 && (before < 0 || problem < before)) {
        return found;
      }
      problem = before;
      said = what;
      return found;
    }

    /** A value in its column's form; null as well where nothing is kept. */
    private Object strict(Node node) {
      String kind = node.kind;
      if ("union".equals(kind)) {
        long branch = number(64);
        if (branch < 0 || branch >= node.inner.length) {
          throw malformed();
        }
        return value(node.inner[(int) branch]);
      }
      Object found = plain(node, kind);
      if (node.member < 0 || found == null) {
        return found;
      }
      Object[] members = new Object[node.members];
      members[node.member] = found;
      return new GenericInternalRow(members);
    }

    private Object plain(Node node, String kind) {
      if ("string".equals(kind) || "bytes".equals(kind)) {
        return bytes(node, length());
      }
      if ("long".equals(kind)) {
        return whole(node, number(64));
      }
      if ("int".equals(kind)) {
        return whole(node, number(32));
      }
      if ("record".equals(kind)) {
        return node.to == 'V' ? anyScale(node) : record(node);
      }
      if ("double".equals(kind)) {
        double found = Double.longBitsToDouble(fixed(8));
        return node.to == ' ' ? null : Double.valueOf(found);
      }
      if ("float".equals(kind)) {
        float found = Float.intBitsToFloat((int) fixed(4));
        return node.to == ' ' ? null : Double.valueOf(found);
      }
      if ("boolean".equals(kind)) {
        pass(1);
        byte found = data[at - 1];
        if (found != 0 && found != 1) {
          throw malformed();
        }
        if (node.to == 'T') {
          return UTF8String.fromString(found == 1 ? "true" : "false");
        }
        return node.to == ' ' ? null : Boolean.valueOf(found == 1);
      }
      if ("enum".equals(kind)) {
        long symbol = number(32);
        if (symbol < 0 || symbol >= node.symbols.length) {
          throw malformed();
        }
        return node.to == ' ' ? null : node.symbols[(int) symbol];
      }
      if ("fixed".equals(kind)) {
        return bytes(node, node.size);
      }
      if ("array".equals(kind)) {
        return array(node);
      }
      return "map".equals(kind) ? map(node) : null;
    }

    private Object record(Node node) {
      Object[] made = node.to == ' ' ? null : new Object[node.columns];
      for (int i = 0; i < node.inner.length; i++) {
        Object found = value(node.inner[i]);
        if (node.places[i] >= 0) {
          made[node.places[i]] = found;
        }
      }
      return made == null ? null : new GenericInternalRow(made);
    }

    /** The decimal's own characters: its scale says how many stand behind the point. */
    private Object anyScale(Node node) {
      long scale = ((Long) value(node.inner[0])).longValue();
      byte[] digits = (byte[]) value(node.inner[1]);
      if (digits.length == 0) {
        throw malformed();
      }
      UTF8String found = Decoder.ownCharacters(digits, scale);
      if (found == null) {
        note(RANGE, node.path + ": a decimal with more digits than PostgreSQL has");
      }
      return found;
    }

    private Object array(Node node) {
      boolean isKept = node.to != ' ';
      List made = new ArrayList();
      Node item = node.inner[0];
      for (Block block = new Block(item.least); block.next(this); ) {
        for (long i = 0; i < block.count; i++) {
          if (item.least == 0 && !isKept) {
            break; // nothing to read, and nothing to keep
          }
          Object found = value(item);
          if (isKept) {
            made.add(found);
          }
        }
        block.end(this);
      }
      return isKept ? new GenericArrayData(made.toArray()) : null;
    }

    private Object map(Node node) {
      boolean isKept = node.to != ' ';
      Map made = new LinkedHashMap();
      for (Block block = new Block(1 + node.inner[0].least); block.next(this); ) {
        for (long i = 0; i < block.count; i++) {
          UTF8String key = text(node, length());
          Object found = value(node.inner[0]);
          if (isKept) {
            made.put(key, found);
          }
        }
        block.end(this);
      }
      if (!isKept) {
        return null;
      }
      return new ArrayBasedMapData(
          new GenericArrayData(made.keySet().toArray()),
          new GenericArrayData(made.values().toArray()));
    }

    private UTF8String text(Node node, int length) {
      UTF8String found = UTF8String.fromBytes(data, at, length);
      at += length;
      if (node.to != ' ' && !found.isValid()) {
        note(NO_TEXT, "invalid UTF-8 in a string of " + schema);
      }
      return found;
    }

    private Object bytes(Node node, int length) {
      if (length > data.length - at) {
        throw malformed();
      }
      switch (node.to) {
        case 'T':
          return text(node, length);
        case 'Z':
          return instant(node, text(node, length).toString());
        case ' ':
          at += length;
          return null;
        default:
          byte[] found = Arrays.copyOfRange(data, at, at + length);
          at += length;
          return node.to == 'N' ? decimal(node, found) : (Object) found;
      }
    }

    private Object instant(Node node, String given) {
      Long found = Decoder.microseconds(given);
      if (found == null) {
        note(MISMATCH, node.path + ": no date-time with an offset, as 2026-01-31T23:59:59Z");
      } else {
        inCalendar(node, found.longValue(), Decoder.MICROS_OF_DAY);
      }
      return found;
    }

    private Object decimal(Node node, byte[] found) {
      if (found.length == 0) {
        throw malformed();
      }
      BigInteger digits = new BigInteger(found);
      BigDecimal made = digits.bitLength() > MOST_BITS ? null : new BigDecimal(digits, node.scale);
      if (made == null || made.precision() > node.precision) {
        note(RANGE, node.path + ": more digits than its column can hold");
        return null;
      }
      return Decimal.apply(made, node.precision, node.scale);
    }

    private Object whole(Node node, long number) {
      switch (node.to) {
        case ' ':
          return null;
        case 'I':
          return Integer.valueOf((int) number);
        case 'T':
          return UTF8String.fromString(Long.toString(number));
        case 'D':
          if (number > WHOLE || number < -WHOLE) {
            note(RANGE, node.path + ": a whole number that a double may not hold");
          }
          return Double.valueOf(number);
        case 'A':
          inCalendar(node, number, 1);
          return Integer.valueOf((int) number);
        case 'M':
          inCalendar(node, number, Decoder.MICROS_OF_DAY / 1000);
          return Long.valueOf(number * 1000);
        case 'U':
          inCalendar(node, number, Decoder.MICROS_OF_DAY);
          return Long.valueOf(number);
        default:
          return Long.valueOf(number);
      }
    }

    /** @param ofDay How many of the number's units a day has. */
    private void inCalendar(Node node, long number, long ofDay) {
      if (!Decoder.isInCalendar(number, ofDay)) {
        note(RANGE, node.path + ": a time is not within the years 1 to 9999");
      }
    }

    /** A zigzag number; one that has more bits is none. */
    long number(int bits) {
      long found = 0;
      for (int i = 0; i < 10; i++) {
        if (at >= data.length) {
          throw malformed();
        }
        byte one = data[at++];
        found |= (long) (one & 0x7F) << (7 * i);
        if (one >= 0) {
          if (i == 9 && one > 1 || bits == 32 && found >>> 32 != 0) {
            throw malformed();
          }
          return (found >>> 1) ^ -(found & 1);
        }
      }
      throw malformed();
    }

    private int length() {
      long found = number(64);
      if (found < 0 || found > data.length - at) {
        throw malformed();
      }
      return (int) found;
    }

    private long fixed(int count) {
      int from = at;
      pass(count);
      long number = 0;
      for (int i = count - 1; i >= 0; i--) {
        number = number << 8 | data[from + i] & 0xFF;
      }
      return number;
    }

    private void pass(int count) {
      if (count > data.length - at) {
        throw malformed();
      }
      at += count;
    }
  }

  /** The blocks of an array or a map: a count of items, or below zero with their size in bytes. */
  private static final class Block {

    private final int least;
    long count;

    /** Where it has to end; -1 where it does not say it. */
    private long end;

    private long total;

    /** @param least How many bytes an item has at least. */
    Block(int least) {
      this.least = least;
    }

    boolean next(Reading reading) {
      count = reading.number(64);
      end = -1;
      if (count < 0) {
        count = -count;
        long size = reading.number(64);
        if (count < 0 || size < 0 || size > reading.data.length - reading.at) {
          throw reading.malformed();
        }
        end = reading.at + size;
      }
      int left = reading.data.length - reading.at;
      long most = least > 0 ? left / least : Math.max(reading.data.length, FEW_ITEMS) - total;
      if (count > most) {
        throw reading.malformed();
      }
      total += count;
      return count > 0;
    }

    void end(Reading reading) {
      if (end >= 0 && end != reading.at) {
        throw reading.malformed();
      }
    }
  }
}
