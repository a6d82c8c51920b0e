package policy

import (
	"math"
	"testing"
	"time"
)

// reportShare takes in this many reports of this rate from one of ten replicas, after this client
// has sent 100 queries a second.
func reportShare(share *ownShare, second, rate, reports int) {
	for range reports {
		now := Instant(0).plus(uint64(second) * uint64(time.Second))
		share.reported(now, Some(uint32(rate)*1000), 10, uint64(second)*100)
	}
}

// shareAfter is what is known after a minute of such reports.
func shareAfter(rate int) *ownShare {
	share := &ownShare{}
	for second := range 60 {
		reportShare(share, second, rate, 64)
	}
	return share
}

// TestClientOfTwoThirdsOfAllQueriesSendsMost also checks what lacks for that.
func TestClientOfTwoThirdsOfAllQueriesSendsMost(t *testing.T) {
	for rate, expected := range map[int]bool{0: true, 10: true, 15: true, 16: false, 20: false} {
		if found := shareAfter(rate).isMost; found != expected {
			t.Errorf("at a rate of %d: %v", rate, found)
		}
	}
	share := &ownShare{}
	if reportShare(share, 0, 10, 64); share.isMost {
		t.Error("it sends most before its queries were counted for some time")
	}
	if reportShare(share, 1, 10, 64); !share.isMost {
		t.Error("it does not send most after a second")
	}
	if share.reported(0, Optional[uint32]{}, 10, 200); share.isMost {
		t.Error("it sends most of queries that nobody reports")
	}
	if reportShare(share, 2, 10, 64); !share.isMost {
		t.Error("it does not send most after another 64 reports")
	}
	if share.reported(0, Some(uint32(0)), 0, 300); share.isMost {
		t.Error("it sends most of the queries of no replica")
	}
}

// TestMeanOf64ReportsCounts checks a window of reports, and the largest values.
func TestMeanOf64ReportsCounts(t *testing.T) {
	share := shareAfter(10)
	if reportShare(share, 60, 40, 63); !share.isMost {
		t.Error("it does not send most after 63 reports of a higher rate")
	}
	if reportShare(share, 60, 40, 1); share.isMost {
		t.Error("it sends most after 64 reports of a higher rate")
	}
	reportShare(share, 61, 40, 16)
	if reportShare(share, 61, 0, 48); !share.isMost {
		t.Error("it does not send most where the mean rate is as low as before")
	}
	for range 128 {
		share.reported(math.MaxUint64, Some(uint32(math.MaxUint32)), math.MaxInt, math.MaxUint64)
	}
	if share.isMost {
		t.Error("it sends most of more queries than can be counted")
	}
}
