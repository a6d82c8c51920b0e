package policy

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestReplicaIsAheadByItsRecentQueries(t *testing.T) {
	after := func(count, replicas int, to func(sent int) int) []turn {
		all := make([]turns, replicas)
		for sent := 1; sent <= count; sent++ {
			all[to(sent)].take(uint64(sent), replicas)
		}
		var now []turn
		for i := range all {
			now = append(now, all[i].now(uint64(count), replicas))
		}
		return now
	}
	inTurn := after(99, 4, func(sent int) int { return sent % 4 })
	if expected := []turn{{96, 0}, {97, 36}, {98, 85}, {99, 153}}; !slices.Equal(inTurn, expected) {
		t.Errorf("in turn: %v", inTurn)
	}
	if found := after(100_000, 1_000, func(int) int { return 0 })[0].ahead; found != 2*fine {
		t.Errorf("flooded: %d", found)
	}
	forgotten := after(1_100, 4, func(sent int) int {
		if sent <= 1_000 {
			return 0
		}
		return 1 + sent%3
	})[0]
	if forgotten != (turn{1_000, 0}) {
		t.Errorf("forgotten: %v", forgotten)
	}
	if found := (turns{}).now(math.MaxUint64, 0); found != (turn{}) {
		t.Errorf("before any query: %v", found)
	}
	if turnsSince(0) != (turns{}) || turnsSince(5).now(5, 4) != (turn{5, (2*fine*4/5 - fine) / 4}) {
		t.Errorf("a replica that joins has just had its turn: %v", turnsSince(5).now(5, 4))
	}
}

func TestReuseLimitMatchesNumbersOfThePaper(t *testing.T) {
	balance := func(replicas int, probeRate, removeRate Millionths, reuseMax uint16) uint64 {
		b := reuseBalance{
			poolCapacity: 16, replicas: replicas, probeRate: probeRate, removeRate: removeRate,
			poolDrift: One, reuseMax: reuseMax,
		}
		return b.limit()
	}
	for _, of := range []struct {
		replicas              int
		probeRate, removeRate Millionths
		reuseMax              uint16
		expected              uint64
	}{
		// 25/19 at the baseline, and Figure 8's sweep at a quarter of a removal.
		{100, 3 * One, One, 1024, 1_315_789},
		{100, 4_000_000, 250_000, 1024, 1_000_000},
		{100, 2_830_000, 250_000, 1024, 1_000_000},
		{100, 2_000_000, 250_000, 1024, 1_398_601},
		{100, 1_000_000, 250_000, 1024, 3_389_830},
		{100, 500_000, 250_000, 1024, 11_764_705},
		// Without a solution of equation (1), the pool balances at two entries.
		{24, 3 * One, One, 1024, 1_000_000},
		{5, 3 * One, One, 1024, 1_111_111},
		{5, 500_000, One, 1024, 6_666_666},
		{100, One, One, 1024, 2_040_816},
		// The cap.
		{25, 3 * One, One, 1024, 25_000_000},
		{25, 3 * One, One, 24, 24_000_000},
		{25, 3 * One, One, 26, 25_000_000},
		// The cap leaves enough uses to fill the pool.
		{100, 500_000, 250_000, 1, 4_081_632},
		{100, 500_000, 250_000, 5, 5_000_000},
		// The floor is at most sixteen uses.
		{0, 3 * One, One, 1024, 16_000_000},
		{2, 3 * One, One, 1024, 16_000_000},
		{100, 0, 0, 1, 16_000_000},
		{100, 128_000, One, 1024, 15_943_877},
		{100, 127_000, One, 1024, 16_000_000},
		{1 << 20, 16 * One, 0, 1024, 1_000_000},
	} {
		if found := balance(of.replicas, of.probeRate, of.removeRate, of.reuseMax); found != of.expected {
			t.Errorf("%+v: %d", of, found)
		}
	}
	for limit, expected := range map[uint64][2]uint32{1_000_001: {2, 1}, 3_000_000: {3, 3}} {
		low, high := drawUses(limit, &fixedDraw{}), drawUses(limit, &fixedDraw{draw: math.MaxUint64})
		if low != expected[0] || high != expected[1] {
			t.Errorf("%d is rounded to %d and %d", limit, low, high)
		}
	}
}

