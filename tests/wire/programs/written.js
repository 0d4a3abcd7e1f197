// Writes records to topics by KafkaJS, with the serializer that belongs to it.
// Reads a job as JSON: `topic`, `settings` (`brokers`, `registry`, `type`), `schema`, `records` with `value`.
const { Kafka, logLevel } = require("kafkajs");
const { SchemaRegistry } = require("@kafkajs/confluent-schema-registry");

async function write(job) {
  const registry = new SchemaRegistry({ host: job.settings.registry });
  const { id } = await registry.register(
    { type: job.settings.type, schema: job.schema },
    { subject: `${job.topic}-value` },
  );
  const messages = [];
  for (const record of job.records) {
    const value = record.value === null ? null : await registry.encode(id, record.value);
    messages.push({ value });
  }
  const kafka = new Kafka({ brokers: job.settings.brokers, logLevel: logLevel.NOTHING });
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic: job.topic, messages });
  await producer.disconnect();
}

async function main() {
  let given = "";
  for await (const part of process.stdin) given += part;
  await write(JSON.parse(given));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
