package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Version is the Apache Kafka that Obtain gets.
const Version = "4.1.1"

// ErrCannotBeHad is returned when this machine has no Java or no Maven, or Maven finds no Kafka.
var ErrCannotBeHad = errors.New("a real Kafka is not available here")

const pom = `<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>weir</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>` + Version + `</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.24.3</version></dependency>
  </dependencies>
</project>
`

// Obtain returns the folder with Kafka's jars in the user's cache. The first call on a machine makes Maven fetch them
// (43 MB); processes that call it at the same time wait for one another.
func Obtain(ctx context.Context) (string, error) {
	if _, err := exec.LookPath("java"); err != nil {
		return "", fmt.Errorf("%w: there is no java on the PATH (17 or newer is needed)", ErrCannotBeHad)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrCannotBeHad, err)
	}

	parent := filepath.Join(cache, "weir")
	jars := filepath.Join(parent, "kafka-"+Version)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("making Kafka's cache folder: %w", err)
	}

	// Packages are tested in processes of their own, and several may need Kafka at once.
	unlock, err := lock(jars + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(jars); err == nil {
		return jars, nil
	}

	return jars, fetch(ctx, jars)
}

// fetch makes Maven copy the jars to a folder next to their final one, and renames it when it is complete.
func fetch(ctx context.Context, jars string) error {
	if _, err := exec.LookPath("mvn"); err != nil {
		return fmt.Errorf("%w: there is no mvn on the PATH to fetch it with", ErrCannotBeHad)
	}
	work, err := os.MkdirTemp(filepath.Dir(jars), "fetching-")
	if err != nil {
		return fmt.Errorf("making a folder for Kafka's jars: %w", err)
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), []byte(pom), 0o644); err != nil {
		return fmt.Errorf("writing Maven's project: %w", err)
	}

	maven := exec.CommandContext(ctx, "mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies",
		"-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(work, "jars"))
	maven.Dir = work
	if output, err := maven.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: Maven failed: %w: %s", ErrCannotBeHad, err, firstLine(output))
	}

	return os.Rename(filepath.Join(work, "jars"), jars)
}

func firstLine(output []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(output)), "\n")
	return line
}

// lock takes a file's lock, which ends with the process, and returns the function that releases it.
func lock(path string) (func(), error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking Kafka's cache folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		file.Close()
		return nil, fmt.Errorf("locking Kafka's cache folder: %w", err)
	}
	return func() { file.Close() }, nil
}