func TestOneInTenThousandLivingReplicasCountsAsGone(t *testing.T) {
	for percent, expected := range map[uint64]uint8{
		0: 3, 4: 3, 5: 4, 10: 4, 20: 6, 30: 8, 40: 11, 50: 14, 55: 16, 100: 16,
	} {
		loss := probeLoss{share: allProbes * percent / 100, seen: lossMemory}
		if found := loss.lostInARow(); found != expected {
			t.Errorf("%d %%: %d, expected %d", percent, found, expected)
		}
	}
	var loss probeLoss
	loss.answered(1, true)
	if found := (allProbes + loss.share/2) / loss.share; found != 34 {
		t.Errorf("one of two, and 32 presumed, is one of %d", found)
	}
	loss = probeLoss{}
	loss.answered(lostInARowMin, true)
	loss.answered(255, true)
	if loss.share != 0 {
		t.Error("replicas that were gone raise the loss")
	}
	loss.answered(2, true)
	share := loss.share
	loss.answered(0, false)
	if share == 0 || loss.share != share {
		t.Error("an answer to a sibling's probe counts as one to an own probe")
	}
}

func TestRateCapAllowsItsRateAndABurst(t *testing.T) {
	for perSecond, burst := range map[uint32]int{1: 16, 160: 16, 170: 17, 1_000: 100} {
		bucket := newRateCap(perSecond)
		taken := func(now Instant) int {
			count := 0
			for bucket.take(now) {
				count++
			}
			return count
		}
		if found := taken(7); found != burst {
			t.Errorf("%d a second: a burst of %d", perSecond, found)
		}
		sent := 0
		for at := Instant(1); at <= 10_000; at++ {
			sent += taken(7 + at*ms)
		}
		if sent != 10*int(perSecond) {
			t.Errorf("%d a second: %d in ten seconds", perSecond, sent)
		}
		if found := taken(1 << 62); found != burst {
			t.Errorf("%d a second: %d were saved up", perSecond, found)
		}
		bucket.giveBack()
		if found := taken(1 << 62); found != 1 {
			t.Errorf("%d a second: %d after one is given back", perSecond, found)
		}
	}
}

func TestYieldIsMeasuredUpToTheConfiguredRate(t *testing.T) {
	yield := reportYield{rate: 3 * One, configured: 3 * One}
	for _, of := range []struct {
		reports int
		changed bool
		rate    Millionths
	}{
		{256, true, 2 * One}, {256, false, 2 * One}, {9 * 128, true, 3 * One}, {346, false, 3 * One},
		{345, true, 2_695_312}, {0, true, 0},
	} {
		for range of.reports {
			yield.report()
		}
		changed := false
		for range yieldWindow {
			changed = yield.query() || changed
		}
		if changed != of.changed || yield.rate != of.rate {
			t.Errorf("%d reports: %v, changed %v", of.reports, yield.rate, changed)
		}
	}
}

func TestOldLowReportApproachesTheUsualLoad(t *testing.T) {
	usualAt := func(share, latencyNS uint64) usualNow {
		var u usual
		u.learn(share-100, latencyNS)
		u.learn(share+100, latencyNS)
		return u.now()
	}
	now := usualAt(1_000, 50)
	for ageNS, expected := range map[uint64]uint64{0: 200, 50: 466, 100: 600, 300: 800, math.MaxUint64: 999} {
		if found := now.aged(200, ageNS); found != expected {
			t.Errorf("after %d ns: %d, expected %d", ageNS, found, expected)
		}
	}
	if found := now.aged(7_000, 1_000_000); found != 7_000 {
		t.Errorf("a high report fades to %d", found)
	}
	now = usualAt(1_000, 0)
	if found := now.aged(200, 1_000); found != 200 {
		t.Errorf("without latencies it fades to %d", found)
	}
	now = usualAt(1_000, 1<<43)
	if found := now.aged(200, math.MaxUint64); found != 599 {
		t.Errorf("after four hours it fades to %d", found)
	}
}

