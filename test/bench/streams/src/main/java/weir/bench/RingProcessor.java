package weir.bench;

import java.nio.ByteBuffer;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * RingProcessor keeps the times of each client's last requests, as many as the largest limit needs, in a ring in its
 * store: a limit of N per W is broken when the N-th request before this one is less than W old. Its value is the ring:
 * 4 bytes where the next time goes, then the times.
 */
final class RingProcessor implements Processor<String, Long, String, String> {
    private final int[] limits;
    private final long[] windows;
    private final String[] names;
    private final int capacity;
    private ProcessorContext<String, String> context;
    private KeyValueStore<String, byte[]> rings;

    RingProcessor(Limit[] given) {
        limits = new int[given.length];
        windows = new long[given.length];
        names = new String[given.length];
        int most = 0;
        for (int i = 0; i < given.length; i++) {
            limits[i] = given[i].hits();
            windows[i] = given[i].millis();
            names[i] = given[i].name();
            most = Math.max(most, limits[i]);
        }
        capacity = most;
    }

    @Override
    public void init(ProcessorContext<String, String> context) {
        this.context = context;
        this.rings = context.getStateStore(Offenders.STORE);
    }

    @Override
    public void process(Record<String, Long> hit) {
        long now = hit.value();
        byte[] ring = rings.get(hit.key());
        int count = ring == null ? 0 : (ring.length - 4) / 8;
        String broken = ring == null ? null : broken(ByteBuffer.wrap(ring), count, now);
        rings.put(hit.key(), with(ring, count, now));
        if (broken != null) {
            context.forward(new Record<>(hit.key(), broken, now));
        }
    }

    private String broken(ByteBuffer ring, int count, long now) {
        int next = ring.getInt(0);
        for (int i = 0; i < limits.length; i++) {
            if (count < limits[i]) {
                continue;
            }
            int at = Math.floorMod(next - limits[i], count);
            if (now - ring.getLong(4 + 8 * at) < windows[i]) {
                return names[i];
            }
        }
        return null;
    }

    /** with is the ring with one time more: it grows until it has its capacity, and goes round then. */
    private byte[] with(byte[] ring, int count, long now) {
        if (count < capacity) {
            ByteBuffer grown = ByteBuffer.allocate(4 + 8 * (count + 1));
            if (ring != null) {
                grown.put(ring);
            }
            grown.putInt(0, (count + 1) % capacity);
            grown.putLong(4 + 8 * count, now);
            return grown.array();
        }
        ByteBuffer turned = ByteBuffer.wrap(ring.clone());
        int next = turned.getInt(0);
        turned.putLong(4 + 8 * next, now);
        turned.putInt(0, (next + 1) % capacity);
        return turned.array();
    }
}
