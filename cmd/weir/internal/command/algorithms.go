package command

import (
	"slices"

	"weir/cmd/internal/exit"
	"weir/pkg/window"
)

// AlgorithmNames are the names of all algorithms.
func AlgorithmNames() []string {
	var names []string
	for _, a := range window.Algorithms() {
		names = append(names, a.String())
	}
	return names
}

// Algorithms returns the algorithms of the flag --algorithms; all means each of them.
func Algorithms(names []string) ([]window.Algorithm, error) {
	all := slices.Contains(names, "all")
	var algorithms []window.Algorithm
	for _, name := range names {
		if name == "all" {
			continue
		}
		a, err := window.ParseAlgorithm(name)
		if err != nil {
			return nil, exit.Wrongf("--algorithms: %w", err)
		}
		algorithms = append(algorithms, a)
	}

	if all {
		return window.Algorithms(), nil
	}
	return algorithms, nil
}
