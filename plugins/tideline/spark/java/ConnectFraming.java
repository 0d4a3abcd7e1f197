package tideline.spark;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
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
 * <p>A schema is known by a hash of its bytes: the converter writes the same schema in the same
 * bytes. Only the document's beginning is read, as far as the schema's end.
 */
public final class ConnectFraming extends Decoder {

  private static final long serialVersionUID = 1L;

  private static final JsonFactory FACTORY = new JsonFactory();

  private static final long SEED = 42L;

  /** Hashes of the schemas that the plan knows. */
  private final Set known;

  private final boolean tellsText;

  /** @param read See tideline.decoding.spark.framing. */
  public ConnectFraming(String specification, JsonNode read) {
    super(specification, read);
    this.known = new HashSet();
    JsonNode all = (JsonNode) read.get("known");
    for (int i = 0; i < all.size(); i++) {
      byte[] text = ((JsonNode) all.get(i)).textValue().getBytes(StandardCharsets.UTF_8);
      known.add(Long.valueOf(hash(text, 0, text.length)));
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
    long hash = hash(value, start, end);
    int id = (int) (hash & 0x7FFFFFFF);
    UTF8String text =
        tellsText ? UTF8String.fromBytes(Arrays.copyOfRange(value, start, end)) : null;
    boolean isKnown = known.contains(Long.valueOf(hash));
    return good(
        new GenericInternalRow(
            new Object[] {Integer.valueOf(id), Boolean.valueOf(isKnown), text}));
  }

  /** A record without a schema; Python says what is wrong with it. */
  private static InternalRow none() {
    return good(null);
  }

  private static long hash(byte[] bytes, int start, int end) {
    return XXH64.hashUnsafeBytes(bytes, Platform.BYTE_ARRAY_OFFSET + start, end - start, SEED);
  }
}
