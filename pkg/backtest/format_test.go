package backtest

import "testing"

func TestFiguresForPeople(t *testing.T) {
	for got, wanted := range map[string]string{
		percentOf(0, 10): "0%", percentOf(1, 0): "0%", percentOf(1, 3): "33.3%", percentOf(10, 10): "100.0%",
		percentOf(99_999, 100_000): "99.9%", percentOf(1, 1000): "0.1%", percentOf(123, 100_000): "0.12%", percentOf(1, 1_000_000): "<0.001%",
		grouped(0): "0", grouped(999): "999", grouped(1000): "1,000", grouped(-1234567): "-1,234,567",
		counted(1, "key"): "1 key", counted(2000, "key"): "2,000 keys",
		sizeText(999): "999 B", sizeText(1500): "1.5 KiB", sizeText(200 << 20): "200 MiB", sizeText(5 << 50): "5120 TiB",
	} {
		if got != wanted {
			t.Errorf("got %q, want %q", got, wanted)
		}
	}
}
