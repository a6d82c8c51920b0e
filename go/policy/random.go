package policy

// randomRule sends each query to a uniformly random available replica. It is the baseline that no
// policy may fall below.
type randomRule struct{}

func newRandom(*Settings) Policy {
	return &probeless{name: "random", reason: ReasonRandom, rule: randomRule{}}
}

func (randomRule) choose(fleet *Fleet, query *Query, draw Draw, explanation *Explanation) (ReplicaID, bool) {
	if explanation != nil {
		fleet.explainChance(query, explanation)
	}
	return randomOf(fleet.choiceFor(query), query, draw)
}
