package policy

import "testing"

// learnedExcess is what is learned of reports, of which this many in a hundred have a mean latency
// that is the reported one times this. Of the others the two are equal.
func learnedExcess(reports, share, times uint64) longRunning {
	var l longRunning
	for number := range reports {
		of := uint64(1)
		if number*share%100 < share {
			of = times
		}
		l.learn(10*of*fine+1, 10)
	}
	return l
}

func TestDifferencesCountWholeWhileRequestsInFlightAreOrdinary(t *testing.T) {
	for _, l := range []longRunning{
		{},
		learnedExcess(2_000, 100, 1),
		learnedExcess(2_000, 25, 50),
		learnedExcess(11, 100, 50),
	} {
		if more, less := l.counted(700, 100), l.counted(25, 100); more != 700 || less != 25 {
			t.Errorf("counted %d and %d in place of 700 and 25 by an excess of %d", more, less, l.excess)
		}
	}
}

func TestAFifthOfADifferenceCountsWhereRequestsTakeTenTimesAsLong(t *testing.T) {
	for _, share := range []uint64{100, 40} {
		l := learnedExcess(2_000, share, 10)
		if more := l.counted(1_100, 100); more < 285 || more > 310 {
			t.Errorf("1100 beside 100 counts as %d", more)
		}
		if less := l.counted(0, 100); less < 79 || less > 82 {
			t.Errorf("0 beside 100 counts as %d", less)
		}
	}
}

func TestTwelveReportsChangeWhatIsOrdinary(t *testing.T) {
	l := learnedExcess(12, 100, 50)
	if counted := l.counted(700, 100); counted >= 700 {
		t.Errorf("700 beside 100 counts as %d", counted)
	}
}

func TestAThirtySecondOfADifferenceCountsAtLeast(t *testing.T) {
	l := learnedExcess(2_000, 100, 1_000_000)
	if counted := l.counted(3_300, 100); counted != 200 {
		t.Errorf("3300 beside 100 counts as %d", counted)
	}
}

func TestOrdinaryRequestsCountWholeAgain(t *testing.T) {
	l := learnedExcess(2_000, 100, 10)
	reports := 0
	for ; l.counted(700, 100) < 700; reports++ {
		l.learn(fine, 1)
	}
	if reports < 48 || reports > 54 {
		t.Errorf("after %d reports", reports)
	}
}
