// Kafka Streams: exactly once, RocksDB with changelog topics, as many threads as it may have.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;

public class KafkaStreamsProgram {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Serde<String> TEXT = Serdes.String();
    static final Serde<JsonNode> ROW = Serdes.serdeFrom(
        (topic, row) -> row == null ? null : unchecked(() -> JSON.writeValueAsBytes(row)),
        (topic, bytes) -> bytes == null ? null : unchecked(() -> JSON.readTree(bytes)));
    static final Serde<Sums> SUMS = Serdes.serdeFrom(
        (topic, sums) -> ByteBuffer.allocate(16).putLong(sums.views).putDouble(sums.ms).array(),
        (topic, bytes) -> new Sums(ByteBuffer.wrap(bytes).getLong(0), ByteBuffer.wrap(bytes).getDouble(8)));

    record Sums(long views, double ms) {}

    interface Call<T> { T call() throws Exception; }

    static <T> T unchecked(Call<T> call) {
        try { return call.call(); } catch (Exception e) { throw new RuntimeException(e); }
    }

    static KStream<String, JsonNode> counted(KStream<String, JsonNode> views) {
        return views.groupByKey(Grouped.with(TEXT, ROW))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(1)))
            .emitStrategy(EmitStrategy.onWindowClose())
            .aggregate(() -> new Sums(0, 0),
                (user, row, sums) -> new Sums(sums.views + 1, sums.ms + row.get("ms").asDouble()),
                Materialized.with(TEXT, SUMS))
            .toStream()
            .map((window, sums) -> {
                ObjectNode row = JSON.createObjectNode().put("user", window.key());
                row.put("window_start", window.window().start());
                row.put("views", sums.views).put("ms", sums.ms);
                return new org.apache.kafka.streams.KeyValue<>(window.key(), row);
            });
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode plan = JSON.readTree(System.getenv("PLAN"));
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, plan.get("output").asText());
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, plan.get("brokers").asText());
        settings.put(StreamsConfig.STATE_DIR_CONFIG, plan.get("state").asText());
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, plan.get("parallel").asInt());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put("auto.offset.reset", "earliest");
        // closed windows are told with the next record, but once a second only: nothing comes after the last one
        settings.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 0L);
        StreamsBuilder builder = new StreamsBuilder();
        Consumed<String, JsonNode> read = Consumed.with(TEXT, ROW);
        KStream<String, JsonNode> views = builder.stream(plan.get("input").asText(),
            read.withTimestampExtractor((record, before) -> ((JsonNode) record.value()).get("at").asLong()));
        KStream<String, JsonNode> rows = switch (plan.get("work").asText()) {
            case "filter" -> views.filter((user, row) -> row.get("ms").asDouble() >= 500);
            case "count" -> counted(views);
            default -> views.join(builder.table(plan.get("table").asText(), Consumed.with(TEXT, ROW)),
                (row, user) -> ((ObjectNode) row).put("country", user.get("country").asText()),
                Joined.with(TEXT, ROW, ROW));
        };
        rows.to(plan.get("output").asText(), Produced.with(TEXT, ROW));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
