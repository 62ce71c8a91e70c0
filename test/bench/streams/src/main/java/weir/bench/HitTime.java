package weir.bench;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.streams.processor.TimestampExtractor;

/** HitTime makes a hit's time its record's, which the topic between the two halves of the job keeps. */
public final class HitTime implements TimestampExtractor {
    @Override
    public long extract(ConsumerRecord<Object, Object> record, long partitionTime) {
        return record.value() instanceof Hit hit ? hit.millis() : -1; // a record without a time is left out
    }
}
