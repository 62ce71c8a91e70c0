package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"weir/test/real"
)

// A losingDisk is a file system on a device that is a file. Data that a process wrote and did not sync is not in that
// file: a copy of it is the content after a loss of power.
type losingDisk struct {
	t       testing.TB
	folder  string
	number  int // of the device
	mounted string
}

// newLosingDisk skips the test where mounting is not permitted; where there are loop devices it fails then, if real
// programs are required.
func newLosingDisk(t testing.TB) *losingDisk {
	t.Helper()
	d := &losingDisk{t: t, folder: t.TempDir()}
	d.mounted = filepath.Join(d.folder, "mounted")
	if err := os.Mkdir(d.mounted, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"truncate", "-s", "1G", d.device()}, {"mkfs.ext4", "-q", d.device()}, {"mount", "-o", "loop", d.device(), d.mounted}} {
		if said, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			if _, missing := os.Stat("/dev/loop-control"); missing == nil && os.Getenv("WEIR_REQUIRE_REAL") != "" {
				t.Fatalf("a loss of power is to be tried here, as root and with Debian's e2fsprogs: %s: %v: %s", command[0], err, said)
			}
			t.Skipf("a loss of power is not tried, it needs a loop device: %s: %v: %s", command[0], err, said)
		}
	}
	t.Cleanup(func() { d.do("umount", d.mounted) })
	return d
}

func (d *losingDisk) device() string { return filepath.Join(d.folder, fmt.Sprint("device", d.number)) }

func (d *losingDisk) do(command string, arguments ...string) {
	d.t.Helper()
	if said, err := exec.Command(command, arguments...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s: %v: %s", command, err, said)
	}
}

// copy copies the device at one moment. Only the kernel may write to it meanwhile: then the part that was copied first
// may be older than the part that was copied last, which no loss of power causes.
func (d *losingDisk) copy(before string) {
	d.t.Helper()
	for range 20 {
		written := d.written(before)
		d.do("cp", "--sparse=always", before, d.device())
		if d.written(before).Equal(written) {
			return
		}
	}
	d.t.Fatal("the device changes all the time")
}

func (d *losingDisk) written(device string) time.Time {
	d.t.Helper()
	info, err := os.Stat(device)
	if err != nil {
		d.t.Fatal(err)
	}
	return info.ModTime()
}

// losePower copies the device, and then calls after; unwritten data is gone.
func (d *losingDisk) losePower(after func()) {
	d.t.Helper()
	before := d.device()
	d.number++
	d.copy(before)
	after()
	d.do("umount", d.mounted)
	d.do("mount", "-o", "loop", d.device(), d.mounted)
	if err := os.Remove(before); err != nil {
		d.t.Fatal(err)
	}
}

// The power fails again and again under `weir run`: its unsynced data is lost, but not the log that it reads.
func TestARunThatLosesItsPower(t *testing.T) {
	real.Long(t)
	t.Parallel()
	losses := number(t, "WEIR_CRASH_KILLS", 8) / 2
	seed := uint64(number(t, "WEIR_CRASH_SEED", int(time.Now().UnixNano()%1e9)))
	begun := time.Now()
	disk := newLosingDisk(t)
	s := newWholeSite(t, seed)
	r, enforcer := installRun(t, s)
	m := r.members[0]
	if err := os.Symlink(disk.mounted, filepath.Join(m.folder, "data")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.kill) // before the disk goes
	s.run(20)
	random := rand.New(rand.NewPCG(seed, 11))
	for range losses {
		m.start()
		time.Sleep(time.Duration(300+random.IntN(1500)) * time.Millisecond)
		m.signal(syscall.SIGSTOP)
		disk.losePower(m.kill)
	}
	s.close()
	m.start()
	r.connect()
	r.settle(s, begun, enforcer, newCounterOf(r.client, r.prefix))
}
