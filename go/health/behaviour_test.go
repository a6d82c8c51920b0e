package health_test

import (
	"testing"
	"time"

	"github.com/slackwater/slackwater/go/health"
	"github.com/slackwater/slackwater/go/policy"
)

const second = time.Second

// eachPolicy runs a test with each policy of the module.
func eachPolicy(t *testing.T, replicas int, settings health.Settings, test func(c *client)) {
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) { test(newClient(t, name, replicas, settings)) })
	}
}

func TestAReplicaThatAlwaysFailsGetsOnlyTrials(t *testing.T) {
	eachPolicy(t, 4, health.DefaultSettings(), func(c *client) {
		c.run(5 * second)
		c.manners[1] = failing(100)
		c.run(second)
		s := c.run(30 * second)
		c.expectBetween("queries beside trials", s.sent[1]-s.trials, 0, 0)
		c.expectBetween("trials", s.trials, 3, 12)
		c.expect(1, policy.HealthEjected)
		c.expectBetween("ejections", int(c.counters().Ejections), 1, 1)
	})
}

func TestAReplicaThatFailsHalfCostsLessThanOnePercent(t *testing.T) {
	eachPolicy(t, 4, health.DefaultSettings(), func(c *client) {
		c.run(5 * second)
		c.manners[2] = failing(50)
		c.run(3 * second)
		s := c.run(60 * second)
		c.expectBetween("failures per thousand", s.failed*1_000/s.queries, 0, 9)
	})
}

func TestARecoveredReplicaHasItsShareAgainWithinTenSeconds(t *testing.T) {
	eachPolicy(t, 4, health.DefaultSettings(), func(c *client) {
		c.run(5 * second)
		c.manners[3] = failing(50)
		c.run(30 * second)
		c.manners[3] = good()
		c.run(10 * second)
		c.expect(3, policy.HealthSound)
		s := c.run(10 * second)
		c.expectBetween("percent of queries", s.share(3), 15, 35)
	})
}

func TestAReplicaReturnsAlthoughEveryQueryIsPinned(t *testing.T) {
	for _, shadowTrials := range []bool{false, true} {
		settings := health.DefaultSettings()
		settings.ShadowTrials = shadowTrials
		eachPolicy(t, 2, settings, func(c *client) {
			c.isSticky = true
			c.run(5 * second)
			c.manners[1] = failing(100)
			c.run(second)
			c.expect(1, policy.HealthEjected)
			c.manners[1] = good()
			c.run(20 * second)
			c.expect(1, policy.HealthSound)
			s := c.run(5 * second)
			c.expectBetween("percent of queries", s.share(1), 50, 50)
		})
	}
}

func TestAFleetThatFailsEvenlyLosesNoReplica(t *testing.T) {
	for _, fails := range []uint32{2, 25, 100} {
		c := newClient(t, "random", 4, health.DefaultSettings())
		c.run(5 * second)
		for place := range c.manners {
			c.manners[place] = failing(fails)
		}
		c.run(30 * second)
		c.expectBetween("ejections", int(c.counters().Ejections), 0, 0)
	}
}

func TestAtMostHalfOfTheFleetIsOut(t *testing.T) {
	c := newClient(t, "random", 5, health.DefaultSettings())
	c.run(5 * second)
	for place := range 4 {
		c.manners[place] = failing(100)
		c.run(10 * second)
		c.expectBetween("available", len(c.policy.Fleet().Available()), 5-min(place+1, 2), 5-min(place+1, 2))
	}
	c = newClient(t, "random", 1, health.DefaultSettings())
	c.manners[0] = failing(100)
	c.run(10 * second)
	c.expect(0, policy.HealthSound) // the only one
}

func TestFewerAreOutIfTheCallerTakesOthersOut(t *testing.T) {
	c := newClient(t, "random", 4, health.DefaultSettings())
	c.run(5 * second)
	c.manners[0], c.manners[1] = failing(100), failing(100)
	c.run(5 * second)
	available := func(want int) {
		t.Helper()
		c.expectBetween("available", len(c.policy.Fleet().Available()), want, want)
	}
	available(2)
	c.offer(2, false)
	c.offer(3, false)
	available(1) // half of two may be out
	for place := range 2 {
		c.offer(place, false)
		c.offer(place, true)
	}
	available(2) // the one, and the other for now
}

