// Package hdfs runs a real HDFS for tests: a name node and a data node of Apache Hadoop.
package hdfs

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/test/port"
	"weir/test/real"
	"weir/test/wait"
)

// User is the one that writes all files, and may read them.
const User = "weir"

const (
	nameNode = "org.apache.hadoop.hdfs.server.namenode.NameNode"
	dataNode = "org.apache.hadoop.hdfs.server.datanode.DataNode"
)

// A Server is an HDFS.
type Server struct {
	URL  string
	Root string // comes before each path

	rpc    string
	t      testing.TB
	jars   string
	folder string
	nodes  map[string]*exec.Cmd
}

// Below returns the server for another test, which takes a folder for the root: several can share one server, which takes
// long to start. None of them ends it.
func (s *Server) Below(t testing.TB, folder string) *Server {
	other := *s
	other.t, other.Root = t, folder
	return &other
}

// Start starts a server. Its listings have five entries at once.
func Start(t testing.TB) *Server {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, jars: filepath.Join(cache, "weir", "edges", "hdfs"), folder: t.TempDir(), nodes: map[string]*exec.Cmd{}}
	if _, err := os.Stat(s.jars); err != nil {
		real.Missing(t, "Hadoop is missing: mvn -f test/hdfs/pom.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory="+s.jars)
	}
	if _, err := exec.LookPath("java"); err != nil {
		real.Missing(t, "java is missing")
	}
	address := port.Reserve(t, "127.0.0.1")
	s.URL = "http://" + address
	s.rpc = port.Reserve(t, "127.0.0.1")
	s.configure(address, s.rpc)
	if out, err := s.command(nameNode, "-format", "-nonInteractive").CombinedOutput(); err != nil {
		t.Fatalf("formatting the name node: %v: %s", err, out)
	}
	t.Cleanup(s.Kill)
	s.Restart()
	return s
}

func (s *Server) configure(web, rpc string) {
	s.t.Helper()
	for _, folder := range []string{"hdfs", "datanode"} { // of web pages, which have to be there
		s.must(os.MkdirAll(filepath.Join(s.folder, "webapps", folder), 0o755))
	}
	var text strings.Builder
	for key, value := range map[string]string{
		"fs.defaultFS":              "hdfs://" + rpc,
		"dfs.namenode.http-address": web, "dfs.namenode.name.dir": filepath.Join(s.folder, "names"), "dfs.datanode.data.dir": filepath.Join(s.folder, "data"),
		"dfs.datanode.address": "127.0.0.1:0", "dfs.datanode.http.address": "127.0.0.1:0", "dfs.datanode.ipc.address": "127.0.0.1:0",
		"dfs.replication": "1", "dfs.namenode.safemode.extension": "0", "dfs.ls.limit": "5", "dfs.namenode.avoid.write.stale.datanode": "false",
		"dfs.client.block.write.replace-datanode-on-failure.enable": "false",
		// A file is closed once its data node has reported the block. A client asks again after this time; the default is 400 ms.
		"dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10", "dfs.client.block.write.locateFollowingBlock.max.delay.ms": "100",
	} {
		fmt.Fprintf(&text, "<property><name>%s</name><value>%s</value></property>\n", key, value)
	}
	for _, file := range []string{"core-site.xml", "hdfs-site.xml"} {
		s.must(os.WriteFile(filepath.Join(s.folder, file), []byte("<configuration>"+text.String()+"</configuration>"), 0o644))
	}
	s.must(os.WriteFile(filepath.Join(s.folder, "log4j.properties"), []byte("log4j.rootLogger=OFF\n"), 0o644))
}

