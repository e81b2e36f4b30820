import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends numbered messages with RocketMQ's own producer, on its defaults, and writes down what became of each.
 *
 * <p>It answers the question of a person whose application runs on such a client: how long could nothing be sent, and
 * which sends were acknowledged. One JSON object a send goes to a ledger file, flushed whenever the writer has caught
 * up, so that a killed client loses at most what was in flight; one JSON object a second goes to stdout.
 *
 * <p>Options, each followed by its value: --name-server, --topic, --ledger (needed); --run (prefix of the keys, must
 * be unique on the topic), --threads 4, --rate 0 (sends a second over all threads, 0 is as fast as answers come),
 * --duration-s 0 (0 is until SIGTERM), --payload-bytes 128, --poll-name-server-ms 0 (0 is the client's default, 30 s),
 * --send-timeout-ms 0 (0 is the client's default, 3 s), --group, --stop-on-stdin-end false, --wait-store-ok true (false
 * asks for no copy), --access-key and --secret-key (of access control).
 */
public final class LoadClient {
    private static final int LEDGER_LINES_MAX = 100_000;
    private static final long BEHIND_NS_MAX = TimeUnit.SECONDS.toNanos(1);

    private final Map<String, String> options;
    private final long wallStartNs;
    private final long nanoStart;
    private final AtomicLong nextSequence = new AtomicLong();
    private final AtomicLong acknowledged = new AtomicLong();
    private static final int PROBLEM_CHARS_MAX = 600;
    private final AtomicLong failed = new AtomicLong();
    private final BlockingQueue<String> ledgerLines = new ArrayBlockingQueue<>(LEDGER_LINES_MAX);
    private final Object gapLock = new Object();
    private long lastAcknowledgedNano = -1;
    private long longestGapNs = 0;
    private long reportedAcknowledged = 0;
    private long reportedNano = -1;
    private volatile boolean stopping = false;

    private LoadClient(Map<String, String> options) {
        this.options = options;
        Instant now = Instant.now();
        this.nanoStart = System.nanoTime();
        this.wallStartNs = TimeUnit.SECONDS.toNanos(now.getEpochSecond()) + now.getNano();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = Options.of(arguments);
        new LoadClient(options).run();
    }

    private String option(String name, String fallback) {
        String value = options.getOrDefault(name, fallback);
        if (value == null) {
            throw new IllegalArgumentException("missing option " + name);
        }
        return value;
    }

    private long number(String name, long fallback) {
        return Long.parseLong(option(name, Long.toString(fallback)));
    }

    private void run() throws Exception {
        String run = option("--run", "r" + Long.toString(wallStartNs, 36));
        int threads = (int) number("--threads", 4);
        long durationS = number("--duration-s", 0);
        DefaultMQProducer producer = producer(run);
        Thread ledger = new Thread(this::writeLedger, "ledger");
        ledger.start();
        producer.start();
        System.out.println("{\"started\":true,\"run\":\"" + run + "\"}");
        System.out.flush();

        CountDownLatch finished = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            awaitQuietly(finished);
        }));
        List<Thread> senders = new ArrayList<>();
        long intervalNs = number("--rate", 0) == 0 ? 0 : TimeUnit.SECONDS.toNanos(threads) / number("--rate", 0);
        for (int i = 0; i < threads; i++) {
            long offsetNs = intervalNs * i / threads;
            Thread sender = new Thread(() -> sendAll(producer, run, intervalNs, offsetNs), "sender-" + i);
            sender.start();
            senders.add(sender);
        }
        if (Boolean.parseBoolean(option("--stop-on-stdin-end", "false"))) {
            Thread watcher = new Thread(this::stopWhenStdinEnds, "stdin");
            watcher.setDaemon(true);
            watcher.start();
        }
        reportUntil(durationS == 0 ? Long.MAX_VALUE : nanoStart + TimeUnit.SECONDS.toNanos(durationS));
        stopping = true;
        for (Thread sender : senders) {
            sender.join();
        }
        putQuietly("");
        ledger.join();
        report();
        finished.countDown();
        producer.shutdown();
    }

    private DefaultMQProducer producer(String run) {
        DefaultMQProducer producer = new DefaultMQProducer(option("--group", "load-" + run), Access.hook(options));
        producer.setNamesrvAddr(option("--name-server", null));
        long pollMs = number("--poll-name-server-ms", 0);
        if (pollMs > 0) {
            producer.setPollNameServerInterval((int) pollMs);
        }
        long timeoutMs = number("--send-timeout-ms", 0);
        if (timeoutMs > 0) {
            producer.setSendMsgTimeout((int) timeoutMs);
        }
        return producer;
    }

    private void sendAll(DefaultMQProducer producer, String run, long intervalNs, long offsetNs) {
        byte[] padding = new byte[(int) number("--payload-bytes", 128)];
        Arrays.fill(padding, (byte) 'x');
        long dueNano = System.nanoTime() + offsetNs;
        while (!stopping) {
            if (intervalNs > 0) {
                long waitNs = dueNano - System.nanoTime();
                if (waitNs > 0) {
                    LockSupport.parkNanos(waitNs);
                    continue;
                }
                // After an outage the schedule starts anew: a burst of everything missed would be another experiment.
                dueNano = -waitNs > BEHIND_NS_MAX ? System.nanoTime() + intervalNs : dueNano + intervalNs;
            }
            long sequence = nextSequence.getAndIncrement();
            sendOne(producer, run + "-" + sequence, sequence, padding);
        }
    }

    private void sendOne(DefaultMQProducer producer, String key, long sequence, byte[] padding) {
        byte[] head = (key + " ").getBytes(StandardCharsets.US_ASCII);
        byte[] body = Arrays.copyOf(head, Math.max(head.length, padding.length));
        System.arraycopy(padding, 0, body, head.length, body.length - head.length);
        long startNano = System.nanoTime();
        StringBuilder line = new StringBuilder(256);
        String status;
        String place = "";
        try {
            Message message = new Message(option("--topic", null), "", key, body);
            message.setWaitStoreMsgOK(Boolean.parseBoolean(option("--wait-store-ok", "true")));
            SendResult result = producer.send(message);
            status = result.getSendStatus().name();
            place = ",\"broker\":\"" + result.getMessageQueue().getBrokerName() + "\",\"queue\":"
                + result.getMessageQueue().getQueueId() + ",\"offset\":" + result.getQueueOffset() + ",\"msg_id\":\""
                + result.getMsgId() + "\"";
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            status = "InterruptedException";
        } catch (Exception e) {
            status = e.getClass().getSimpleName();
            place = ",\"problem\":\"" + problem(e) + "\"";
        }
        long endNano = System.nanoTime();
        count(status.equals(SendStatus.SEND_OK.name()), endNano);
        line.append("{\"seq\":").append(sequence).append(",\"key\":\"").append(key).append("\",\"start_ns\":")
            .append(wallNs(startNano)).append(",\"end_ns\":").append(wallNs(endNano)).append(",\"latency_us\":")
            .append((endNano - startNano) / 1_000).append(",\"status\":\"").append(status).append('"').append(place)
            .append("}\n");
        putQuietly(line.toString());
    }

    /** What the exception and its causes say, on one line and without what JSON would have to escape. */
    private static String problem(Throwable thrown) {
        StringBuilder text = new StringBuilder();
        for (Throwable one = thrown; one != null && text.length() < PROBLEM_CHARS_MAX; one = one.getCause()) {
            text.append(text.length() == 0 ? "" : " <- ").append(one.getClass().getSimpleName()).append(": ")
                .append(one.getMessage());
        }
        text.setLength(Math.min(text.length(), PROBLEM_CHARS_MAX));
        return text.toString().replaceAll("[^\\x20-\\x7e]|[\"\\\\]", " ");
    }

    /** A gap is the time between two acknowledgements that follow each other, whichever threads they came to. */
    private void count(boolean success, long endNano) {
        if (!success) {
            failed.incrementAndGet();
            return;
        }
        acknowledged.incrementAndGet();
        synchronized (gapLock) {
            if (lastAcknowledgedNano >= 0) {
                longestGapNs = Math.max(longestGapNs, endNano - lastAcknowledgedNano);
            }
            lastAcknowledgedNano = Math.max(lastAcknowledgedNano, endNano);
        }
    }

    private long wallNs(long nano) {
        return wallStartNs + (nano - nanoStart);
    }

    private void writeLedger() {
        Path path = Path.of(option("--ledger", null));
        try (BufferedWriter out = Files.newBufferedWriter(path, StandardCharsets.US_ASCII,
                StandardOpenOption.CREATE, StandardOpenOption.APPEND)) {
            List<String> batch = new ArrayList<>();
            // Empty string: every sender has ended and nothing follows.
            while (true) {
                batch.add(ledgerLines.take());
                ledgerLines.drainTo(batch);
                boolean last = batch.get(batch.size() - 1).isEmpty();
                for (String line : batch) {
                    out.write(line);
                }
                out.flush();
                batch.clear();
                if (last) {
                    return;
                }
            }
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException("the ledger cannot be written: " + path, e);
        }
    }

    private void reportUntil(long endNano) {
        long nextNano = System.nanoTime() + TimeUnit.SECONDS.toNanos(1);
        while (!stopping && System.nanoTime() < endNano) {
            LockSupport.parkNanos(Math.min(TimeUnit.MILLISECONDS.toNanos(50), Math.max(1, nextNano - System.nanoTime())));
            if (System.nanoTime() >= nextNano) {
                report();
                nextNano += TimeUnit.SECONDS.toNanos(1);
            }
        }
    }

    private synchronized void report() {
        long now = System.nanoTime();
        long acked = acknowledged.get();
        long sinceNs = now - (reportedNano < 0 ? nanoStart : reportedNano);
        long rate = (acked - reportedAcknowledged) * 1_000_000_000L / Math.max(1, sinceNs);
        long gapNs;
        long currentNs;
        synchronized (gapLock) {
            gapNs = longestGapNs;
            currentNs = lastAcknowledgedNano < 0 ? 0 : Math.max(0, now - lastAcknowledgedNano);
        }
        System.out.println("{\"at_ns\":" + wallNs(now) + ",\"acknowledged\":" + acked + ",\"failed\":" + failed.get()
            + ",\"rate\":" + rate + ",\"longest_gap_ms\":" + gapNs / 1_000_000 + ",\"current_gap_ms\":"
            + currentNs / 1_000_000 + "}");
        System.out.flush();
        reportedAcknowledged = acked;
        reportedNano = now;
    }

    private void stopWhenStdinEnds() {
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII))) {
            while (in.readLine() != null) {
                continue;
            }
        } catch (IOException e) {
            System.err.println("stdin: " + e);
        }
        stopping = true;
    }

    private void putQuietly(String line) {
        try {
            ledgerLines.put(line);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void awaitQuietly(CountDownLatch latch) {
        try {
            if (!latch.await(15, TimeUnit.SECONDS)) {
                System.err.println("senders did not end in 15 s");
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
