//! The model's back-off: keeps everything that happened in the window, and evaluates it when the
//! window is over. `[Decision 0011]`

use core::time::Duration;
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::{Instant, ReplicaId};
use std::collections::BTreeMap;

const MILLION: u64 = 1_000_000;

#[derive(Debug)]
pub(super) struct SlowBackOff {
    settings: PrequalSettings,
    began_at: Instant,
    pub(super) sent: u64,
    pub(super) unsent: u64,
    pub(super) starved: u64,
    /// Each probe that ended: its replica, and its round trip if it was answered.
    pub(super) ended: Vec<(ReplicaId, Option<Duration>)>,
    again: bool,
    usual_ns: u64,
    /// Share of the configured rate, in millionths.
    pub(super) share: u64,
}

impl SlowBackOff {
    pub(super) fn new(settings: &PrequalSettings) -> Self {
        Self {
            settings: settings.clone(),
            began_at: Instant::EPOCH,
            sent: 0,
            unsent: 0,
            starved: 0,
            ended: Vec::new(),
            again: false,
            usual_ns: 0,
            share: MILLION,
        }
    }

    /// Probes per query, in millionths.
    pub(super) fn rate(&self) -> u64 {
        let all = u64::from(self.settings.probe_rate.millionths());
        let least = u64::from(self.settings.probe_rate_min.millionths()).min(all);
        (all * self.share / MILLION).max(least)
    }

    pub(super) fn tick(&mut self, now: Instant) {
        let lasted = now.saturating_since(self.began_at);
        let is_over = match self.ended.len() {
            0..8 => lasted >= Duration::from_secs(1),
            _ => lasted >= Duration::from_millis(100),
        };
        let is_off = self.settings.probe_rate_min >= self.settings.probe_rate;
        if !is_over || is_off {
            return;
        }
        let (overload, health) = self.judge();
        if overload && self.again {
            let all = u64::from(self.settings.probe_rate.millionths());
            let least = u64::from(self.settings.probe_rate_min.millionths()) * MILLION / all;
            self.share = (self.share * 3 / 4).max(least);
        } else if !overload && health && !self.is_crowded() {
            let half_a_minute = Duration::from_secs(30);
            let part = lasted.min(half_a_minute).as_nanos() * u128::from(MILLION);
            let gained = u64::try_from(part / half_a_minute.as_nanos()).expect("at most one");
            self.share = (self.share + gained).min(MILLION);
        }
        self.again = overload;
        self.learn();
        (self.sent, self.unsent, self.starved) = (0, 0, 0);
        self.ended.clear();
        self.began_at = now;
    }

    /// Whether the window shows an overload, and whether any replica in it was well.
    fn judge(&self) -> (bool, bool) {
        let mut balances: BTreeMap<ReplicaId, i64> = BTreeMap::new();
        for &(replica, took) in &self.ended {
            let well = took.is_some_and(|took| !self.is_slow(took));
            *balances.entry(replica).or_default() += if well { -1 } else { 1 };
        }
        let troubled = balances.values().filter(|&&balance| balance >= 0).count();
        let crowded = troubled >= 2 && troubled * 2 >= balances.len();
        let starved = self.starved >= 8 && self.starved >= self.sent;
        let overload = crowded || starved || self.unsent > 0;
        (overload, troubled < balances.len())
    }

    /// In nanoseconds.
    fn slow(&self) -> u64 {
        let least = Duration::from_millis(25).min(self.settings.probe_deadline / 2);
        let least = u64::try_from(least.as_nanos()).expect("short");
        least.max(self.usual_ns * 8)
    }

    fn is_slow(&self, took: Duration) -> bool {
        self.usual_ns > 0 && took.as_nanos() >= u128::from(self.slow())
    }

    fn is_crowded(&self) -> bool {
        let mean = self.mean_took();
        self.usual_ns > 0 && mean.is_some_and(|mean| mean >= self.slow() / 2)
    }

    /// In nanoseconds.
    fn mean_took(&self) -> Option<u64> {
        let took: Vec<_> = self.ended.iter().filter_map(|(_, took)| *took).collect();
        let sum: Duration = took.iter().sum();
        u64::try_from(sum.as_nanos())
            .expect("short")
            .checked_div(took.len() as u64)
    }

    fn learn(&mut self) {
        let Some(mean) = self.mean_took() else {
            return;
        };
        let usual = self.usual_ns;
        self.usual_ns = if usual == 0 {
            mean
        } else if mean < usual {
            usual - (usual - mean) / 16
        } else {
            mean.min(usual + usual / 1024 + 1)
        };
    }
}
