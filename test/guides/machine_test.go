// Package guides follows the pages of docs/guides: it pastes their commands into a shell, and compares their output
// with the pages.
//
// The shell is root's on a machine of its own: a network with nothing but its loopback, its own processes, and copies
// of /etc, /var/lib and the like that no other process sees. So the pages' own ports and paths are used. Programs are
// the real ones, except systemctl, which a few lines of shell replace.
package guides

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/test/page"
	"weir/test/real"
)

const (
	root = "../.."
	// patience is how long a command that only looks is repeated until its output is that of the page.
	patience = 2 * time.Minute
)

// built is the folder of our programs, once there is one.
var built string

// programs builds our programs, as the pages do, once.
var programs = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "weir-guides-*")
	if err != nil {
		return "", err
	}
	built = folder
	build := exec.Command("go", "build", "-o", folder+"/", "./cmd/weir", "./test/kafka")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return folder, os.Chmod(folder, 0o755)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// A machine is a root shell that is isolated from the rest of the system.
type machine struct {
	t       *testing.T
	folder  string
	blocks  *int
	asks    io.Writer
	ends    *bufio.Reader
	endFile *os.File // that ends reads
}

// setup makes the machine, then runs the files whose names it reads.
const setup = `
set -e
ip link set lo up
mkdir -p "$MACHINE/fs"
mount -t tmpfs tmpfs "$MACHINE/fs"
for folder in /etc /usr/local/bin /var/lib /var/log /srv /opt; do
	over="$MACHINE/fs/${folder//\//_}"
	mkdir -p "$over.upper" "$over.work"
	mount -t overlay overlay -o "lowerdir=$folder,upperdir=$over.upper,workdir=$over.work" "$folder"
done
mount -t tmpfs tmpfs /run
mkdir -p bin
mount -t tmpfs tmpfs bin
rm -rf /var/lib/weir /etc/weir /etc/systemd/system/weir.service
rm -f /var/log/nginx/* /var/log/caddy/*
cp "$PROGRAMS"/weir "$PROGRAMS"/kafka /opt
echo ready >&4
set +e
while read -r MACHINE_BLOCK <&3; do
	. "$MACHINE/$MACHINE_BLOCK.sh" >"$MACHINE/$MACHINE_BLOCK.out" 2>&1 </dev/null 3<&- 4>&-
	echo "$MACHINE_BLOCK $?" >&4
done
`

