package weir.bench;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;

/**
 * Breaks finds the first hit of each client that breaks a limit: N in W is broken by a hit when the N-th hit before it
 * is less than W old. Hits may come late, and so may an earlier break than the one that was found: it is forwarded too.
 *
 * <p>A client's value in the store has integers of 4 bytes: the second of its break, 0 without one, then the seconds of
 * its hits, in order. It assumes that logs have full seconds, as the combined format does, and that the year 2038 is
 * ahead; milliseconds would need a base of 8 bytes in front of them. As the block outlasts the log, only hits before
 * the break matter once there is one. So nothing is stored for a hit after it, and a client's value has at most
 * the hits of the longest window and of the lateness that break no limit.
 */
final class Breaks implements Processor<byte[], Void, byte[], String> {
    private static final VarHandle INTS = MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.BIG_ENDIAN);
    private static final int KEPT = 86_400 + Offenders.LATENESS_SECONDS;

    private ProcessorContext<byte[], String> context;
    private KeyValueStore<byte[], byte[]> clients;

    @Override
    public void init(ProcessorContext<byte[], String> context) {
        this.context = context;
        this.clients = context.getStateStore(Offenders.STORE);
    }

    @Override
    public void process(Record<byte[], Void> hit) {
        int now = (int) (hit.timestamp() / 1000);
        byte[] old = clients.get(hit.key());
        if (old == null) {
            byte[] first = new byte[8];
            INTS.set(first, 4, now);
            clients.put(hit.key(), first);
            return;
        }
        int broken = (int) INTS.get(old, 0);
        if (broken != 0 && now >= broken) {
            return;
        }

        int count = old.length / 4 - 1;
        int newest = count == 0 ? now : Math.max(now, second(old, count - 1));
        if (now < newest - KEPT) {
            return;
        }
        int forgotten = 0;
        while (forgotten < count && second(old, forgotten) < newest - KEPT) {
            forgotten++;
        }
        int at = count;
        while (at > forgotten && second(old, at - 1) > now) {
            at--;
        }
        byte[] all = with(old, forgotten, at, now);
        ask(hit, all, at - forgotten);
    }

    /** with is the value without its first hits, and with another one at a place. */
    private static byte[] with(byte[] old, int forgotten, int at, int now) {
        byte[] all = new byte[old.length + 4 - 4 * forgotten];
        System.arraycopy(old, 0, all, 0, 4);
        int before = 4 * (at - forgotten);
        System.arraycopy(old, 4 + 4 * forgotten, all, 4, before);
        INTS.set(all, 4 + before, now);
        System.arraycopy(old, 4 + 4 * at, all, 8 + before, old.length - 4 - 4 * at);
        return all;
    }

    /** ask stores the value, and forwards the first break among the hits whose windows have the one at a place. */
    private void ask(Record<byte[], Void> hit, byte[] all, int at) {
        int count = all.length / 4 - 1;
        int first = count;
        Limit broken = null;
        for (Limit limit : Limit.THREE) {
            for (int i = Math.max(at, limit.hits()); i < first && i <= at + limit.hits(); i++) {
                if (second(all, i) - second(all, i - limit.hits()) < limit.seconds()) {
                    first = i;
                    broken = limit;
                }
            }
        }
        if (broken == null) {
            clients.put(hit.key(), all);
            return;
        }
        int when = second(all, first);
        byte[] before = java.util.Arrays.copyOf(all, 4 + 4 * first);
        INTS.set(before, 0, when);
        clients.put(hit.key(), before);
        context.forward(new Record<>(hit.key(), when + " " + broken.name(), 1000L * when));
    }

    private static int second(byte[] value, int i) {
        return (int) INTS.get(value, 4 + 4 * i);
    }
}
