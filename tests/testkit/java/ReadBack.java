import java.io.BufferedWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.exception.RemotingException;

/**
 * Reads every message of a topic, from each queue's first offset to the last one known when it started, and writes
 * down the keys.
 *
 * <p>The end of a queue is asked for once, before reading: a reader that goes on until "nothing new for a while" cannot
 * tell a slow broker from the end. A question that fails is repeated until the time is over; then the program ends
 * with status 1, because a reader that has not seen all must not look like one that found nothing.
 *
 * <p>Options, each followed by its value: --name-server, --topic, --output (needed), --timeout-s 120, --access-key and
 * --secret-key (of access control).
 */
public final class ReadBack {
    private static final int BATCH_MESSAGES = 32;
    private static final long RETRY_MS = 200;

    private ReadBack() {
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = Options.of(arguments);
        String topic = options.get("--topic");
        long deadlineNano =
            System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(options.getOrDefault("--timeout-s", "120")));
        String group = "read-back-" + ProcessHandle.current().pid();
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group, Access.hook(options));
        consumer.setNamesrvAddr(options.get("--name-server"));
        consumer.start();
        long read = 0;
        try (BufferedWriter out = Files.newBufferedWriter(Path.of(options.get("--output")), StandardCharsets.US_ASCII)) {
            Set<MessageQueue> queues =
                answered(() -> consumer.fetchSubscribeMessageQueues(topic), "the queues of " + topic, deadlineNano);
            for (MessageQueue queue : queues) {
                read += readQueue(consumer, queue, deadlineNano, out);
            }
            System.out.println("{\"queues\":" + queues.size() + ",\"read\":" + read + "}");
        } finally {
            consumer.shutdown();
        }
    }

    private static long readQueue(
            DefaultMQPullConsumer consumer, MessageQueue queue, long deadlineNano, BufferedWriter out)
            throws Exception {
        long offset = answered(() -> consumer.minOffset(queue), "the start of " + queue, deadlineNano);
        long end = answered(() -> consumer.maxOffset(queue), "the end of " + queue, deadlineNano);
        long read = 0;
        while (offset < end) {
            long from = offset;
            String place = "offset " + from + " of " + queue;
            PullResult result =
                answered(() -> consumer.pull(queue, "*", from, BATCH_MESSAGES), place, deadlineNano);
            if (result.getPullStatus() == PullStatus.FOUND) {
                for (MessageExt message : result.getMsgFoundList()) {
                    out.write("{\"key\":\"" + message.getKeys() + "\",\"broker\":\"" + queue.getBrokerName()
                        + "\",\"queue\":" + queue.getQueueId() + ",\"offset\":" + message.getQueueOffset() + "}\n");
                    read++;
                }
            }
            // Without progress the broker has the message's index but does not serve it yet.
            if (result.getNextBeginOffset() <= offset) {
                Thread.sleep(RETRY_MS);
                requireTime(deadlineNano, place, null);
            }
            offset = Math.max(offset, result.getNextBeginOffset());
        }
        return read;
    }

    private static <T> T answered(Callable<T> question, String place, long deadlineNano) throws Exception {
        while (true) {
            try {
                return question.call();
            } catch (MQClientException | RemotingException | MQBrokerException e) {
                requireTime(deadlineNano, place, e);
                Thread.sleep(RETRY_MS);
            }
        }
    }

    private static void requireTime(long deadlineNano, String place, Exception cause) {
        if (System.nanoTime() > deadlineNano) {
            throw new IllegalStateException("no time left at " + place, cause);
        }
    }
}
