import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collections;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientConfigurationBuilder;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.StaticSessionCredentialsProvider;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.SendReceipt;

/**
 * Sends messages through a proxy's gRPC port, reads them back through the same port and acknowledges each.
 *
 * <p>The consumer is there before the first send: a group that is new begins at the end of a topic. A message that is not
 * read in time ends the program with status 1, because a reader that gave up must not look like one that found all.
 *
 * <p>Options, each followed by its value: --endpoints, --topic, --group (needed), --messages 1, --timeout-s 60,
 * --access-key and --secret-key (none: requests are not signed).
 */
public final class GrpcClient {
    private static final int BATCH_MESSAGES = 16;
    private static final Duration AWAIT = Duration.ofSeconds(5);
    private static final Duration INVISIBLE = Duration.ofSeconds(30);

    private GrpcClient() {
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = Options.of(arguments);
        String topic = options.get("--topic");
        int messages = Integer.parseInt(options.getOrDefault("--messages", "1"));
        long deadlineNano =
            System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.parseLong(options.getOrDefault("--timeout-s", "60")));
        ClientServiceProvider provider = ClientServiceProvider.loadService();
        ClientConfigurationBuilder builder = ClientConfiguration.newBuilder()
            .setEndpoints(options.get("--endpoints"))
            .setRequestTimeout(Duration.ofSeconds(10));
        if (options.containsKey("--access-key")) {
            builder.setCredentialProvider(
                new StaticSessionCredentialsProvider(options.get("--access-key"), options.get("--secret-key")));
        }
        ClientConfiguration configuration = builder.build();
        Set<String> sent = new HashSet<>();
        Set<String> missing = new HashSet<>();
        try (SimpleConsumer consumer = provider.newSimpleConsumerBuilder()
                .setClientConfiguration(configuration)
                .setConsumerGroup(options.get("--group"))
                .setAwaitDuration(AWAIT)
                .setSubscriptionExpressions(Collections.singletonMap(topic, FilterExpression.SUB_ALL))
                .build();
            Producer producer = provider.newProducerBuilder()
                .setClientConfiguration(configuration)
                .setTopics(topic)
                .build()) {
            for (int i = 0; i < messages; i++) {
                byte[] body = ("message " + i).getBytes(StandardCharsets.US_ASCII);
                SendReceipt receipt = producer.send(
                    provider.newMessageBuilder().setTopic(topic).setKeys("key-" + i).setBody(body).build());
                sent.add(receipt.getMessageId().toString());
            }
            missing.addAll(sent);
            while (!missing.isEmpty() && System.nanoTime() < deadlineNano) {
                for (MessageView message : consumer.receive(BATCH_MESSAGES, INVISIBLE)) {
                    consumer.ack(message);
                    missing.remove(message.getMessageId().toString());
                }
            }
        }
        System.out.println("{\"sent\":" + sent.size() + ",\"read\":" + (sent.size() - missing.size()) + "}");
        System.exit(missing.isEmpty() ? 0 : 1);
    }
}
