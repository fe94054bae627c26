import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;

/**
 * Tells in which order Java has what it was given. A line in: how the map or set is made, and the keys; a line out: their order.
 *
 * <pre>    put i:17 i:1 s:dGVh      →  i:1 i:17 s:dGVh          s: text in base64, i, l, d, f, h, b, c, z: numbers and their like </pre>
 */
public class Orders {
    public static void main(String[] given) throws Exception {
        var in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        var out = new StringBuilder();
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            List<Object> keys = new ArrayList<>();
            Map<Object, String> spelled = new HashMap<>();
            for (int at = 1; at < words.length; at++) {
                keys.add(key(words[at]));
                spelled.put(keys.get(at - 1), words[at]);
            }
            List<String> told = new ArrayList<>();
            for (Object key : made(words[0], keys)) {
                told.add(spelled.get(key));
            }
            out.append(String.join(" ", told)).append('\n');
        }
        System.out.print(out);
    }

    static Collection<Object> made(String how, List<Object> keys) {
        if (how.equals("add")) {
            var set = new HashSet<Object>();
            keys.forEach(set::add);
            return set;
        }
        if (how.equals("copied-set")) {
            return new HashSet<>(keys);
        }
        Map<Object, Object> map = how.equals("roomy") ? new HashMap<>(1024) : new HashMap<>();
        for (Object key : keys) {
            map.put(key, 1);
        }
        if (how.equals("copied-map")) {
            return new HashMap<>(map).keySet();
        }
        if (how.equals("larger-once")) {
            for (int other = 0; other < 500; other++) {
                map.put("other " + other, 1);
            }
            for (int other = 0; other < 500; other++) {
                map.remove("other " + other);
            }
        }
        return map.keySet();
    }

    static String text(byte[] units) { // half a pair stays what it is
        var text = new StringBuilder();
        for (int at = 0; at < units.length; at += 2) {
            text.append((char) (units[at] & 0xff | units[at + 1] << 8));
        }
        return text.toString();
    }

    static Object key(String word) {
        String said = word.substring(2);
        return switch (word.charAt(0)) {
            case 's' -> text(Base64.getDecoder().decode(said));
            case 'c' -> (char) Integer.parseInt(said);
            case 'i' -> Integer.parseInt(said);
            case 'l' -> Long.parseLong(said);
            case 'h' -> Short.parseShort(said);
            case 'b' -> Byte.parseByte(said);
            case 'd' -> Double.longBitsToDouble(Long.parseLong(said));
            case 'f' -> Float.intBitsToFloat(Integer.parseInt(said));
            case 'z' -> said.equals("1");
            default -> throw new IllegalArgumentException(word);
        };
    }
}
