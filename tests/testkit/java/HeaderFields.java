import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;

/** Reads one simple name of a header class a line; answers with its fields as "name:Type", separated by spaces. */
public class HeaderFields {
    private static final String[] PACKAGES = {
        "", "controller.", "controller.register.", "controller.admin.", "namesrv."
    };

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            StringBuilder text = new StringBuilder();
            for (Field field : find(line).getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    text.append(field.getName()).append(':').append(field.getType().getSimpleName()).append(' ');
                }
            }
            System.out.println(text.toString().trim());
        }
    }

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String part : PACKAGES) {
            try {
                return Class.forName("org.apache.rocketmq.remoting.protocol.header." + part + name);
            } catch (ClassNotFoundException ignored) {
                // the next package may have it
            }
        }
        throw new ClassNotFoundException(name);
    }
}