func TestPushbackLowersAShareAndEjectsNoReplica(t *testing.T) {
	eachPolicy(t, 4, health.DefaultSettings(), func(c *client) {
		c.run(5 * second)
		c.manners[0] = failing(100)
		c.manners[0].bad = policy.OutcomePushedBack
		c.run(5 * second)
		c.run(20 * second)
		c.expectBetween("ejections", int(c.counters().Ejections), 0, 0)
		c.expect(0, policy.HealthPushingBack)
		c.manners[0] = good()
		c.run(3 * second)
		c.expect(0, policy.HealthSound)
	})
}

func TestReportsAccuseAndDoNotClear(t *testing.T) {
	for _, c := range []struct {
		fails    uint32
		reported uint32
	}{{0, 600_000}, {50, 0}, {50, 100_000}, {100, 0}} {
		client := newClient(t, "random", 4, health.DefaultSettings())
		client.run(5 * second)
		client.manners[1] = failing(c.fails)
		for range 50 {
			client.hear(1, policy.LoadReport{ErrorMillionths: policy.Some(c.reported)})
			client.run(100 * time.Millisecond)
		}
		client.expect(1, policy.HealthEjected)
	}
}

func TestAReplicaThatFailsHalfGetsWhatTheOthersCannotTake(t *testing.T) {
	// Its cost is 10 ms + 20 · 10 ms · (1/0.5 − 1) = 210 ms.
	for takesMS, bounds := range map[time.Duration][2]int{150: {0, 2}, 400: {8, 30}} {
		c := newClient(t, "random", 4, health.DefaultSettings())
		c.run(5 * second)
		c.manners[0] = failing(50)
		c.run(10 * second)
		for place := 1; place < 4; place++ {
			c.manners[place] = taking(takesMS * time.Millisecond)
		}
		c.run(20 * second)
		s := c.run(20 * second)
		c.expectBetween("percent of queries", s.share(0), bounds[0], bounds[1])
	}
}

func TestPartsThatAreOffDoNothing(t *testing.T) {
	settings := health.DefaultSettings()
	settings.Errors = nil
	c := newClient(t, "random", 4, settings)
	c.manners[0] = failing(100)
	c.run(20 * second)
	c.expect(0, policy.HealthSound)

	settings = health.DefaultSettings()
	settings.Probation = nil
	c = newClient(t, "random", 4, settings)
	c.run(5 * second)
	c.manners[0] = taking(150 * time.Millisecond)
	c.run(20 * second)
	c.expect(0, policy.HealthSound)

	settings = health.DefaultSettings()
	settings.WarmUp = nil
	c = newClient(t, "random", 4, settings)
	c.run(second)
	c.expect(c.join(), policy.HealthSound)
}

func TestAStoppedReplicaIsOutBeforeItsQueriesTimeOut(t *testing.T) {
	eachPolicy(t, 4, health.DefaultSettings(), func(c *client) {
		c.run(5 * second)
		c.manners[2].isStopped = true
		c.run(second)
		stuck := len(c.stuck)
		c.expectBetween("stuck queries", stuck, 0, 69)
		c.run(10 * second)
		c.expectBetween("more of them", len(c.stuck)-stuck, 0, 5)
		c.resume(2)
		c.run(4 * second)
		c.expect(2, policy.HealthSound)
		s := c.run(5 * second)
		c.expectBetween("percent of queries", s.share(2), 15, 40)
	})
}

func TestAMuchSlowerReplicaIsOnProbation(t *testing.T) {
	for takesMS, state := range map[time.Duration]policy.HealthState{
		20: policy.HealthSound, 90: policy.HealthSound, 150: policy.HealthOnProbation,
	} {
		c := newClient(t, "random", 4, health.DefaultSettings())
		c.run(5 * second)
		c.manners[1] = taking(takesMS * time.Millisecond)
		c.run(6 * second)
		c.expect(1, state)
	}
}

func TestANewReplicaWarmsUpByItsAnswers(t *testing.T) {
	eachPolicy(t, 4, health.DefaultSettings(), func(c *client) {
		c.expectBetween("warm-ups of the first fleet", int(c.counters().WarmUps), 0, 0)
		c.run(5 * second)
		joined := c.join()
		c.expect(joined, policy.HealthWarmingUp)
		c.expectBetween("share", int(c.view(joined).ShareMillionths), 100_000, 100_000)
		s := c.run(200 * time.Millisecond)
		c.expectBetween("percent at first", s.share(joined), 0, 19)
		c.run(4 * second)
		c.expect(joined, policy.HealthSound)
		s = c.run(5 * second)
		c.expectBetween("percent of queries", s.share(joined), 14, 26)
	})
}