func TestNewestAreInTheOrderOfTheirAges(t *testing.T) {
	draw := NewSplitMix64(8)
	var received [orderedMax]int
	var order newestOrder
	var list []int
	for step := range 50_000 {
		place := int(Below(draw, orderedMax))
		isThere := slices.Contains(list, place)
		remove := func() {
			if isThere {
				order.take(place)
				list = slices.DeleteFunc(list, func(other int) bool { return other == place })
			}
		}
		switch Below(draw, 8) {
		case 0:
			remove()
		case 1:
			if last := len(list) - 1; last >= 0 {
				if found := order.oldest(len(list)); found != list[last] {
					t.Fatalf("step %d: the oldest is %d of %v", step, found, list)
				}
				list = list[:last]
			}
		default:
			remove()
			received[place] = step / 5
			isNewer := func(a, b int) bool {
				return received[a] > received[b] || received[a] == received[b] && a > b
			}
			order.add(place, len(list), func(other int) bool { return isNewer(other, place) })
			list = append(list, place)
			slices.SortFunc(list, func(a, b int) int { return number(isNewer(b, a)) - number(isNewer(a, b)) })
		}
		for position, place := range list {
			if order.at(position) != place {
				t.Fatalf("step %d: %d at %d of %v", step, order.at(position), position, list)
			}
		}
	}
}

func TestRowsKeepTheNewestFirst(t *testing.T) {
	draw := NewSplitMix64(3)
	var rows latestRows
	latest := map[ReplicaID]Instant{}
	for step := range 20_000 {
		now := Instant(step / 3)
		replica := newReplicaID(Below(draw, 40), 0)
		switch Below(draw, 20) {
		case 0:
			rows.remove(replica)
			delete(latest, replica)
		case 1:
			since := now - min(now, 60)
			expected := len(latest)
			for replica, at := range latest {
				if at < since {
					delete(latest, replica)
				}
			}
			expected -= len(latest)
			if found := rows.expire(since); found != expected && found != 0 {
				t.Fatalf("step %d: %d expired, expected %d", step, found, expected)
			} else if found == 0 {
				// The oldest are beyond the newest, which is not looked at.
				for index := range rows.all {
					latest[rows.all[index].replica] = rows.all[index].receivedAt
				}
			}
		default:
			_, known := latest[replica]
			if replaces := rows.insert(row{replica: replica, receivedAt: now}); replaces != known {
				t.Fatalf("step %d: replaces %v", step, replaces)
			}
			latest[replica] = now
		}
		if len(rows.all) != len(latest) {
			t.Fatalf("step %d: %d rows, expected %d", step, len(rows.all), len(latest))
		}
		oldest := end
		for index := range rows.newest() {
			oldest = min(oldest, rows.all[index].receivedAt)
		}
		for index := range rows.all {
			at := rows.all[index].receivedAt
			if latest[rows.all[index].replica] != at || rows.find(rows.all[index].replica) != &rows.all[index] {
				t.Fatalf("step %d: the row at %d is not the latest", step, index)
			}
			if index >= newestMax && at > oldest {
				t.Fatalf("step %d: the row at %d is newer than one of the newest", step, index)
			}
		}
	}
}

func TestLastOfEquallyOldRowsTakesThePlaceOfANewestOne(t *testing.T) {
	var rows latestRows
	for i := range newestMax + 2 {
		replica := newReplicaID(uint32(i), 0)
		rows.all = append(rows.all, row{replica: replica, receivedAt: 5})
		rows.places.Set(replica, int32(i))
	}
	rows.putAllInOrder()
	rows.remove(0)
	if last := rows.all[0].replica; last != newestMax+1 || len(rows.all) != newestMax+1 {
		t.Errorf("%v of %d rows", last, len(rows.all))
	}
}

func TestMeansAreInWholeNanosecondsAndNeverNone(t *testing.T) {
	for latency, expected := range map[uint64]uint64{0: 0, 1: 1, fine - 1: 1, fine: 1, 2*fine - 1: 1, 5 * fine: 5} {
		if found := (&learned{latency: latency}).wholeLatencyNS(); found != expected {
			t.Errorf("%d/1024 ns count as %d", latency, found)
		}
	}
}

