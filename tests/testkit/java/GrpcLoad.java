import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.message.Message;
import org.apache.rocketmq.client.apis.producer.Producer;

/**
 * Sends numbered messages through a proxy with RocketMQ's gRPC producer, on its defaults, and writes the ledger of
 * LoadClient: one JSON object a send, in the order in which they ended.
 *
 * <p>Options, each followed by its value: --endpoints, --topic, --ledger (needed), --threads 4, --rate 0,
 * --payload-bytes 128, as in LoadClient. It runs until SIGTERM.
 */
public final class GrpcLoad {
    private static final long BEHIND_NS_MAX = TimeUnit.SECONDS.toNanos(1);
    private static final int PROBLEM_CHARS_MAX = 600;

    private final Map<String, String> options;
    private final long wallStartNs;
    private final long nanoStart;
    private final String run;
    private final AtomicLong nextSequence = new AtomicLong();
    private final ClientServiceProvider provider = ClientServiceProvider.loadService();
    private volatile boolean stopping = false;

    private GrpcLoad(Map<String, String> options) {
        this.options = options;
        Instant now = Instant.now();
        this.nanoStart = System.nanoTime();
        this.wallStartNs = TimeUnit.SECONDS.toNanos(now.getEpochSecond()) + now.getNano();
        this.run = "p" + Long.toString(wallStartNs, 36);
    }

    public static void main(String[] arguments) throws Exception {
        new GrpcLoad(Options.of(arguments)).run();
    }

    private int number(String name, int fallback) {
        return Integer.parseInt(options.getOrDefault(name, Integer.toString(fallback)));
    }

    private void run() throws Exception {
        ClientConfiguration configuration =
            ClientConfiguration.newBuilder().setEndpoints(options.get("--endpoints")).build();
        try (BufferedWriter ledger = Files.newBufferedWriter(Path.of(options.get("--ledger")),
                StandardCharsets.US_ASCII, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
            Producer producer = provider.newProducerBuilder().setClientConfiguration(configuration)
                .setTopics(options.get("--topic")).build()) {
            System.out.println("{\"started\":true,\"run\":\"" + run + "\"}");
            System.out.flush();
            int threads = number("--threads", 4);
            int rate = number("--rate", 0);
            long intervalNs = rate == 0 ? 0 : TimeUnit.SECONDS.toNanos(threads) / rate;
            List<Thread> senders = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                long offsetNs = intervalNs * i / threads;
                senders.add(new Thread(() -> sendAll(producer, ledger, intervalNs, offsetNs), "sender-" + i));
            }
            Thread main = Thread.currentThread();
            Runtime.getRuntime().addShutdownHook(new Thread(() -> {
                stopping = true;
                joinQuietly(main);
            }));
            senders.forEach(Thread::start);
            for (Thread sender : senders) {
                sender.join();
            }
        }
    }

    private void sendAll(Producer producer, BufferedWriter ledger, long intervalNs, long offsetNs) {
        byte[] padding = new byte[number("--payload-bytes", 128)];
        Arrays.fill(padding, (byte) 'x');
        long dueNano = System.nanoTime() + offsetNs;
        while (!stopping) {
            long waitNs = dueNano - System.nanoTime();
            if (intervalNs > 0 && waitNs > 0) {
                LockSupport.parkNanos(waitNs);
                continue;
            }
            // After an outage the schedule starts anew: a burst of everything missed would be another experiment.
            dueNano = -waitNs > BEHIND_NS_MAX ? System.nanoTime() + intervalNs : dueNano + intervalNs;
            String line = sendOne(producer, nextSequence.getAndIncrement(), padding);
            synchronized (ledger) {
                try {
                    ledger.write(line);
                    ledger.flush();
                } catch (IOException e) {
                    throw new IllegalStateException("the ledger cannot be written", e);
                }
            }
        }
    }

    private String sendOne(Producer producer, long sequence, byte[] padding) {
        String key = run + "-" + sequence;
        byte[] head = (key + " ").getBytes(StandardCharsets.US_ASCII);
        byte[] body = Arrays.copyOf(head, Math.max(head.length, padding.length));
        System.arraycopy(padding, 0, body, head.length, body.length - head.length);
        Message message =
            provider.newMessageBuilder().setTopic(options.get("--topic")).setKeys(key).setBody(body).build();
        long startNano = System.nanoTime();
        String status = "SEND_OK";
        String problem = "";
        try {
            producer.send(message);
        } catch (Exception e) {
            status = e.getClass().getSimpleName();
            String text = String.valueOf(e.getMessage()).replaceAll("[^\\x20-\\x7e]|[\"\\\\]", " ");
            problem = ",\"problem\":\"" + text.substring(0, Math.min(text.length(), PROBLEM_CHARS_MAX)) + "\"";
        }
        return "{\"seq\":" + sequence + ",\"key\":\"" + key + "\",\"start_ns\":" + wallNs(startNano) + ",\"end_ns\":"
            + wallNs(System.nanoTime()) + ",\"status\":\"" + status + "\"" + problem + "}\n";
    }

    private long wallNs(long nano) {
        return wallStartNs + (nano - nanoStart);
    }

    private static void joinQuietly(Thread thread) {
        try {
            thread.join(TimeUnit.SECONDS.toMillis(15));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
