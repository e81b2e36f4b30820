import java.util.Map;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** Signs a client's requests where the options --access-key and --secret-key are given. */
final class Access {
    private Access() {
    }

    static RPCHook hook(Map<String, String> options) {
        String user = options.get("--access-key");
        return user == null ? null : new AclClientRPCHook(new SessionCredentials(user, options.get("--secret-key")));
    }
}