func TestRIFLimitIsTheNearestRankOfRecentResponses(t *testing.T) {
	var distribution rifDistribution
	if distribution.limit(500_000).Known || distribution.limit(0) != Some(uint32(0)) {
		t.Error("nothing is known, and nothing is hot except at 0")
	}
	draw := NewSplitMix64(11)
	var recent []uint32
	for range 1_000 {
		rif := Below(draw, 40)
		distribution.record(rif)
		recent = append(recent, rif)
		recent = recent[max(len(recent)-rifMemory, 0):]
		sorted := slices.Sorted(slices.Values(recent))
		for _, quantile := range []Millionths{1, 300_000, 840_896, 999_000} {
			if found := distribution.limit(quantile); found != Some(sorted[quantile.nearestRank(len(sorted))]) {
				t.Fatalf("%v of %v is %v", quantile, sorted, found)
			}
		}
	}
	if distribution.limit(One).Known {
		t.Error("at 1 nothing is hot")
	}
}

func TestMeanOfRecentValuesIsRoundedToTheNearest(t *testing.T) {
	var values recentValues
	if values.mean() != 0 || values.drawn(&fixedDraw{}) != 0 {
		t.Error("of nothing")
	}
	for _, of := range []struct{ value, mean uint64 }{{7, 7}, {8, 8}, {7, 7}} {
		if values.record(of.value); values.mean() != of.mean {
			t.Errorf("the mean is %d, expected %d", values.mean(), of.mean)
		}
	}
	for range 200 {
		values.record(math.MaxUint64)
	}
	if values.mean() != valueMax {
		t.Errorf("extreme values have the mean %d", values.mean())
	}
	for range valuesMemory {
		values.record(100)
	}
	if values.mean() != 100 {
		t.Errorf("what came first still counts: %d", values.mean())
	}
}

func TestRoundWaitsForAllIfTheQueryHasHomes(t *testing.T) {
	d := newDriver(t, "prequal_sync", DefaultSettings(), 8)
	away := d.replicas[7]
	d.handle(Event{Kind: EventAvailable, Replica: away})
	for _, of := range []struct {
		homes []ReplicaID
		waits bool
	}{
		{nil, false}, {d.replicas[:2], true}, {d.replicas[7:], false}, {d.replicas[6:], true},
	} {
		round := d.policy.Choose(d.now, &Query{Homes: of.homes}, d.draw, nil).Round
		// The homes come last.
		answered := 0
		for replica := range round.Targets() {
			if ready := round.Ready(); ready != (!of.waits && answered >= 2 || answered >= 3) {
				t.Errorf("%+v: ready is %v after %d", of, ready, answered)
			}
			round.HandleReport(replica, &LoadReport{})
			answered++
		}
		if !round.Ready() {
			t.Errorf("%+v: it waits for more", of)
		}
	}
}

func TestReplicaThatACopyTookDuringTheRoundIsNotChosenAgain(t *testing.T) {
	d := newDriver(t, "prequal_sync", DefaultSettings(), 3)
	round := d.policy.Choose(d.now, &Query{}, d.draw, nil).Round
	for i, replica := range d.replicas {
		round.HandleReport(replica, &LoadReport{RIF: uint32(4*i + 1)})
	}
	query := Query{Attempt: AttemptHedge, Avoid: d.replicas[:1], Round: round}
	pick := d.policy.Choose(d.now, &query, d.draw, nil).Pick
	if pick.Ticket.Replica() != d.replicas[1] || pick.Candidates != 2 {
		t.Errorf("picked %d of %d", pick.Ticket.Replica(), pick.Candidates)
	}
}