// stand-ins: systemctl knows the commands of the pages, and go has already built their programs.
var standIns = map[string]string{
	"systemctl": `#!/bin/bash
unit=/etc/systemd/system/weir.service
of() { sed -n "s/^$1=//p" $unit | tail -1; }
stopped() { [ ! -e "/run/$1.id" ] || { kill "$(cat "/run/$1.id")"; while kill -0 "$(cat "/run/$1.id")" 2>/dev/null; do sleep 0.05; done; rm "/run/$1.id"; }; }
started() {
	case $1 in
	weir)
		user=$(of User)
		install -d -o "$user" -g "$user" -m 750 /var/lib/weir
		STATE_DIRECTORY=/var/lib/weir setpriv --reuid "$user" --regid "$user" --groups "$(id -G "$user" | tr ' ' ,),$(getent group "$(of SupplementaryGroups)" | cut -d: -f3)" $(of ExecStart) >>/var/log/weir.log 2>&1 3>&- 4>&- & ;;
	caddy) HOME=/var/lib/caddy setpriv --reuid caddy --regid caddy --clear-groups --inh-caps +net_bind_service --ambient-caps +net_bind_service caddy run --config /etc/caddy/Caddyfile --adapter caddyfile >>/var/log/caddy.log 2>&1 & ;;
	traefik) traefik --configfile=/etc/traefik/traefik.yaml >>/var/log/traefik.log 2>&1 & ;;
	esac
	id=$!
	echo $id >"/run/$1.id"
	# Traefik has read its routes when its application answers; what it refuses before is not in its log.
	if [ "$1" = traefik ]; then while kill -0 $id 2>/dev/null && ! curl -sf -o /dev/null --max-time 1 http://127.0.0.1/; do sleep 0.05; done; fi
	# Their units are of the type notify.
	while kill -0 $id 2>/dev/null && ! curl -s -o /dev/null --max-time 1 "http://127.0.0.1:$([ "$1" = weir ] && echo 7431 || echo 80)/healthz"; do sleep 0.05; done
	kill -0 $id
}
case "$*" in
daemon-reload) ;;
"start nginx") exec nginx ;;
"reload nginx")
	# Requests a moment later are for the new processes.
	old=$(pgrep -P "$(cat /run/nginx.pid)")
	nginx -s reload 2>/dev/null
	for id in $old; do while kill -0 "$id" 2>/dev/null; do sleep 0.05; done; done ;;
"stop nginx") nginx -s quit; while [ -e /run/nginx.pid ]; do sleep 0.05; done ;;
"enable --now weir" | "start weir" | "start caddy" | "start traefik") for last; do :; done; started "$last" ;;
"restart weir" | "restart caddy" | "restart traefik") stopped "$2"; started "$2" ;;
"stop weir" | "stop caddy" | "stop traefik") stopped "$2" ;;
*) echo "systemctl: no stand-in for $*" >&2; exit 1 ;;
esac
`,
	"journalctl": `#!/bin/sh
exec cat /var/log/weir.log
`,
	"go": `#!/bin/sh
case "$*" in
"build -o bin/ ./cmd/weir") [ -d cmd/weir ] && cp /opt/weir bin ;;
"build -o $HOME/weir-kafka/ ./cmd/weir ./test/kafka") [ -d cmd/weir ] && [ -d test/kafka ] && cp /opt/weir /opt/kafka "$HOME/weir-kafka" ;;
*) echo "go: no stand-in for $*" >&2; exit 1 ;;
esac
`,
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	for program, debian := range map[string]string{"unshare": "util-linux", "setpriv": "util-linux", "ip": "iproute2", "curl": "curl", "useradd": "passwd", "nginx": "nginx"} {
		real.Program(t, program, debian)
	}
	const tries = "mount -t tmpfs tmpfs /mnt && cd /mnt && mkdir low up work all && mount -t overlay overlay -o lowerdir=low,upperdir=up,workdir=work all"
	if said, err := exec.Command("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "bash", "-c", tries).CombinedOutput(); err != nil {
		real.Missing(t, fmt.Sprintf("a machine of a test's own needs root, namespaces and overlays (%v: %s)", err, bytes.TrimSpace(said)))
	}

	ours, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir() // has Kafka
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, folder: t.TempDir(), blocks: new(int)}
	for name, text := range standIns {
		m.write("bin/"+name, text)
	}
	askIn, askOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	endIn, endOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "bash", "-c", setup)
	command.Dir, command.ExtraFiles = root, []*os.File{askIn, endOut}
	command.Stdout, command.Stderr = t.Output(), t.Output()
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	command.Env = append(os.Environ(), "MACHINE="+m.folder, "PROGRAMS="+ours, "PATH="+m.folder+"/bin:"+os.Getenv("PATH")+":"+os.Getenv("WEIR_EDGES")+":/usr/sbin:/sbin", "LC_ALL=C.UTF-8",
		"HOME="+m.folder+"/home", "XDG_CACHE_HOME="+cache)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	askIn.Close()
	endOut.Close()
	m.asks, m.ends = askOut, bufio.NewReader(endIn)
	m.endFile = endIn
	t.Cleanup(func() {
		if t.Failed() && *m.blocks > 0 {
			t.Logf("weir's log:\n%s", m.do("cat /var/log/weir.log; weir status; wc -l /var/log/*/*access*").printed)
		}
		_ = command.Process.Kill()
		_ = command.Wait()
		askOut.Close()
		endIn.Close()
	})
	if line, err := m.ends.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatal("the test's own machine does not start")
	}
	return m
}

