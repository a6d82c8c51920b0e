//! Verdicts: a line for each attack as it ends, and all of them as a table, compared with nginx and
//! `HAProxy`.

use super::contenders::Contender;
use crate::output::say;
use crate::report::Page;
use core::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Whether an attack met its bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Met,
    Missed,
    /// It could not be run; the row says why.
    NotRun,
}

impl From<bool> for Verdict {
    fn from(met: bool) -> Self {
        if met { Self::Met } else { Self::Missed }
    }
}

/// An attack and its result.
#[derive(Debug)]
pub(super) struct Score {
    pub(super) part: &'static str,
    /// The number in the audit of 23 November 2026, if it has one.
    pub(super) finding: &'static str,
    pub(super) attack: String,
    pub(super) bar: String,
    pub(super) verdict: Verdict,
    pub(super) slackwater: String,
    /// Results of this attack with nginx and `HAProxy`; `None` where it makes no sense.
    pub(super) peers: [Option<String>; 2],
}

impl Score {
    /// A score without other proxies.
    pub(super) fn alone(
        part: &'static str,
        finding: &'static str,
        attack: impl Into<String>,
        bar: impl Into<String>,
        (verdict, found): (impl Into<Verdict>, String),
    ) -> Self {
        Self {
            part,
            finding,
            attack: attack.into(),
            bar: bar.into(),
            verdict: verdict.into(),
            slackwater: found,
            peers: [None, None],
        }
    }

    /// Adds the result of another proxy.
    pub(super) fn beside(mut self, contender: Contender, found: Option<String>) -> Self {
        match contender {
            Contender::Slackwater => {}
            Contender::Nginx => self.peers[0] = found,
            Contender::Haproxy => self.peers[1] = found,
        }
        self
    }
}

/// All verdicts of a run.
#[derive(Debug)]
pub(super) struct Scores {
    rows: Vec<Score>,
    began: Instant,
}

impl Default for Scores {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            began: Instant::now(),
        }
    }
}

impl Scores {
    /// Records a verdict and prints it.
    pub(super) fn add(&mut self, score: Score) {
        let mark = mark(score.verdict);
        let mut line = format!("{mark:7} {}", score.part);
        // Writing to a string cannot fail.
        if !score.finding.is_empty() {
            let _ = write!(line, ", finding {}", score.finding);
        }
        let _ = write!(
            line,
            ": {}: {} (bar: {})",
            score.attack, score.slackwater, score.bar
        );
        for (peer, found) in ["nginx", "HAProxy"].iter().zip(&score.peers) {
            if let Some(found) = found {
                let _ = write!(line, "; {peer}: {found}");
            }
        }
        say(&line);
        self.rows.push(score);
    }

    /// Records that an attack could not be run.
    pub(super) fn not_run(&mut self, part: &'static str, attack: &str, why: String) {
        self.add(Score::alone(part, "", attack, "-", (Verdict::NotRun, why)));
    }

    /// Records that a part could not be finished.
    pub(super) fn broken(&mut self, part: &'static str, why: String) {
        self.add(Score::alone(
            part,
            "",
            "every step could be taken",
            "all",
            (false, why),
        ));
    }

    /// Writes the page to `file`, and fails if a bar was missed.
    pub(super) fn finish(&self, page: &Page<'_>, file: Option<&Path>) -> Result<(), String> {
        let sum = self.sum();
        if let Some(file) = file {
            let text = page.head(&sum) + &self.table();
            fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        }
        say(&sum);
        match self.count(Verdict::Missed) {
            0 => Ok(()),
            missed => Err(format!("{missed} of {} bars missed", self.rows.len())),
        }
    }

    fn count(&self, verdict: Verdict) -> usize {
        let rows = self.rows.iter();
        rows.filter(|row| row.verdict == verdict).count()
    }

    fn sum(&self) -> String {
        format!(
            "{} bars met, {} missed, {} not run, in {} s",
            self.count(Verdict::Met),
            self.count(Verdict::Missed),
            self.count(Verdict::NotRun),
            self.began.elapsed().as_secs()
        )
    }

    fn table(&self) -> String {
        let mut text =
            "\n| part | finding | attack | bar | Slackwater | nginx | HAProxy | verdict |\n\
                        |---|---|---|---|---|---|---|---|\n"
                .to_owned();
        let cell = |text: &str| text.replace('\n', " / ").replace('|', "\\|");
        for row in &self.rows {
            let peer = |index: usize| cell(row.peers[index].as_deref().unwrap_or("-"));
            let _ = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {} | {} | {} |",
                row.part,
                row.finding,
                cell(&row.attack),
                cell(&row.bar),
                cell(&row.slackwater),
                peer(0),
                peer(1),
                mark(row.verdict),
            );
        }
        text
    }
}

const fn mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Met => "met",
        Verdict::Missed => "MISSED",
        Verdict::NotRun => "not run",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missed_bars_fail_the_run() {
        let page = Page {
            title: "A page",
            about: "About it.",
            tools: String::new(),
        };
        let mut scores = Scores::default();
        let score = Score::alone("fuzz", "", "a | b", "0", (true, "0".to_owned()));
        scores.add(score.beside(Contender::Nginx, Some("7".to_owned())));
        scores.not_run("fuzz", "another", "not installed".to_owned());
        assert!(scores.finish(&page, None).is_ok());
        scores.broken("fuzz", "no port".to_owned());
        let message = scores.finish(&page, None).unwrap_err();
        assert_eq!(message, "1 of 3 bars missed");
        let table = scores.table();
        assert!(
            table.contains("| fuzz |  | a \\| b | 0 | 0 | 7 | - | met |"),
            "{table}"
        );
    }
}
