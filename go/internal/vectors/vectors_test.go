package vectors

import (
	"strings"
	"testing"
)

const header = `{"scenario":"a","policy":"random","seed":1,"settings":{}}` + "\n"

func TestDifferencesAreReportedWithTheirLine(t *testing.T) {
	for _, of := range []struct{ text, expected string }{
		{header + `{"t":0,"op":"added","replica":0,"draws":1}`, `line 2 of a: added at 0: expected`},
		{header + `{"t":0,"op":"added","replica":0,"draws":0,"timeout":5}`, `"timeout":5`},
		{header + `{"t":0,"op":"choose","q":1,"pick":{"replica":0,"reason":"random"},"draws":1}`, "line 2 of a: choose"},
		{header + `{"t":0,"op":"snapshot","hash":"00"}`, "expected the hash 00, found cbf29ce484222325"},
		{header + `{"t":0,"op":"snapshot","hash":"cbf29ce484222325","text":"picks.cold 1\n"}`, "expected picks.cold 1"},
		{header + `{"t":0,"op":"dance"}`, `unknown op "dance"`},
		{header + `{"t":0,"op":"done","q":1,"outcome":"success"}`, "no query 1 in flight"},
		{header + `{"t":0,"op":"round","q":1}`, "no round of query 1"},
		{header + `{"t":-1,"op":"timeout"}`, "line 2"},
		{`{"t":0,"op":"timeout"}`, "before the first scenario"},
		{`{"scenario":"b","policy":"nothing","seed":1,"settings":{}}`, `unknown policy "nothing"`},
		{`{"scenario":"b","policy":"random","seed":1,"settings":{"prequal":{"x":1}}}`, "unknown key x"},
		{`{"scenario":"b","policy":"random","seed":1,"settings":{},"health":{}}`, "has health around"},
	} {
		_, err := Replay(strings.NewReader(of.text), Bare)
		if err == nil || !strings.Contains(err.Error(), of.expected) {
			t.Errorf("%s: %v", of.text, err)
		}
	}
}

func TestReplayCountsWhatItPlays(t *testing.T) {
	counts, err := Replay(strings.NewReader(header+
		`{"t":0,"op":"added","replica":0,"draws":0}`+"\n"+
		`{"t":0,"op":"choose","q":1,"pick":{"replica":0,"reason":"random"},"draws":1}`+"\n"+
		`{"t":9,"op":"done","q":1,"outcome":"success","draws":1}`+"\n"+header), Bare)
	if err != nil || counts != (Counts{Scenarios: 2, Events: 3}) {
		t.Errorf("%+v: %v", counts, err)
	}
}

func TestMissingFolderIsNamed(t *testing.T) {
	t.Setenv(FolderVariable, "/nowhere")
	if _, err := Files(false); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("%v", err)
	}
}
