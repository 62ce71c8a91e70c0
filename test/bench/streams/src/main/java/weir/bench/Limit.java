package weir.bench;

/** Limit is so many hits in so many seconds. */
record Limit(int hits, int seconds, String name) {
    static final Limit[] THREE = {new Limit(10, 60, "10/min"), new Limit(100, 3_600, "100/hour"), new Limit(1000, 86_400, "1000/day")};
}
