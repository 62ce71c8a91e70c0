package weir.bench;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.serialization.Deserializer;

/**
 * LineDeserializer takes the client and the time out of the bytes of a line in the combined format, and makes no text
 * of them. It returns null for any other line. It has no state, because all threads share it.
 */
final class LineDeserializer implements Deserializer<Hit> {
    private static final int TIME_LENGTH = "02/Jan/2006:15:04:05 -0700".length();

    @Override
    public Hit deserialize(String topic, byte[] line) {
        int end = find(line, ' ', 0);
        int at = find(line, '[', end) + 1;
        if (end <= 0 || at == 0 || line.length < at + TIME_LENGTH) {
            return null;
        }
        byte[] address = address(line, end);
        int month = month(line, at + 3);
        if (address == null || month == 0) {
            return null;
        }
        long seconds = 86_400 * days(number(line, at + 7, 4), month, number(line, at, 2))
                + 3600 * number(line, at + 12, 2) + 60 * number(line, at + 15, 2) + number(line, at + 18, 2);
        int offset = 3600 * number(line, at + 22, 2) + 60 * number(line, at + 24, 2);
        return new Hit(address, 1000 * (line[at + 21] == '-' ? seconds + offset : seconds - offset));
    }

    private static int find(byte[] line, char wanted, int from) {
        for (int i = Math.max(from, 0); i < line.length; i++) {
            if (line[i] == wanted) {
                return i;
            }
        }
        return -1;
    }

    /** address is the line's beginning as 4 or 16 bytes, null where it is not an address. */
    private static byte[] address(byte[] line, int end) {
        byte[] four = new byte[4];
        int part = 0, digits = 0, n = 0;
        for (int i = 0; i < end; i++) {
            byte b = line[i];
            if (b >= '0' && b <= '9') {
                digits++;
                n = 10 * n + b - '0';
            } else if (b == '.' && digits > 0 && part < 3) {
                four[part++] = (byte) n;
                digits = n = 0;
            } else {
                return sixteen(new String(line, 0, end, StandardCharsets.ISO_8859_1));
            }
            if (n > 255) {
                return sixteen(new String(line, 0, end, StandardCharsets.ISO_8859_1));
            }
        }
        four[part] = (byte) n;
        return part == 3 && digits > 0 ? four : null;
    }

    private static byte[] sixteen(String address) {
        try {
            return address.indexOf(':') < 0 ? null : InetAddress.getByName(address).getAddress(); // never looked up as a name
        } catch (UnknownHostException e) {
            return null;
        }
    }

    /** month is 1 to 12, 0 for any other word. */
    private static int month(byte[] line, int at) {
        return switch (line[at] << 16 | line[at + 1] << 8 | line[at + 2]) {
            case 'J' << 16 | 'a' << 8 | 'n' -> 1;
            case 'F' << 16 | 'e' << 8 | 'b' -> 2;
            case 'M' << 16 | 'a' << 8 | 'r' -> 3;
            case 'A' << 16 | 'p' << 8 | 'r' -> 4;
            case 'M' << 16 | 'a' << 8 | 'y' -> 5;
            case 'J' << 16 | 'u' << 8 | 'n' -> 6;
            case 'J' << 16 | 'u' << 8 | 'l' -> 7;
            case 'A' << 16 | 'u' << 8 | 'g' -> 8;
            case 'S' << 16 | 'e' << 8 | 'p' -> 9;
            case 'O' << 16 | 'c' << 8 | 't' -> 10;
            case 'N' << 16 | 'o' << 8 | 'v' -> 11;
            case 'D' << 16 | 'e' << 8 | 'c' -> 12;
            default -> 0;
        };
    }

    /** days is the number of days since 1970, from March on so that a leap day is a year's last. */
    private static long days(int year, int month, int day) {
        int y = month > 2 ? year : year - 1;
        int inYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
        return 365L * y + y / 4 - y / 100 + y / 400 + inYear - 719_468;
    }

    private static int number(byte[] line, int at, int digits) {
        int n = 0;
        for (int i = at; i < at + digits; i++) {
            n = 10 * n + line[i] - '0';
        }
        return n;
    }
}
