package weir.bench;

/** Hit is a request: its client's address, 4 or 16 bytes, and its time in Unix milliseconds. */
record Hit(byte[] address, long millis) {}
