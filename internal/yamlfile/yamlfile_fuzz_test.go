package yamlfile_test

import (
	"testing"

	"weir/internal/yamlfile"
)

// For any file, reading ends without a panic, every fault has a text and a place inside the file, and the same file
// gives the same faults.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{"listen: x\nworkers: 3\n", "a: &a [*a]\n", "peer: {peer: {listen: @}}", "names: [a, b\n", "wait: 1h\n<<: x\n", "\t", "--- x\n--- y\n", "listen: ${X}$${Y}\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		env := yamlfile.Env(func(name string) (string, bool) { return "value", name == "X" })
		var once, twice server
		faults := yamlfile.Decode("f", data, &once, env)
		for _, fault := range faults {
			if fault.What == "" || fault.File != "f" || fault.Line < 1 || fault.Column < 1 {
				t.Fatalf("%#v", fault)
			}
		}
		if again := yamlfile.Decode("f", data, &twice, env); again.Error() != faults.Error() {
			t.Fatalf("%v\nand then\n%v", faults, again)
		}
	})
}
