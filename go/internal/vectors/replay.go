package vectors

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Counts are how much was replayed.
type Counts struct {
	Scenarios int
	Events    int
	Snapshots int
}

// lineMax is the longest line that is read. Texts of large fleets are the longest.
const lineMax = 16 << 20

// ReplayFile plays the scenarios of a file, and compares each result. It returns an error at the
// first one that differs.
func ReplayFile(path string, build Build) (Counts, error) {
	file, err := os.Open(path)
	if err != nil {
		return Counts{}, err
	}
	defer file.Close()
	counts, err := Replay(file, build)
	if err != nil {
		return counts, fmt.Errorf("%s: %w", path, err)
	}
	return counts, nil
}

// Replay plays scenarios like [ReplayFile].
func Replay(from io.Reader, build Build) (Counts, error) {
	var counts Counts
	var player *player
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 1<<16), lineMax)
	for number := 1; lines.Scan(); number++ {
		var line line
		scenario, err := read(lines.Bytes(), &line)
		switch {
		case err != nil:
			return counts, fmt.Errorf("line %d: %w", number, err)
		case scenario.Name != "":
			player, err = newPlayer(scenario, build)
			counts.Scenarios++
		case player == nil:
			err = errors.New("a line before the first scenario")
		case line.Op == "snapshot":
			err = player.snapshot(&line)
			counts.Snapshots++
		default:
			err = player.play(&line)
			counts.Events++
		}
		if err != nil {
			name := ""
			if player != nil {
				name = player.name
			}
			return counts, fmt.Errorf("line %d of %s: %w", number, name, err)
		}
	}
	return counts, lines.Err()
}

// read reads any line: the first of a scenario, or another.
func read(text []byte, into *line) (*Scenario, error) {
	scenario := new(Scenario)
	if bytes.HasPrefix(text, []byte(`{"scenario":`)) {
		return scenario, json.Unmarshal(text, scenario)
	}
	return scenario, json.Unmarshal(text, into)
}

// line is any line but the first of a scenario.
type line struct {
	T         uint64              `json:"t"`
	Op        string              `json:"op"`
	Replica   uint64              `json:"replica"`
	Probe     uint64              `json:"probe"`
	Report    *report             `json:"report"`
	Queries   uint32              `json:"queries"`
	Available bool                `json:"available"`
	Query     uint64              `json:"q"`
	Attempt   string              `json:"attempt"`
	Avoid     []uint64            `json:"avoid"`
	Pinned    *uint64             `json:"pinned"`
	Key       *uint64             `json:"key"`
	Room      bool                `json:"room"`
	Name      uint64              `json:"name"`
	Part      uint32              `json:"part"`
	Replies   [][]json.RawMessage `json:"replies"`
	Outcome   string              `json:"outcome"`
	Hash      string              `json:"hash"`
	Text      *string             `json:"text"`

	result
}

// result is what a policy returned.
type result struct {
	MadeFrom      *madeFrom   `json:"made_from"`
	Pick          *pick       `json:"pick"`
	Round         []uint64    `json:"round"`
	RoundDeadline uint64      `json:"round_deadline"`
	Probes        [][3]uint64 `json:"probes"`
	Timeout       *uint64     `json:"timeout"`
	Trial         bool        `json:"trial"`
	Draws         uint64      `json:"draws"`
}

// madeFrom is what the choice for a key was made from. Each server of its set is a replica, a load,
// a cap or null, and 1 if it was avoided, otherwise 0.
type madeFrom struct {
	Partition *uint16      `json:"partition"`
	Homes     int          `json:"homes"`
	Set       [][4]*uint64 `json:"set"`
}

type pick struct {
	Replica    uint64  `json:"replica"`
	Reason     string  `json:"reason"`
	RIFLimit   *uint32 `json:"rif_limit"`
	Candidates uint16  `json:"candidates"`
	RunnerUp   *uint64 `json:"runner_up"`
	Probing    uint64  `json:"probing"`
	Chosen     *chosen `json:"chosen"`
}

type chosen struct {
	RIF     uint32 `json:"rif"`
	Latency uint64 `json:"latency"`
	Age     uint64 `json:"age"`
	Uses    uint32 `json:"uses"`
	Local   bool   `json:"local"`
	Hot     bool   `json:"hot"`
}
