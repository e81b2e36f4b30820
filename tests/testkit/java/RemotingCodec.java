import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/**
 * RocketMQ's own codec as an oracle. Reads one frame a line (hex, without its length word) and answers with one line:
 * what its RemotingCommand understood, a space, and the frame it writes for that (hex, with length word). Texts are hex
 * of UTF-8, "-" is null.
 */
public class RemotingCodec {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer;
            try {
                RemotingCommand command = RemotingCommand.decode(ByteBuffer.wrap(HexFormat.of().parseHex(line)));
                ByteBuffer frame = command.encode();
                byte[] bytes = new byte[frame.remaining()];
                frame.get(bytes);
                answer = describe(command) + " " + HexFormat.of().formatHex(bytes);
            } catch (Exception error) {
                answer = "refused " + error.getClass().getName();
            }
            System.out.println(answer);
        }
    }

    private static String describe(RemotingCommand command) {
        StringBuilder text = new StringBuilder();
        text.append(command.getCode()).append('|').append(command.getOpaque()).append('|').append(command.getFlag());
        text.append('|').append(command.getLanguage()).append('|').append(command.getVersion());
        text.append('|').append(command.getSerializeTypeCurrentRPC()).append('|').append(hex(command.getRemark()));
        text.append('|').append(command.getBody() == null ? "" : HexFormat.of().formatHex(command.getBody()));
        text.append('|');
        if (command.getExtFields() == null) {
            return text.append('-').toString();
        }
        for (Map.Entry<String, String> field : new TreeMap<>(command.getExtFields()).entrySet()) {
            text.append(hex(field.getKey())).append('=').append(hex(field.getValue())).append(';');
        }
        return text.toString();
    }

    private static String hex(String text) {
        return text == null ? "-" : HexFormat.of().formatHex(text.getBytes(StandardCharsets.UTF_8));
    }
}
