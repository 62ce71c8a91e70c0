package weir.bench;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.Stores;

/**
 * Offenders finds who breaks three limits in a topic of log lines, and writes them to another:
 *
 * <pre>java weir.bench.Offenders BROKERS LINES OUT ring|ring-uncached|tumbling at_least_once|exactly_once_v2 FOLDER PARTITIONS</pre>
 *
 * ring is what an expert writes, exact for requests in order; tumbling counts in windows of the clock, as most people do.
 */
public final class Offenders {
    static final String STORE = "rings";
    private static final long CACHE_BYTES = 256L << 20;

    private Offenders() {}

    public static void main(String[] args) {
        String brokers = args[0], lines = args[1], out = args[2], how = args[3], guarantee = args[4];
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, Long> hits = builder.stream(lines, Consumed.with(Serdes.ByteArray(), Serdes.String()))
                .filter((none, line) -> Line.client(line) != null && Line.time(line) >= 0)
                .map((none, line) -> new org.apache.kafka.streams.KeyValue<>(Line.client(line), Line.time(line)))
                .repartition(Repartitioned.with(Serdes.String(), Serdes.Long()).withNumberOfPartitions(Integer.parseInt(args[6])));
        if (how.equals("tumbling")) {
            tumbling(hits, out);
        } else {
            var store = Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.ByteArray());
            builder.addStateStore(how.equals("ring") ? store.withCachingEnabled() : store.withCachingDisabled());
            hits.process(() -> new RingProcessor(Limit.THREE), STORE).to(out, Produced.with(Serdes.String(), Serdes.String()));
        }
        KafkaStreams streams = new KafkaStreams(builder.build(), settings(brokers, how, guarantee, args[5]));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
    }

    private static void tumbling(KStream<String, Long> hits, String out) {
        for (Limit limit : Limit.THREE) {
            hits.groupByKey(Grouped.with(Serdes.String(), Serdes.Long()))
                    .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMillis(limit.millis()), Duration.ofMinutes(10)))
                    .count()
                    .toStream()
                    .filter((window, count) -> count != null && count > limit.hits())
                    .map((window, count) -> new org.apache.kafka.streams.KeyValue<>(window.key(), limit.name()))
                    .to(out, Produced.with(Serdes.String(), Serdes.String()));
        }
    }

    private static Properties settings(String brokers, String how, String guarantee, String folder) {
        Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, "offenders-" + how + "-" + guarantee.replace('_', '-'));
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
        p.put(StreamsConfig.STATE_DIR_CONFIG, Path.of(folder).toString());
        p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, how.equals("ring-uncached") ? 0L : CACHE_BYTES);
        p.put(StreamsConfig.DEFAULT_TIMESTAMP_EXTRACTOR_CLASS_CONFIG, LineTime.class);
        p.put("auto.offset.reset", "earliest");
        return p;
    }
}
