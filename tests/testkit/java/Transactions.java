import java.nio.charset.StandardCharsets;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Sends transactions with RocketMQ's own producer on its defaults, commits each, and tells which the broker has taken.
 *
 * <p>The client tells the commit to the broker one-way. If that is lost, the transaction stays open until the broker
 * asks, and this program then says commit again.
 */
final class Transactions implements TransactionListener {
    private static final long PAUSE_NS = 100_000_000L;

    private final TransactionMQProducer producer;
    private final String topic;
    private final Consumer<String> told;

    /** Tells {@code told} the key of each transaction whose commit is on its way. */
    Transactions(String nameServer, String topic, String pollMs, Consumer<String> told) {
        this.topic = topic;
        this.told = told;
        this.producer = new TransactionMQProducer("transactions-" + topic);
        producer.setNamesrvAddr(nameServer);
        producer.setInstanceName("transactions");
        producer.setTransactionListener(this);
        if (pollMs != null) {
            producer.setPollNameServerInterval(Integer.parseInt(pollMs));
        }
    }

    /** Start, and return when the first transaction was taken, so that the topic exists. */
    void start() throws MQClientException {
        producer.start();
        for (int number = 0; !send(topic + "-first-" + number); number++) {
            LockSupport.parkNanos(PAUSE_NS);
        }
        Thread sender = new Thread(() -> {
            for (int number = 0; true; number++) {
                send(topic + "-" + number);
                LockSupport.parkNanos(PAUSE_NS);
            }
        }, "transactions");
        sender.setDaemon(true);
        sender.start();
    }

    private boolean send(String key) {
        try {
            Message message = new Message(topic, "", key, key.getBytes(StandardCharsets.US_ASCII));
            TransactionSendResult result = producer.sendMessageInTransaction(message, null);
            if (result.getSendStatus() == SendStatus.SEND_OK) {
                told.accept(key);
                return true;
            }
        } catch (MQClientException e) {
            System.err.println("transaction " + key + ": " + e.getMessage());
        }
        return false;
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object argument) {
        return LocalTransactionState.COMMIT_MESSAGE;
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        return LocalTransactionState.COMMIT_MESSAGE;
    }
}