func TestAColdReplicaKeepsASmallShareForAMinute(t *testing.T) {
	settings := health.DefaultSettings()
	settings.Probation = nil
	c := newClient(t, "random", 4, settings)
	c.run(5 * second)
	joined := c.join()
	c.manners[joined] = taking(100 * time.Millisecond)
	s := c.run(20 * second)
	c.expectBetween("percent, a tenth of a fifth", s.share(joined), 1, 3)
	c.run(39 * second)
	c.expect(joined, policy.HealthWarmingUp)
	c.run(2 * second)
	c.expect(joined, policy.HealthSound)
}

func TestARestartMakesATrialDueAndStartsAWarmUp(t *testing.T) {
	c := newClient(t, "random", 4, health.DefaultSettings())
	c.run(5 * second)
	name := func(incarnation uint64, state policy.HealthState) {
		t.Helper()
		c.hear(1, policy.LoadReport{Incarnation: policy.Some(incarnation)})
		c.run(2 * time.Millisecond)
		c.expect(1, state)
	}
	name(7, policy.HealthSound)
	name(8, policy.HealthWarmingUp)
	c.run(5 * second)
	c.manners[1] = failing(100)
	c.run(3 * second)
	c.expect(1, policy.HealthEjected)
	c.manners[1] = good()
	name(9, policy.HealthEjected)
	c.run(100 * time.Millisecond)
	c.expect(1, policy.HealthReturning)
}

func TestShadowTrialsBringAReplicaBackWithoutAClientsQuery(t *testing.T) {
	settings := health.DefaultSettings()
	settings.ShadowTrials = true
	eachPolicy(t, 5, settings, func(c *client) {
		c.copied = true
		c.run(5 * second)
		c.manners[1] = failing(100)
		c.run(6 * second)
		s := c.run(30 * second)
		c.expectBetween("queries of clients", s.sent[1], 0, 0)
		c.expectBetween("copies", s.shadows, 3, 16)
		c.manners[1] = good()
		s = c.run(8 * second)
		c.expectBetween("failures and trials", s.failed+s.trials, 0, 0)
		c.expect(1, policy.HealthSound)
	})
}

func TestResponsesThatBreakOffEjectLikeFailures(t *testing.T) {
	for _, after := range []time.Duration{11, 60, 1_500} {
		c := newClient(t, "random", 4, health.DefaultSettings())
		c.run(5 * second)
		c.manners[1] = manner{
			fails: 100, bad: policy.OutcomeBroken,
			failsAfter: after * time.Millisecond, headAfter: 10 * time.Millisecond,
		}
		c.run(30 * second)
		c.expect(1, policy.HealthEjected)
		c.expectBetween("ejections", int(c.counters().Ejections), 1, 1)
	}
}

func TestOpenStreamsBringAReplicaBack(t *testing.T) {
	c := newClient(t, "random", 4, health.DefaultSettings())
	c.run(5 * second)
	c.manners[1] = failing(100)
	c.run(5 * second)
	c.expect(1, policy.HealthEjected)
	c.manners[1] = manner{takes: time.Hour, headAfter: 10 * time.Millisecond}
	c.run(15 * second)
	c.expect(1, policy.HealthSound)
	c.expectBetween("passed trials", int(c.counters().TrialsPassed), 3, 1_000)
}

func TestPushedBackAndDroppedTrialsBringNoReplicaBack(t *testing.T) {
	for bad, most := range map[policy.Outcome]int{policy.OutcomePushedBack: 18, policy.OutcomeDropped: 32} {
		c := newClient(t, "random", 4, health.DefaultSettings())
		c.run(5 * second)
		c.manners[1] = failing(100)
		c.run(5 * second)
		c.manners[1].bad = bad
		s := c.run(60 * second)
		c.expectBetween("trials", s.trials, 10, most)
		c.expect(1, policy.HealthEjected)
	}
}

func TestTimeoutsAreFailuresUnlessTheFleetIsMuchSlowerThanUsual(t *testing.T) {
	settings := health.DefaultSettings()
	settings.Probation = nil
	for takesMS, ejections := range map[time.Duration]int{10: 1, 100: 0} {
		c := newClient(t, "random", 4, settings)
		c.run(5 * second)
		for place := range c.manners {
			c.manners[place] = taking(takesMS * time.Millisecond)
		}
		c.run(5 * second)
		c.manners[0].fails = 50
		c.manners[0].bad = policy.OutcomeTimedOut
		c.manners[0].failsAfter = 300 * time.Millisecond
		c.run(5 * second)
		c.expectBetween("ejections", int(min(c.counters().Ejections, 1)), ejections, ejections)
	}
}
