package haproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"
)

// A runtime sends a command and returns its answer.
type runtime interface {
	ask(ctx context.Context, command string) (string, error)
}

// connections opens a connection for each command.
type connections struct{ address string }

const (
	answerPatience = 10 * time.Second
	// answerBytes is more than any answer needs.
	answerBytes = 1 << 20
)

var errUnreachable = errors.New("HAProxy's runtime API does not answer")

func (c *connections) ask(ctx context.Context, command string) (string, error) {
	network := "unix"
	if !strings.Contains(c.address, "/") && strings.Contains(c.address, ":") {
		network = "tcp"
	}

	ctx, cancel := context.WithTimeout(ctx, answerPatience)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, c.address)
	if err != nil {
		return "", fmt.Errorf("%w: %w%s", errUnreachable, err, remedy(err))
	}

	// Reading and writing know no context, so its end closes the connection under them.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer func() {
		stop()
		_ = conn.Close() // everything has been read
	}()

	_, err = io.WriteString(conn, command+"\n")
	if err != nil {
		return "", fmt.Errorf("%w: %w", errUnreachable, err)
	}

	answer, err := io.ReadAll(io.LimitReader(conn, answerBytes))
	if err != nil {
		return "", fmt.Errorf("%w: %w", errUnreachable, err)
	}
	return string(answer), nil
}

func remedy(err error) string {
	switch {
	case errors.Is(err, os.ErrPermission):
		return "; let the enforcer's user open the socket (group and mode of HAProxy's stats socket)"
	case errors.Is(err, os.ErrNotExist):
		return "; is it the path of HAProxy's stats socket?"
	}
	return ""
}

// dryRun writes commands, and answers like HAProxy.
type dryRun struct {
	to      io.Writer
	version int
}

func (t *dryRun) ask(_ context.Context, command string) (string, error) {
	if command == showInfo || strings.HasPrefix(command, showMap) {
		return "", nil
	}
	_, err := fmt.Fprintln(t.to, command)
	if strings.HasPrefix(command, "prepare ") {
		t.version++
		return fmt.Sprintf("%s%d\n", versionMade, t.version), err
	}
	return "\n", err
}
