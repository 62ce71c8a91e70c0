package weir.bench;

import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.processor.api.ContextualProcessor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.Stores;

/**
 * Offenders finds the clients that break three limits in a topic of log lines, and writes when to another, a client's
 * last record being valid:
 *
 * <pre>java weir.bench.Offenders BROKERS LINES OUT keyed|unkeyed at_least_once|exactly_once_v2 FOLDER PARTITIONS</pre>
 *
 * The lines of a keyed topic have a client's lines in one partition.
 */
public final class Offenders {
    static final String STORE = "clients";
    static final int LATENESS_SECONDS = 86_400; // of a backlog in partitions that are read at their own speeds

    private Offenders() {}

    public static void main(String[] args) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), Serdes.ByteArray(), Serdes.ByteArray())
                .withCachingEnabled());
        var hit = Serdes.serdeFrom((topic, none) -> null, new LineDeserializer());
        KStream<byte[], Void> hits = builder.stream(args[1], Consumed.with(Serdes.ByteArray(), hit).withTimestampExtractor(new HitTime()))
                .process(ByAddress::new);
        if (args[3].equals("unkeyed")) {
            hits = hits.repartition(Repartitioned.with(Serdes.ByteArray(), Serdes.Void()).withNumberOfPartitions(Integer.parseInt(args[6])));
        }
        hits.process(Breaks::new, STORE).to(args[2], Produced.with(Serdes.ByteArray(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), settings(args[0], args[4], args[5]));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(20))));
        streams.start();
    }

    /** ByAddress makes a hit's address its key. Its record has its time. */
    private static final class ByAddress extends ContextualProcessor<byte[], Hit, byte[], Void> {
        @Override
        public void process(Record<byte[], Hit> hit) {
            context().forward(new Record<>(hit.value().address(), null, hit.timestamp()));
        }
    }

    private static Properties settings(String brokers, String guarantee, String folder) {
        Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, "offenders");
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, brokers);
        p.put(StreamsConfig.STATE_DIR_CONFIG, folder);
        p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 64L << 20);
        p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 1000);
        p.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4");
        p.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 20);
        p.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 128 << 10);
        p.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        p.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 1_500_000); // the benchmark stops the job while it writes lines
        p.put(ConsumerConfig.MAX_POLL_INTERVAL_MS_CONFIG, 1_500_000);
        return p;
    }
}
