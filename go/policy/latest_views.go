package policy

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// The latest reports, and the order of the next choice, as seen from outside.

// view returns the report of one replica.
func (s *survey) view(now Instant, row *row, fleet *Fleet) PooledView {
	// Rounded to the nearest.
	rif := (s.inFlight(row, fleet.InFlight(row.replica)) + fine/2) / fine
	return PooledView{
		Replica:  row.replica,
		RIF:      uint32(min(rif, math.MaxUint32)),
		Latency:  time.Duration(row.latencyNS),
		Age:      now.Since(row.receivedAt),
		UsesLeft: math.MaxUint32,
		Local:    row.local,
	}
}

func (l *latest) rifLimit(*client) Optional[uint32] { return Optional[uint32]{} }

func (l *latest) comparison(*client) (*Comparison, Values) { return l.rule.comparison(), Values{} }

// views returns all reports, oldest first.
func (l *latest) views(now Instant, client *client) []PooledView {
	survey := l.survey(client)
	var views []PooledView
	for place := range l.rows.all {
		views = append(views, survey.view(now, &l.rows.all[place], &client.fleet))
	}
	slices.SortStableFunc(views, func(a, b PooledView) int { return cmp.Compare(b.Age, a.Age) })
	return views
}

// compared returns the reports that are compared for the next query, oldest first.
func (l *latest) compared(now Instant, client *client) []compared {
	survey, since := l.survey(client), l.freshSince(now)
	rows := slices.Collect(l.candidates(&Query{}))
	rows = slices.DeleteFunc(rows, func(row *row) bool { return row.receivedAt < since })
	slices.SortStableFunc(rows, func(a, b *row) int { return cmp.Compare(a.receivedAt, b.receivedAt) })
	var all []compared
	for _, row := range rows {
		load := survey.load(now, row, &client.fleet)
		all = append(all, compared{
			replica: row.replica,
			place:   survey.moment.place(&load, &row.weight),
			values:  l.rule.values(&load, &row.weight, &survey.moment),
		})
	}
	return all
}
