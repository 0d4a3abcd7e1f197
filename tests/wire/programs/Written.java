import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.DescriptorProtos;
import com.google.protobuf.Descriptors;
import com.google.protobuf.DynamicMessage;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import java.util.UUID;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.message.BinaryMessageEncoder;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.storage.Converter;

/**
 * Writes records to topics, by a producer of Kafka's with the serializers that it is told, or with
 * what converters of Kafka Connect's make of them. Each line of its input is a job as JSON; when its
 * records are written, it says so in a line.
 */
public class Written {
    private static final ObjectMapper MAPPER = new ObjectMapper();

    public static void main(String[] given) throws Exception {
        BufferedReader jobs =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String job = jobs.readLine(); job != null; job = jobs.readLine()) {
            write(MAPPER.readTree(job));
            System.out.println("written");
        }
    }

    private static void write(JsonNode job) throws Exception {
        Map settings = (Map) MAPPER.convertValue((JsonNode) job.get("settings"), HashMap.class);
        String topic = ((JsonNode) job.get("topic")).asText();
        JsonNode records = (JsonNode) job.get("records");
        KafkaProducer producer = new KafkaProducer(settings);
        try {
            for (int i = 0; i < records.size(); i++) {
                JsonNode record = (JsonNode) records.get(i);
                RecordHeaders headers = new RecordHeaders();
                Object key = made(record, "key", topic, headers, settings);
                Object value = made(record, "value", topic, headers, settings);
                producer.send(new ProducerRecord(topic, null, null, key, value, headers)).get();
            }
        } finally {
            producer.close();
        }
    }

    /** A record's part: what its serializer is given, or what a converter has made. */
    private static Object made(
            JsonNode record, String part, String topic, RecordHeaders headers, Map settings)
            throws Exception {
        JsonNode spec = (JsonNode) record.path(part);
        Object name = settings.get(part + ".converter");
        if (name == null) {
            return object(spec);
        }
        Converter converter = (Converter) Class.forName((String) name).newInstance();
        Map own = new HashMap();
        Iterator names = settings.keySet().iterator();
        String prefix = part + ".converter.";
        while (names.hasNext()) {
            String each = (String) names.next();
            if (each.startsWith(prefix)) {
                own.put(each.substring(prefix.length()), settings.get(each));
            }
        }
        converter.configure(own, part.equals("key"));
        JsonConverter reader = new JsonConverter();
        reader.configure(new HashMap(), part.equals("key"));
        SchemaAndValue found = reader.toConnectData(topic, MAPPER.writeValueAsBytes(spec));
        return converter.fromConnectData(topic, headers, found.schema(), found.value());
    }

    private static Object object(JsonNode spec) throws Exception {
        if (spec.isNull() || spec.isMissingNode()) {
            return null;
        }
        String kind = (String) spec.fieldNames().next();
        JsonNode value = (JsonNode) spec.get(kind);
        if (kind.equals("long")) {
            return Long.valueOf(value.asLong());
        } else if (kind.equals("int")) {
            return Integer.valueOf(value.asInt());
        } else if (kind.equals("short")) {
            return Short.valueOf((short) value.asInt());
        } else if (kind.equals("double")) {
            return Double.valueOf(value.asDouble());
        } else if (kind.equals("float")) {
            return Float.valueOf((float) value.asDouble());
        } else if (kind.equals("boolean")) {
            return Boolean.valueOf(value.asBoolean());
        } else if (kind.equals("text")) {
            return value.asText();
        } else if (kind.equals("uuid")) {
            return UUID.fromString(value.asText());
        } else if (kind.equals("bytes")) {
            return value.binaryValue();
        } else if (kind.equals("json")) {
            return MAPPER.convertValue(value, Map.class);
        } else if (kind.equals("avro")) {
            return datum(spec);
        } else if (kind.equals("single")) {
            ByteBuffer framed =
                    new BinaryMessageEncoder(GenericData.get(), schema(spec)).encode(datum(spec));
            byte[] bytes = new byte[framed.remaining()];
            framed.get(bytes);
            return bytes;
        } else if (kind.equals("protobuf")) {
            return message(spec);
        }
        throw new IllegalArgumentException(kind);
    }

    private static Schema schema(JsonNode spec) {
        return new Schema.Parser().parse(((JsonNode) spec.get("schema")).toString());
    }

    /** Avro's own JSON of a value: where there are several types, it names the one that it is. */
    private static Object datum(JsonNode spec) throws Exception {
        Schema schema = schema(spec);
        String kind = (String) spec.fieldNames().next();
        String text = ((JsonNode) spec.get(kind)).toString();
        return new GenericDatumReader(schema)
                .read(null, DecoderFactory.get().jsonDecoder(schema, text));
    }

    /** A message by its bytes, the bytes of the file that describes it, and its name there. */
    private static Object message(JsonNode spec) throws Exception {
        DescriptorProtos.FileDescriptorProto file =
                DescriptorProtos.FileDescriptorProto.parseFrom(
                        ((JsonNode) spec.get("file")).binaryValue());
        Descriptors.FileDescriptor found =
                Descriptors.FileDescriptor.buildFrom(file, new Descriptors.FileDescriptor[0]);
        Descriptors.Descriptor type =
                found.findMessageTypeByName(((JsonNode) spec.get("message")).asText());
        return DynamicMessage.parseFrom(type, ((JsonNode) spec.get("protobuf")).binaryValue());
    }
}
