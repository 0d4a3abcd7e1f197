package tideline.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A catalog of functions that decode records: a function's name is its specification.
 *
 * <p>So the type of what it returns is known when Spark binds it, and a session needs one property:
 * spark.sql.catalog.NAME. Python makes the specifications (tideline.decoding.spark).
 */
public final class Decoders implements FunctionCatalog {

  private String name;

  @Override
  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Identifier[] listFunctions(String[] namespace) {
    return new Identifier[0];
  }

  @Override
  public UnboundFunction loadFunction(Identifier named) {
    String specification = named.name();
    JsonNode read;
    try {
      read = (JsonNode) new ObjectMapper().readTree(specification);
    } catch (IOException error) {
      throw new IllegalArgumentException("no specification: " + specification, error);
    }
    String format = ((JsonNode) read.get("format")).textValue();
    if ("avro".equals(format)) {
      return new AvroDecoder(specification, read);
    }
    if ("connect".equals(format)) {
      return new ConnectFraming(specification, read);
    }
    if ("protobuf".equals(format)) {
      return new ProtobufDecoder(specification, read);
    }
    return new JsonDecoder(specification, read);
  }
}