func TestRoundIsReadyWhenEnoughHaveAnswered(t *testing.T) {
	replicas := []ReplicaID{0, 1, 2, 3}
	scout := ReplicaID(9)
	for _, of := range []struct {
		probed, answers, lost int
		ready                 bool
	}{
		{2, 1, 0, false}, {2, 2, 0, true}, {3, 1, 0, false}, {3, 2, 0, true}, {4, 2, 0, false}, {4, 3, 0, true},
		{3, 1, 1, false}, {3, 1, 2, true}, {3, 0, 3, true},
	} {
		round := newProbeRound(5, 9, replicas[:of.probed], Some(scout))
		// The round does not wait for the scout.
		round.HandleReport(scout, &LoadReport{})
		for _, replica := range replicas[:of.answers] {
			round.HandleReport(replica, &LoadReport{RIF: 3})
			round.HandleReport(replica, &LoadReport{RIF: 4})
			round.HandleLost(replica)
		}
		for _, replica := range replicas[of.answers : of.answers+of.lost] {
			round.HandleLost(replica)
		}
		round.HandleReport(77, &LoadReport{})
		if round.Ready() != of.ready {
			t.Errorf("%+v: ready is %v", of, round.Ready())
		}
		if found := round.count(targetAnswered); found != uint64(of.answers+1) {
			t.Errorf("%+v: %d answers", of, found)
		}
		targets := slices.Collect(round.Targets())
		if !slices.Equal(targets, append(slices.Clone(replicas[:of.probed]), scout)) {
			t.Errorf("%+v: probes %v", of, targets)
		}
	}
}

func TestMarkKeepsTheFirstHead(t *testing.T) {
	for _, of := range []struct{ head, end, expected Outcome }{
		{OutcomeSuccess, OutcomeDropped, OutcomeSuccess},
		{OutcomeSuccess, OutcomeBroken, OutcomeBroken},
		{OutcomeFailed, OutcomeSuccess, OutcomeFailed},
	} {
		var mark Mark
		if mark.Outcome(of.end) != of.end || mark.BeganWell() {
			t.Errorf("without a head: %v", mark.Outcome(of.end))
		}
		if !mark.Head(7, of.head) || mark.Head(8, OutcomeTimedOut) {
			t.Error("only the first head counts")
		}
		latencyNS, known := mark.LatencyNS()
		if latencyNS != 7 || !known || mark.Outcome(of.end) != of.expected || mark.BeganWell() != (of.head == OutcomeSuccess) {
			t.Errorf("%+v: %v after %d", of, mark.Outcome(of.end), latencyNS)
		}
	}
}

func TestPushbackAndDroppedQueriesAreNotFailures(t *testing.T) {
	var failures []string
	for outcome := OutcomeSuccess; outcome <= OutcomeDropped; outcome++ {
		if outcome.IsFailure() {
			failures = append(failures, outcome.String())
		}
	}
	if !slices.Equal(failures, []string{"failed", "timed_out", "broken", "no_connection"}) {
		t.Errorf("failures are %v", failures)
	}
}

func TestProbeRateFallsInAnOverloadAndRecovers(t *testing.T) {
	settings := DefaultSettings().Prequal
	back := newBackOff(&settings)
	ends := make([]probeEnds, 4)
	now := Instant(0)
	window := func(roundTrip time.Duration) {
		for range 4 {
			for i := range ends {
				back.answered(&ends[i], uint64(roundTrip))
			}
		}
		now += 100 * ms
		back.tick(now)
	}
	for range 3 {
		window(time.Millisecond)
	}
	// Slow is 25 ms and eight times the usual one.
	var shares []Millionths
	for range 4 {
		window(30 * time.Millisecond)
		shares = append(shares, back.share)
	}
	if expected := []Millionths{One, 750_000, 562_500, 421_875}; !slices.Equal(shares, expected) {
		t.Errorf("shares are %v", shares)
	}
	for range 20 {
		window(30 * time.Millisecond)
	}
	if back.share != back.shareMin || back.lowered(3*One) != One || back.lowered(One/2) != One/2 {
		t.Errorf("the lowest share is %v, of 3 probes %v", back.share, back.lowered(3*One))
	}
	for range 10 {
		window(time.Millisecond)
	}
	// A thirtieth of a second's share in each of ten windows.
	if expected := back.shareMin + 10*3_333; back.share != expected {
		t.Errorf("after a second the share is %v, expected %v", back.share, expected)
	}
	settings.ProbeRateMin = settings.ProbeRate
	if back = newBackOff(&settings); !back.isOff() {
		t.Error("it is off where the rate must not fall")
	}
}