func (s *Server) command(class string, args ...string) *exec.Cmd {
	// It runs for a short time: it does not optimize, and does not verify classes.
	java := []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote", "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp", s.folder + ":" + s.jars + "/*", class}
	command := exec.Command("java", append(java, args...)...)
	command.Env = append(os.Environ(), "HADOOP_USER_NAME="+User) // the user of the name node may do everything
	return command
}

// Restart starts the nodes after Kill, and returns when files can be written.
func (s *Server) Restart() { s.t.Helper(); s.start(nameNode, dataNode) }

// RestartData ends the data node at once, as kill -9 does, and starts it again.
func (s *Server) RestartData(meanwhile func()) {
	s.t.Helper()
	s.end(dataNode)
	meanwhile()
	s.start(dataNode)
}

func (s *Server) start(classes ...string) {
	s.t.Helper()
	for _, class := range classes {
		s.nodes[class] = s.command(class)
		s.must(s.nodes[class].Start())
	}
	var err error
	defer func() {
		if err != nil {
			s.t.Log(err)
		}
	}()
	wait.Until(s.t, "HDFS to take files", func() bool { err = s.put("CREATE", "/ready", []byte("ready")); return err == nil })
}

// Kill ends the nodes at once, as kill -9 does.
func (s *Server) Kill() {
	for class := range s.nodes {
		s.end(class)
	}
}

func (s *Server) end(class string) {
	_ = s.nodes[class].Process.Kill()
	_ = s.nodes[class].Wait()
	delete(s.nodes, class)
}

// Put writes a file.
func (s *Server) Put(path string, body []byte) { s.t.Helper(); s.must(s.put("CREATE", path, body)) }

// Append adds to a file.
func (s *Server) Append(path string, body []byte) { s.t.Helper(); s.must(s.put("APPEND", path, body)) }

// Begin writes a file, and leaves it open until end is called.
func (s *Server) Begin(path string, body []byte) (end func()) {
	s.t.Helper()
	to, err := s.redirect("CREATE", path)
	s.must(err)
	from, write := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- send("CREATE", to, from) }()
	_, err = write.Write(body)
	s.must(err)
	return func() {
		s.t.Helper()
		_ = write.Close()
		s.must(<-done)
	}
}

// Rename gives a file or folder another path.
func (s *Server) Rename(from, to string) {
	s.t.Helper()
	s.do(http.MethodPut, from, url.Values{"op": {"RENAME"}, "destination": {s.Root + to}})
}

// Make makes a folder.
func (s *Server) Make(path string) {
	s.t.Helper()
	s.do(http.MethodPut, path, url.Values{"op": {"MKDIRS"}})
}

// Delete deletes a file or folder.
func (s *Server) Delete(path string) {
	s.t.Helper()
	s.do(http.MethodDelete, path, url.Values{"op": {"DELETE"}, "recursive": {"true"}})
}

// Permit sets the rights of a file or folder.
func (s *Server) Permit(path, rights string) {
	s.t.Helper()
	s.do(http.MethodPut, path, url.Values{"op": {"SETPERMISSION"}, "permission": {rights}})
}

func (s *Server) url(path string, query url.Values) string {
	query.Set("user.name", User)
	return s.URL + "/webhdfs/v1" + (&url.URL{Path: s.Root + path}).EscapedPath() + "?" + query.Encode()
}

func (s *Server) do(method, path string, query url.Values) {
	s.t.Helper()
	request, err := http.NewRequest(method, s.url(path, query), nil)
	s.must(err)
	answer, err := http.DefaultClient.Do(request)
	s.must(err)
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusOK || bytes.Contains(text, []byte(`"boolean":false`)) {
		s.t.Fatalf("%v of %s: %s: %s", query, path, answer.Status, text)
	}
}

func (s *Server) put(operation, path string, body []byte) error {
	to, err := s.redirect(operation, path)
	if err != nil {
		return err
	}
	return send(operation, to, bytes.NewReader(body))
}

func method(operation string) string {
	if operation == "APPEND" {
		return http.MethodPost
	}
	return http.MethodPut
}

// redirect asks the name node for the data node that takes a file.
func (s *Server) redirect(operation, path string) (string, error) {
	request, err := http.NewRequest(method(operation), s.url(path, url.Values{"op": {operation}, "overwrite": {"true"}}), nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	to := answer.Header.Get("Location")
	if to == "" {
		return "", fmt.Errorf("no data node: %s", answer.Status)
	}
	return to, nil
}

func send(operation, to string, body io.Reader) error {
	request, err := http.NewRequest(method(operation), to, body)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s: %s", answer.Status, text)
	}
	return nil
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// CutOpenBlocks cuts bytes off the files that are being written, as a loss of power does. The data node does not run.
func (s *Server) CutOpenBlocks(size int64) {
	s.t.Helper()
	blocks, err := filepath.Glob(filepath.Join(s.folder, "data", "current", "*", "current", "rbw", "blk_*"))
	s.must(err)
	for _, block := range blocks {
		if strings.HasSuffix(block, ".meta") {
			continue
		}
		info, err := os.Stat(block)
		s.must(err)
		s.must(os.Truncate(block, info.Size()-size))
	}
}
