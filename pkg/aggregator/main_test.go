package aggregator

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"weir/internal/kafka/kafkatest"
)

func TestMain(m *testing.M) {
	code := kafkatest.Run(m)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}
