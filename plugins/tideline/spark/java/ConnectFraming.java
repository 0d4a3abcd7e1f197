package tideline.spark;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonFactoryBuilder;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.io.Serializable;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.XXH64;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Which schema a record of Kafka Connect's JSON converter brings: {"schema": ..., "payload": ...}.
 *
 * <p>A schema is its bytes: the converter writes the same schema in the same bytes. A hash finds
 * those that may be the same, and decides nothing: whoever writes records can make two of one hash.
 * Only the document's beginning is read, as far as the schema's end.
 */
public final class ConnectFraming extends Decoder {

  private static final long serialVersionUID = 1L;

  private static final JsonFactory FACTORY =
      ((JsonFactoryBuilder)
              ((JsonFactoryBuilder) new JsonFactoryBuilder())
                  .streamReadConstraints(JsonDecoder.BOUNDS))
          .build();

  private static final long SEED = 42L;

  /** Hash of the bytes of schemas that records are decoded with, to each `Known` that has it. */
  private final Map known = new HashMap();

  /** SHA-256 of other schemas that have an id, to that id: their records go into quarantine. */
  private final Map unfit = new HashMap();

  private final boolean tellsText;

  /** @param read See tideline.decoding.spark.framing. */
  public ConnectFraming(String specification, JsonNode read) {
    super(specification, read);
    JsonNode all = (JsonNode) read.get("known");
    for (int i = 0; i < all.size(); i++) {
      Known one = new Known((JsonNode) all.get(i));
      Long hash = Long.valueOf(hash(one.bytes, 0, one.bytes.length));
      one.next = (Known) known.get(hash);
      known.put(hash, one);
    }
    JsonNode others = (JsonNode) read.get("unfit");
    for (int i = 0; i < others.size(); i++) {
      JsonNode one = (JsonNode) others.get(i);
      int id = ((JsonNode) one.get(0)).intValue();
      unfit.put(((JsonNode) one.get(1)).textValue(), Integer.valueOf(id));
    }
    this.tellsText = ((JsonNode) read.get("tells_text")).booleanValue();
  }

  @Override
  public DataType[] inputTypes() {
    return new DataType[] {DataTypes.BinaryType};
  }

  @Override
  public String name() {
    return "connect_framing";
  }

  @Override
  public Object produceResult(InternalRow input) {
    return invoke(input.isNullAt(0) ? null : input.getBinary(0));
  }

  /** Spark calls it from the code that it makes; id, whether it is known, and the schema's text. */
  public InternalRow invoke(byte[] value) {
    if (value == null) {
      return none();
    }
    for (int i = 0; i < value.length && i < 4; i++) {
      if (value[i] <= 0) {
        return none(); // Jackson would take it for another encoding
      }
    }
    try {
      JsonParser parser = FACTORY.createParser(value);
      try {
        return schemaOf(parser, value);
      } finally {
        parser.close();
      }
    } catch (IOException error) {
      return none();
    }
  }

  private InternalRow schemaOf(JsonParser parser, byte[] value) throws IOException {
    if (parser.nextToken() != JsonToken.START_OBJECT) {
      return none();
    }
    while (parser.nextToken() == JsonToken.FIELD_NAME) {
      boolean isSchema = "schema".equals(parser.getCurrentName());
      boolean isObject = parser.nextToken() == JsonToken.START_OBJECT;
      int start = (int) parser.getTokenLocation().getByteOffset();
      parser.skipChildren();
      if (isSchema) {
        int end = (int) parser.getCurrentLocation().getByteOffset();
        return isObject ? found(value, start, end) : none();
      }
      parser.finishToken();
    }
    return none();
  }

  private InternalRow found(byte[] value, int start, int end) {
    if (!UTF8String.fromBytes(value, start, end - start).isValid()) {
      return none();
    }
    Known one = (Known) known.get(Long.valueOf(hash(value, start, end)));
    while (one != null && !Arrays.equals(one.bytes, 0, one.bytes.length, value, start, end)) {
      one = one.next;
    }
    Integer id = one != null ? one.id : unfitId(value, start, end);
    UTF8String text =
        tellsText ? UTF8String.fromBytes(Arrays.copyOfRange(value, start, end)) : null;
    return good(new GenericInternalRow(new Object[] {id, Boolean.valueOf(one != null), text}));
  }

  /** Null for a schema that nobody has looked at. */
  private Integer unfitId(byte[] value, int start, int end) {
    if (unfit.isEmpty()) {
      return null;
    }
    try {
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      digest.update(value, start, end - start);
      return (Integer) unfit.get(HexFormat.of().formatHex(digest.digest()));
    } catch (NoSuchAlgorithmException error) {
      throw new IllegalStateException(error); // every Java has it
    }
  }

  /** A record without a schema; Python says what is wrong with it. */
  private static InternalRow none() {
    return good(null);
  }

  private static long hash(byte[] bytes, int start, int end) {
    return XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET + start, end - start, SEED);
  }

  /** A schema that records are decoded with. */
  private static final class Known implements Serializable {

    private static final long serialVersionUID = 1L;

    final byte[] bytes;
    final Integer id;

    /** Another one of the same hash. */
    Known next;

    Known(JsonNode one) {
      this.id = Integer.valueOf(((JsonNode) one.get(0)).intValue());
      this.bytes = ((JsonNode) one.get(1)).textValue().getBytes(StandardCharsets.UTF_8);
    }
  }
}
