//! The verdict in a sentence: which policy did better at the 99th percentile. It is stated as
//! plainly if the demo misses its point.

use crate::terminal::words;

/// Number of requests below which a 99th percentile means little: it would rest on fewer than ten
/// of them.
const REQUESTS_MIN: u64 = 1_000;

/// Two 99th percentiles within this share of each other count as equal. Arrivals and neighbours are
/// identical on both sides, but the assignment of requests to replicas is not.
const SAME_WITHIN: f64 = 0.1;

/// One side's share of the comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contender<'a> {
    pub(super) name: &'a str,
    pub(super) requests: u64,
    pub(super) errors: u64,
    /// `None` if no request ended.
    pub(super) p99_ms: Option<f64>,
}

/// The tense of the sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tense {
    /// While the demo runs.
    Present,
    /// After its end.
    Past,
}

/// The ratio of the first side's 99th percentile to the second's; `None` if one of them is unknown
/// or zero.
pub(super) fn ratio(sides: [Option<f64>; 2]) -> Option<f64> {
    let [first, second] = sides;
    first
        .zip(second.filter(|ms| *ms > 0.0))
        .map(|(first, second)| first / second)
}

/// The sentence, without a full stop.
pub(super) fn verdict(sides: [Contender<'_>; 2], tense: Tense) -> String {
    let [first, second] = sides;
    let measured = ratio([first.p99_ms, second.p99_ms]).zip(first.p99_ms.zip(second.p99_ms));
    let Some((ratio, (first_ms, second_ms))) = measured else {
        return "nothing measured yet".to_owned();
    };
    let verb = match tense {
        Tense::Present => "is",
        Tense::Past => "was",
    };
    let mut text = format!(
        "{}'s p99 {verb} {ratio:.2} of {}'s: {} against {}",
        first.name,
        second.name,
        words::ms(first_ms),
        words::ms(second_ms)
    );
    if (1.0 - SAME_WITHIN..=1.0 + SAME_WITHIN).contains(&ratio) {
        text.push_str(", about the same");
    } else if ratio > 1.0 {
        text.push_str(", which is worse");
    }
    if tense == Tense::Past {
        text.push_str(&reservations(sides));
    }
    text
}

/// Lateness of sending at p99 from which the figures are doubtful: the latencies are then the
/// computer's rather than the policies'.
const SENT_LATE_MS: f64 = 5.0;

/// Returns a warning if the computer is too slow for the demo, in lines of at most 80 columns;
/// otherwise `None`.
pub(super) fn doubt(sent_late_p99_ms: f64, tense: Tense) -> Option<String> {
    let (is, leave) = match tense {
        Tense::Present => ("is", "leave"),
        Tense::Past => ("was", "left"),
    };
    (sent_late_p99_ms > SENT_LATE_MS).then(|| {
        let late = words::ms(sent_late_p99_ms);
        format!("this computer {is} too busy: 1 % of the requests {leave} over {late} late")
    })
}

/// Returns the qualifications of the sentence: a line for each, each after a line break.
fn reservations(sides: [Contender<'_>; 2]) -> String {
    let failing = sides.iter().filter(|side| side.errors > 0).map(|side| {
        let (errors, plural) = (words::count(side.errors), plural(side.errors));
        let name = side.name;
        format!(
            "\n{name} failed {errors} request{plural}; each counts with the time until it failed"
        )
    });
    let is_short = sides.iter().any(|side| side.requests < REQUESTS_MIN);
    let short = is_short.then(|| {
        let least = words::count(REQUESTS_MIN);
        format!("\nwith fewer than {least} requests a p99 says little: let it run longer")
    });
    failing.chain(short).collect()
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contender(name: &str, p99_ms: f64) -> Contender<'_> {
        Contender {
            name,
            requests: 12_000,
            errors: 0,
            p99_ms: Some(p99_ms),
        }
    }

    fn said(first_ms: f64, second_ms: f64) -> String {
        let sides = [
            contender("prequal", first_ms),
            contender("round_robin", second_ms),
        ];
        verdict(sides, Tense::Past)
    }

    #[test]
    fn better_equal_and_worse_results_are_stated_in_the_same_form() {
        assert_eq!(
            said(142.0, 1_310.0),
            "prequal's p99 was 0.11 of round_robin's: 142 ms against 1,310 ms"
        );
        assert_eq!(
            said(105.0, 100.0),
            "prequal's p99 was 1.05 of round_robin's: 105 ms against 100 ms, about the same"
        );
        assert_eq!(
            said(300.0, 200.0),
            "prequal's p99 was 1.50 of round_robin's: 300 ms against 200 ms, which is worse"
        );
    }

    #[test]
    fn verdict_is_one_line_while_running_and_empty_before_results() {
        let mut sides = [contender("prequal", 142.0), contender("random", 710.0)];
        sides[1].errors = 3;
        sides[1].requests = 20;
        assert_eq!(
            verdict(sides, Tense::Present),
            "prequal's p99 is 0.20 of random's: 142 ms against 710 ms"
        );
        for missing in [None, Some(0.0)] {
            sides[1].p99_ms = missing;
            assert_eq!(verdict(sides, Tense::Present), "nothing measured yet");
        }
    }

    #[test]
    fn a_busy_computer_is_reported() {
        assert_eq!(doubt(5.0, Tense::Past), None);
        assert_eq!(
            doubt(1_241.0, Tense::Present).as_deref(),
            Some("this computer is too busy: 1 % of the requests leave over 1,241 ms late")
        );
        assert_eq!(
            doubt(12.0, Tense::Past).as_deref(),
            Some("this computer was too busy: 1 % of the requests left over 12 ms late")
        );
    }

    #[test]
    fn errors_and_a_short_run_qualify_the_verdict() {
        let mut sides = [contender("prequal", 50.0), contender("random", 100.0)];
        sides[0].errors = 1;
        sides[1].errors = 2_000;
        sides[1].requests = 999;
        assert_eq!(
            verdict(sides, Tense::Past),
            "prequal's p99 was 0.50 of random's: 50 ms against 100 ms\n\
             prequal failed 1 request; each counts with the time until it failed\n\
             random failed 2,000 requests; each counts with the time until it failed\n\
             with fewer than 1,000 requests a p99 says little: let it run longer"
        );
    }
}
