import java.io.BufferedWriter;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Receives a topic with two of RocketMQ's own push consumers, each in a group of its own and on its defaults: one takes
 * messages as they come, one takes those of each queue in order. Both write down each message and when it came.
 *
 * <p>With --transactions it also commits transactions on a topic of their own and receives them, and writes down both.
 *
 * <p>Options, each followed by its value: --name-server, --topic, --output (needed), --transactions (an output too),
 * --poll-name-server-ms (the client's default is 30 s), --pull-delay-ms (after which a failed pull is repeated; its
 * default is 1 s). It ends at SIGTERM.
 */
public final class Consume {
    private static final long NS_PER_S = 1_000_000_000L;
    private static final String TRANSACTIONS = "-transactions";

    private final BufferedWriter out;
    private BufferedWriter transactions;

    private Consume(BufferedWriter out) {
        this.out = out;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = Options.of(arguments);
        Path path = Path.of(options.get("--output"));
        try (BufferedWriter out = Files.newBufferedWriter(path, StandardCharsets.US_ASCII)) {
            Consume program = new Consume(out);
            DefaultMQPushConsumer concurrent = consumer(options, "concurrent", "");
            concurrent.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                program.write(messages, false);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            DefaultMQPushConsumer ordered = consumer(options, "ordered", "");
            ordered.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                program.write(messages, true);
                return ConsumeOrderlyStatus.SUCCESS;
            });
            concurrent.start();
            ordered.start();
            if (options.containsKey("--transactions")) {
                program.commitTransactions(options);
            }
            System.out.println("{\"started\":true}");
            new CountDownLatch(1).await();
        }
    }

    private void commitTransactions(Map<String, String> options) throws Exception {
        transactions = Files.newBufferedWriter(Path.of(options.get("--transactions")), StandardCharsets.US_ASCII);
        DefaultMQPushConsumer consumer = consumer(options, "transactional", TRANSACTIONS);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            messages.forEach(message -> note(message.getKeys(), true));
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        String topic = options.get("--topic") + TRANSACTIONS;
        String pollMs = options.get("--poll-name-server-ms");
        new Transactions(options.get("--name-server"), topic, pollMs, key -> note(key, false)).start();
        consumer.start();
    }

    private synchronized void note(String key, boolean received) {
        try {
            transactions.write("{\"ts_ns\":" + nowNs() + ",\"key\":\"" + key + "\",\"received\":" + received + "}\n");
            transactions.flush();
        } catch (IOException e) {
            throw new IllegalStateException("cannot write a transaction", e);
        }
    }

    private static long nowNs() {
        Instant now = Instant.now();
        return now.getEpochSecond() * NS_PER_S + now.getNano();
    }

    private static DefaultMQPushConsumer consumer(Map<String, String> options, String kind, String suffix)
            throws Exception {
        String topic = options.get("--topic") + suffix;
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(kind + "-" + topic);
        consumer.setNamesrvAddr(options.get("--name-server"));
        consumer.setInstanceName(kind);
        String pollMs = options.get("--poll-name-server-ms");
        if (pollMs != null) {
            consumer.setPollNameServerInterval(Integer.parseInt(pollMs));
        }
        String pullDelayMs = options.get("--pull-delay-ms");
        if (pullDelayMs != null) {
            consumer.getDefaultMQPushConsumerImpl().setPullTimeDelayMillsWhenException(Long.parseLong(pullDelayMs));
        }
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        return consumer;
    }

    private synchronized void write(List<MessageExt> messages, boolean ordered) {
        long tsNs = nowNs();
        try {
            for (MessageExt message : messages) {
                out.write("{\"ts_ns\":" + tsNs + ",\"ordered\":" + ordered + ",\"key\":\"" + message.getKeys()
                    + "\",\"queue\":" + message.getQueueId() + ",\"offset\":" + message.getQueueOffset() + "}\n");
            }
            out.flush();
        } catch (IOException e) {
            throw new IllegalStateException("cannot write what came", e);
        }
    }
}
