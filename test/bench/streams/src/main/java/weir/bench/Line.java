package weir.bench;

import java.time.LocalDateTime;
import java.time.ZoneOffset;

/** Line takes the client and the time out of a line of the combined format, without regular expressions. */
final class Line {
    private static final String MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec";

    private Line() {}

    /** client is the first word of the line, null where it is no line of a log. */
    static String client(String line) {
        int end = line.indexOf(' ');
        return end <= 0 ? null : line.substring(0, end);
    }

    /** time is the instant in brackets in Unix milliseconds, -1 where there is none. */
    static long time(String line) {
        int at = line.indexOf('[') + 1;
        if (at == 0 || line.length() < at + 26) {
            return -1;
        }
        int month = MONTHS.indexOf(line.substring(at + 3, at + 6)) / 3 + 1;
        long seconds = LocalDateTime.of(number(line, at + 7, 4), month, number(line, at, 2),
                number(line, at + 12, 2), number(line, at + 15, 2), number(line, at + 18, 2)).toEpochSecond(ZoneOffset.UTC);
        int offset = number(line, at + 22, 2) * 3600 + number(line, at + 24, 2) * 60;
        return (line.charAt(at + 21) == '-' ? seconds + offset : seconds - offset) * 1000;
    }

    private static int number(String line, int at, int digits) {
        int n = 0;
        for (int i = at; i < at + digits; i++) {
            n = 10 * n + line.charAt(i) - '0';
        }
        return n;
    }
}
