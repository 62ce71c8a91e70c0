package kafka_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/kafka/kafkatest"
	"weir/internal/topic"
	"weir/test/wait"
)

// longSession is longer than any test waits.
const longSession = 5 * time.Minute

// killedMember is a member in a process of its own, until that is killed. It prints the partitions that it gets.
func killedMember(name string) {
	client, err := kafka.Open(kafka.Config{Brokers: strings.Split(os.Getenv("WEIR_KILLED_BROKERS"), ","), Places: os.Getenv("WEIR_KILLED_FOLDER"), Session: longSession})
	if err == nil {
		err = client.RunGroup(context.Background(), topic.Group{Name: name, Topics: map[string]int{name: 2}}, func(ctx context.Context, claim *topic.Claim) error {
			fmt.Println("has", claim.Partition)
			<-ctx.Done()
			return nil
		})
	}
	fmt.Println(err)
}

// The group does not wait for the session of a member that was killed when its process starts again. Another member
// with the same folder keeps its place.
func TestAKilledMemberIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, config kafka.Config) {
		config.Places, config.Session = filepath.Join(t.TempDir(), "groups"), longSession
		client := kafkatest.Client(t, config)
		topicName := newTopic(t, client, 2)
		group := topic.Group{Name: topicName, Topics: map[string]int{topicName: 2}}
		l := newLedger(t)
		join(t, client, group, l.own("one"))
		l.await("one", 2)
		id := l.member("one")

		for _, name := range []string{"two", "three"} { // the second one finds what the first one left
			killMember(t, config, topicName)
			leave := join(t, client, group, l.own(name))
			l.await(name, 1)
			l.await("one", 1)
			leave()
			l.await("one", 2)
		}
		if l.member("one") != id {
			t.Errorf("the member that was not killed has lost its place: it was %s and is %s", id, l.member("one"))
		}
	}
	t.Run("fake", func(t *testing.T) {
		t.Parallel()
		_, config := fake(t)
		test(t, config)
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		test(t, onReal(t))
	})
}

// killMember runs a member in a process of its own, and kills that once it has a partition.
func killMember(t *testing.T, config kafka.Config, name string) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), "WEIR_KILLED_BROKERS="+strings.Join(config.Brokers, ","), "WEIR_KILLED_TOPIC="+name, "WEIR_KILLED_FOLDER="+config.Places)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	if err != nil || !strings.HasPrefix(line, "has ") {
		t.Fatalf("the member said %q, %v", line, err)
	}
}

// A copy of a process's folder, as of a machine that was cloned, costs the first process its place once: the second one
// takes it for its own former self. Both have their share then, and the first one has it without a wait.
func TestACopiedFolderIsHarmless(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, config kafka.Config) {
		config.Session = longSession
		config.Places = filepath.Join(t.TempDir(), "groups")
		client := kafkatest.Client(t, config)
		name := newTopic(t, client, 4)
		group := topic.Group{Name: name, Topics: map[string]int{name: 4}}
		l := newLedger(t)
		l.fenced = true
		join(t, client, group, l.own("one"))
		l.await("one", 4)
		first := l.member("one")

		copied := filepath.Join(t.TempDir(), "groups")
		if err := os.CopyFS(copied, os.DirFS(config.Places)); err != nil {
			t.Fatal(err)
		}
		config.Places = copied
		leave := join(t, kafkatest.Client(t, config), group, l.own("two"))
		wait.Until(t, "two shares", func() bool {
			return len(l.of("one")) == 2 && len(l.of("two")) == 2 && l.member("one") != first
		})
		leave()
		l.await("one", 4)
		second := l.member("one")

		join(t, kafkatest.Client(t, config), group, l.own("two"))
		l.await("two", 2)
		l.await("one", 2)
		if l.member("one") != second {
			t.Errorf("it has lost its place twice: it was %s and is %s", second, l.member("one"))
		}
	})
}

// A file that cannot be a place, or has anything else in it, keeps no one out of the group.
func TestPlacesThatCannotBeUsed(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, file string){
		"a file in place of the folder": func(t *testing.T, file string) { write(t, filepath.Dir(file), "") },
		"a folder in place of the file": func(t *testing.T, file string) {
			if err := os.MkdirAll(file, 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"no id":              func(t *testing.T, file string) { write(t, file, "half an id") },
		"more than an id":    func(t *testing.T, file string) { write(t, file, strings.Repeat("x", 10<<20)) },
		"an id of no member": func(t *testing.T, file string) { write(t, file, "unknown\n") },
		"an id of strings":   func(t *testing.T, file string) { write(t, file, "\x00\xff\n\n\n") },
	} {
		t.Run(name, func(t *testing.T) {
			_, config := fake(t)
			config.Places = filepath.Join(t.TempDir(), "groups")
			spoil(t, filepath.Join(config.Places, "g.0"))
			client := kafkatest.Client(t, config)
			if err := client.EnsureTopics(t.Context(), topic.Topic{Name: "hits", Partitions: 2}); err != nil {
				t.Fatal(err)
			}
			l := newLedger(t)
			join(t, client, topic.Group{Name: "g", Topics: map[string]int{"hits": 2}}, l.own("one"))
			l.await("one", 2)
		})
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
