package tideline.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.Serializable;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
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
 * <p>It has no state but its specification: tasks of one executor may share it. Spark calls a
 * method `invoke` of the formats' own from the code that it makes.
 */
abstract class Decoder implements UnboundFunction, ScalarFunction, Serializable {

  private static final long serialVersionUID = 1L;

  private final String specification;
  private final StructType type;

  /** @param read The specification; its key `type` is the fields' struct, as Spark writes it. */
  Decoder(String specification, JsonNode read) {
    this.specification = specification;
    DataType fields = DataType.fromJson(read.get("type").toString());
    this.type =
        new StructType(
            new StructField[] {
              DataTypes.createStructField("fields", fields, true),
              DataTypes.createStructField("error_class", DataTypes.StringType, true),
              DataTypes.createStructField("error", DataTypes.StringType, true)
            });
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
    return new GenericInternalRow(new Object[] {fields, null, null});
  }

  static InternalRow bad(String errorClass, String error) {
    return new GenericInternalRow(
        new Object[] {null, UTF8String.fromString(errorClass), UTF8String.fromString(error)});
  }
}
