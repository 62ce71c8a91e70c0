package listeners

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/test/real"
)

// winston sends each line of standard input to Loki, in protobuf or JSON, as a program in Node.js does.
const winston = `
const {createLogger} = require("winston"), LokiTransport = require("winston-loki");
const loki = new LokiTransport({host: process.argv[1], json: process.argv[2] === "json", labels: {job: "nginx"}, batching: true, interval: 1,
	format: require("winston").format.printf(info => info.message), onConnectionError: e => { console.error(e); process.exit(1); }});
const logger = createLogger({transports: [loki]});
require("readline").createInterface({input: process.stdin}).on("line", line => logger.info(line))
	.on("close", () => loki.flush().then(() => process.exit(0), e => { console.error(e); process.exit(1); }));
`

// winston-loki pushes its lines.
func TestLokiFromWinston(t *testing.T) {
	node := real.Program(t, "node", "nodejs")
	modules := ""
	for _, folder := range filepath.SplitList(os.Getenv("WEIR_EDGES")) {
		if found := filepath.Join(folder, "..", "node_modules"); exists(filepath.Join(found, "winston-loki")) {
			modules = found
		}
	}
	if modules == "" {
		real.Missing(t, "winston-loki is missing next to the folders of WEIR_EDGES: .ci/run has the command that installs it")
	}
	for _, form := range []string{"protobuf", "json"} {
		t.Run(form, func(t *testing.T) {
			b := newLokiBench(t)
			b.start()
			command := exec.CommandContext(within(t), node, "-e", winston, "http://"+b.address(), form)
			command.Env = append(os.Environ(), "NODE_PATH="+modules)
			command.Stdin = strings.NewReader(b.body(300))
			if out, err := command.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			b.sink.Await(t, b.Want)
			if status := b.source().Status(); status.Requests != 300 || len(status.Uncounted) > 0 {
				t.Error(fmt.Sprint(status))
			}
		})
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
