import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/** The options of a program's command line, each followed by its value. */
final class Options {
    private Options() {
    }

    /** Return the values by option; a last option without a value is refused. */
    static Map<String, String> of(String[] arguments) {
        if (arguments.length % 2 != 0) {
            throw new IllegalArgumentException("each option needs a value: " + Arrays.toString(arguments));
        }
        Map<String, String> options = new HashMap<>();
        for (int i = 0; i < arguments.length; i += 2) {
            options.put(arguments[i], arguments[i + 1]);
        }
        return options;
    }
}
