import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.remoting.protocol.EpochEntry;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.config.BrokerRole;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.ha.HAConnection;
import org.apache.rocketmq.store.ha.autoswitch.AutoSwitchHAConnection;
import org.apache.rocketmq.store.ha.autoswitch.AutoSwitchHAService;
import org.apache.rocketmq.store.ha.autoswitch.EpochFileCache;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Unmodified message stores with their AutoSwitchHA service, without a broker around them, led over stdin.
 *
 * One command a line, one answer a line that begins with "> ": what a broker tells its store when its controller
 * tells it something, and what the store then says of itself.
 */
public class HaStores {
    private static final InetSocketAddress HOST = new InetSocketAddress("127.0.0.1", 10911);

    private final Map<String, Kept> stores = new HashMap<>();

    private static final class Kept {
        final DefaultMessageStore store;
        final List<Set<Long>> reported = new ArrayList<>();

        Kept(DefaultMessageStore store) {
            this.store = store;
        }

        AutoSwitchHAService ha() {
            return (AutoSwitchHAService) store.getHaService();
        }
    }

    public static void main(String[] arguments) throws Exception {
        HaStores program = new HaStores();
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say("ready");
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                say(program.answer(line.trim().split(" ")));
            } catch (Throwable problem) {
                problem.printStackTrace();
                say("error " + problem);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    private static void say(String text) {
        System.out.println("> " + text);
        System.out.flush();
    }

    private String answer(String[] words) throws Exception {
        if (words[0].equals("open")) {
            return open(words);
        }
        if (words[0].equals("point")) {
            return Long.toString(cache(words[1], words[2]).findConsistentPoint(cache(words[3], words[4])));
        }
        Kept kept = stores.get(words[1]);
        switch (words[0]) {
            case "master":
                role(kept, BrokerRole.SYNC_MASTER);
                return Boolean.toString(kept.ha().changeToMaster(Integer.parseInt(words[2])));
            case "confirm":
                return Boolean.toString(kept.ha().changeToMasterWhenLastRoleIsMaster(Integer.parseInt(words[2])));
            case "slave":
                role(kept, BrokerRole.SLAVE);
                boolean done = kept.ha().changeToSlave("", Integer.parseInt(words[2]), Long.parseLong(words[3]));
                kept.ha().updateHaMasterAddress(words[4]);
                return Boolean.toString(done);
            case "put":
                return put(kept, Integer.parseInt(words[2]), Integer.parseInt(words[3]));
            case "set":
                kept.ha().setSyncStateSet(ids(words[2]));
                return "done";
            case "shrink":
                return text(kept.ha().maybeShrinkSyncStateSet());
            case "status":
                return status(kept);
            case "close":
                stores.remove(words[1]).store.shutdown();
                return "done";
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private String open(String[] words) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(words[2]);
        config.setStorePathCommitLog(words[2] + "/commitlog");
        config.setStorePathEpochFile(words[2] + "/epochFileCheckpoint");
        config.setMappedFileSizeConsumeQueue(20 * 10_000);
        config.setMessageIndexEnable(false);
        config.setMaxHashSlotNum(100);
        config.setMaxIndexNum(100);
        config.setBrokerRole(BrokerRole.SYNC_MASTER);
        Properties given = new Properties();
        for (String pair : Arrays.copyOfRange(words, 4, words.length)) {
            given.setProperty(pair.split("=")[0], pair.split("=")[1]);
        }
        MixAll.properties2Object(given, config);
        BrokerConfig broker = new BrokerConfig();
        broker.setEnableControllerMode(true);
        broker.setBrokerId(0);
        DefaultMessageStore store = new DefaultMessageStore(
            config, new BrokerStatsManager("c", true), null, broker, new ConcurrentHashMap<>());
        // As ReplicasManager does while a broker starts: without it, 5.2.0 takes a log without queues for one that has them.
        store.getRunningFlags().makeFenced(true);
        if (!store.load()) {
            throw new IllegalStateException("the store cannot be loaded");
        }
        Kept kept = new Kept(store);
        store.start();
        store.getRunningFlags().makeFenced(false);
        kept.ha().setLocalBrokerId(Long.parseLong(words[3]));
        kept.ha().setSyncStateSet(ids(words[3]));
        kept.ha().registerSyncStateSetChangedListener(set -> {
            synchronized (kept.reported) {
                kept.reported.add(new HashSet<>(set));
            }
        });
        stores.put(words[1], kept);
        return "done";
    }

    private static void role(Kept kept, BrokerRole role) {
        kept.store.getMessageStoreConfig().setBrokerRole(role);
    }

    private static Set<Long> ids(String text) {
        return Arrays.stream(text.split(",")).map(Long::parseLong).collect(Collectors.toSet());
    }

    private static String text(Set<Long> ids) {
        return new TreeSet<>(ids).stream().map(String::valueOf).collect(Collectors.joining(","));
    }

    private static String put(Kept kept, int count, int bodyBytes) {
        Map<String, Integer> statuses = new TreeMap<>();
        for (int number = 0; number < count; number++) {
            MessageExtBrokerInner message = new MessageExtBrokerInner();
            message.setTopic("T");
            message.setKeys("k");
            message.setQueueId(0);
            message.setBody(new byte[bodyBytes]);
            message.setBornTimestamp(System.currentTimeMillis());
            message.setBornHost(HOST);
            message.setStoreHost(HOST);
            message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
            statuses.merge(kept.store.putMessage(message).getPutMessageStatus().name(), 1, Integer::sum);
        }
        return statuses.entrySet().stream().map(e -> e.getKey() + "=" + e.getValue()).collect(Collectors.joining(" "));
    }

    private static String status(Kept kept) throws Exception {
        AutoSwitchHAService ha = kept.ha();
        List<String> found = new ArrayList<>();
        found.add("max=" + kept.store.getMaxPhyOffset());
        found.add("min=" + kept.store.getMinPhyOffset());
        found.add("confirm=" + kept.store.getConfirmOffset());
        found.add("queue=" + kept.store.getMaxOffsetInQueue("T", 0));
        found.add("epochs=" + ha.getEpochEntries().stream()
            .map(entry -> entry.getEpoch() + ":" + entry.getStartOffset()).collect(Collectors.joining(",")));
        found.add("set=" + text(ha.getSyncStateSet()));
        found.add("local=" + text(ha.getLocalSyncStateSet()));
        found.add("number=" + ha.inSyncReplicasNums(kept.store.getMaxPhyOffset()));
        synchronized (kept.reported) {
            found.add("reported=" + kept.reported.stream().map(HaStores::text).collect(Collectors.joining(";")));
        }
        List<String> slaves = new ArrayList<>();
        for (HAConnection one : ha.getConnectionList()) {
            AutoSwitchHAConnection slave = (AutoSwitchHAConnection) one;
            slaves.add(slave.getSlaveId() + ":" + slave.getSlaveAckOffset() + ":" + slave.isAsyncLearner());
        }
        found.add("slaves=" + String.join(",", slaves));
        return String.join(" ", found);
    }

    private static EpochFileCache cache(String entries, String maxOffset) {
        EpochFileCache cache = new EpochFileCache();
        List<EpochEntry> parsed = new ArrayList<>();
        for (String pair : entries.split(",")) {
            String[] two = pair.split(":");
            parsed.add(new EpochEntry(Integer.parseInt(two[0]), Long.parseLong(two[1])));
        }
        cache.initCacheFromEntries(parsed);
        cache.setLastEpochEntryEndOffset(Long.parseLong(maxOffset));
        return cache;
    }
}
