package window

import "fmt"

// An Algorithm is a way of counting.
type Algorithm uint8

// The algorithms; their values stand in the bytes of states and never change.
const (
	Sliding Algorithm = iota
	Fixed
	Counter
	Token
	Uniform
	Leaky
	algorithms // how many there are
)

var algorithmNames = [algorithms]string{"sliding", "fixed", "counter", "token", "uniform", "leaky"}

var newAlgorithm = [algorithms]func(*Config) (algorithm, error){
	Sliding: newSliding, Fixed: newFixed, Counter: newCounter, Token: newToken, Uniform: newUniform, Leaky: newLeaky,
}

// Algorithms are all algorithms, in the order of their values.
func Algorithms() []Algorithm {
	return []Algorithm{Sliding, Fixed, Counter, Token, Uniform, Leaky}
}

// ParseAlgorithm finds an algorithm by its name.
func ParseAlgorithm(name string) (Algorithm, error) {
	for i, n := range algorithmNames {
		if n == name {
			return Algorithm(i), nil
		}
	}
	return 0, fmt.Errorf("algorithm %q is unknown: want one of %v", name, algorithmNames)
}

func (a Algorithm) String() string {
	if a < algorithms {
		return algorithmNames[a]
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// An algorithm counts hits in states. It knows nothing of blocks.
type algorithm interface {
	// hit counts cost hits at the instant at and says which limit that broke. s.newest is at or later.
	hit(s *State, at, cost int64) broken
	// count is what limit i counts at the instant at.
	count(s *State, i int, at int64) int64
	// clear is the instant from which on s counts nothing.
	clear(s *State) int64
	// forget lets s count only hits at or after the instant from.
	forget(s *State, from int64)
	// room is how many hits limit i admits at the instant at, which no hit is newer than; below 0 where it owes some.
	room(s *State, i int, at int64) int64
	// admits is the first instant from at on at which limit i admits cost hits, where none come before; Never.
	admits(s *State, i int, at, cost int64) int64
	// settle changes what an attempt at the instant at has cost.
	settle(s *State, now, at, cost, actual int64)
	// shapes are the shapes of the logs of a state; none where a state holds buckets.
	shapes() []shape
}

// broken says which limit was broken, at which instant, by how many hits; limit is -1 where none was.
type broken struct {
	limit     int
	at, count int64
}

var unbroken = broken{limit: -1}

// or is the one of b and other that happened first; where both did at once, the one whose limit is written first.
func (b broken) or(other broken) broken {
	if b.limit < 0 || other.limit >= 0 && (other.at < b.at || other.at == b.at && other.limit < b.limit) {
		return other
	}
	return b
}
