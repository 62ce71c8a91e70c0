package weir.bench;

/** Limit is so many requests in so many milliseconds. */
record Limit(int hits, long millis, String name) {
    static final Limit[] THREE = {
        new Limit(10, 60_000, "10/min"), new Limit(100, 3_600_000, "100/hour"), new Limit(1000, 86_400_000, "1000/day"),
    };
}