// with is the machine for a subtest.
func (m *machine) with(t *testing.T) *machine {
	part := *m
	part.t = t
	return &part
}

func (m *machine) write(name, text string) string {
	m.t.Helper()
	path := filepath.Join(m.folder, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o755)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return path
}

// A result is the output of commands, and the exit status of the last of them.
type result struct {
	printed string
	code    int
}

// do pastes commands into the shell.
func (m *machine) do(commands string) (r result) {
	m.t.Helper()
	*m.blocks++
	name := fmt.Sprint(*m.blocks)
	m.write(name+".sh", commands)
	fmt.Fprintln(m.asks, name)
	if err := m.endFile.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil { // for a loop that does not end
		m.t.Fatal(err)
	}
	line, err := m.ends.ReadString('\n')
	if err != nil {
		m.t.Fatalf("the shell does not answer: %v\n%s", err, commands)
	}
	if _, err := fmt.Sscanf(line, name+" %d", &r.code); err != nil {
		m.t.Fatalf("%q: %v", line, err)
	}
	printed, err := os.ReadFile(filepath.Join(m.folder, name+".out"))
	if err != nil {
		m.t.Fatal(err)
	}
	r.printed = string(printed)
	return r
}

// must pastes commands that have to succeed.
func (m *machine) must(commands string) string {
	m.t.Helper()
	r := m.do(commands)
	if r.code != 0 {
		m.t.Fatalf("%s\nended with %d:\n%s", commands, r.code, r.printed)
	}
	return r.printed
}

// looks are commands that may be repeated until they show the expected output: counting, publishing and reloading
// happen in the background.
var looks = regexp.MustCompile(`^(?:\./)?(weir (list|status|explain|top|history|cat|parse|check|watch|backtest|test)|curl|tail|grep|helm|kcat -L)\b`)

// paste pastes the blocks of a page, or those under some headings, in their order.
func (m *machine) paste(path string, headings ...string) {
	m.t.Helper()
	blocks := page.Read(m.t, filepath.Join(root, path))
	pasted := 0
	for i, b := range blocks {
		if b.Language != "sh" || len(headings) > 0 && !contains(headings, b.Heading) {
			continue
		}
		pasted++
		shown := ""
		if i+1 < len(blocks) && blocks[i+1].Language == "text" && blocks[i+1].Heading == b.Heading {
			shown = blocks[i+1].Text
		}
		m.pasteBlock(fmt.Sprintf("%s:%d", path, b.Line), b.Text, shown)
	}
	if pasted == 0 {
		m.t.Fatalf("%s has no commands under %q", path, headings)
	}
}

func (m *machine) pasteBlock(place, commands, shown string) {
	m.t.Helper()
	code := 0
	if _, err := fmt.Sscanf(commands[strings.LastIndex(strings.TrimRight(commands, "\n"), "\n")+1:], "# exit code %d", &code); err != nil {
		code = 0
	}
	for end := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		r := m.do(commands)
		var err error
		if shown != "" {
			err = page.Compare(shown, r.printed)
		}
		if err == nil && r.code != code {
			err = fmt.Errorf("the exit code is %d, not %d", r.code, code)
		}
		if err == nil {
			return
		}
		if !repeatable(commands) || time.Now().After(end) {
			m.t.Fatalf("%s: %v\n--- commands\n%s--- printed\n%s--- the page shows\n%s", place, err, commands, r.printed, shown)
		}
	}
}

// repeatable reports whether all commands only look.
func repeatable(commands string) bool {
	for line := range strings.Lines(commands) {
		if !looks.MatchString(line) && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "  ") && line != "\n" {
			return false
		}
	}
	return true
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}
