package weir.bench;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.streams.processor.TimestampExtractor;

/** LineTime is the time that a request bears itself, as long as it is a line or what was made of one. */
public final class LineTime implements TimestampExtractor {
    @Override
    public long extract(ConsumerRecord<Object, Object> record, long partitionTime) {
        if (record.value() instanceof Long time) {
            return time;
        }
        long time = record.value() instanceof String line ? Line.time(line) : -1;
        return time >= 0 ? time : Math.max(partitionTime, 0);
    }
}
