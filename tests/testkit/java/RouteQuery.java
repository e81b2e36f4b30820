import apache.rocketmq.v2.Address;
import apache.rocketmq.v2.AddressScheme;
import apache.rocketmq.v2.Endpoints;
import apache.rocketmq.v2.MessageQueue;
import apache.rocketmq.v2.MessagingServiceGrpc;
import apache.rocketmq.v2.QueryRouteRequest;
import apache.rocketmq.v2.QueryRouteResponse;
import apache.rocketmq.v2.Resource;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.stub.MetadataUtils;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;

/**
 * Asks a proxy for the route of a topic, as a client that reached it at another address, and prints where the proxy sends
 * that client: one host:port a line.
 *
 * <p>Options, each followed by its value: --proxy (host:port to connect to), --used (host:port that the client used), --topic.
 */
public final class RouteQuery {
    private static final long ANSWER_WITHIN_S = 30;

    private RouteQuery() {
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = Options.of(arguments);
        String[] used = options.get("--used").split(":");
        Endpoints endpoints = Endpoints.newBuilder()
            .setScheme(AddressScheme.DOMAIN_NAME)
            .addAddresses(Address.newBuilder().setHost(used[0]).setPort(Integer.parseInt(used[1])))
            .build();
        Metadata headers = new Metadata();
        headers.put(Metadata.Key.of("x-mq-client-id", Metadata.ASCII_STRING_MARSHALLER), "route-query");
        headers.put(Metadata.Key.of("x-mq-language", Metadata.ASCII_STRING_MARSHALLER), "JAVA");
        ManagedChannel channel = ManagedChannelBuilder.forTarget(options.get("--proxy")).usePlaintext().build();
        try {
            QueryRouteResponse answer = MessagingServiceGrpc.newBlockingStub(channel)
                .withInterceptors(MetadataUtils.newAttachHeadersInterceptor(headers))
                .withDeadlineAfter(ANSWER_WITHIN_S, TimeUnit.SECONDS)
                .queryRoute(QueryRouteRequest.newBuilder()
                    .setTopic(Resource.newBuilder().setName(options.get("--topic")))
                    .setEndpoints(endpoints)
                    .build());
            TreeSet<String> found = new TreeSet<>();
            for (MessageQueue queue : answer.getMessageQueuesList()) {
                for (Address address : queue.getBroker().getEndpoints().getAddressesList()) {
                    found.add("address " + address.getHost() + ":" + address.getPort());
                }
            }
            System.out.println("status " + answer.getStatus().getCode());
            found.forEach(System.out::println);
        } finally {
            channel.shutdownNow();
        }
    }
}
