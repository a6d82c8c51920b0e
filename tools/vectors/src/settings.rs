//! The settings of a scenario: the defaults, or drawn within their ranges.

use crate::chance::Chance;
use crate::line::{Object, nanos};
use core::time::Duration;
use slackwater_core::health::{
    ErrorSettings, HealthConfig, HealthSettings, ProbationSettings, WarmUpSettings,
};
use slackwater_core::policy::prequal::PrequalSettings;
use slackwater_core::policy::{
    Kind, PolicyEntry, PolicySettings, Section, SectionVisitor, Settings,
    ShortestExpectedDelaySettings, Valid,
};
use slackwater_core::{Quantile, Rate};

const MS: u64 = 1_000_000;

fn rate(millionths: u32) -> Rate {
    Rate::from_millionths(millionths).unwrap_or(Rate::ONE)
}

fn quantile(millionths: u32) -> Quantile {
    Quantile::from_millionths(millionths).unwrap_or(Quantile::ONE)
}

fn spans(chance: &mut Chance, nanos: &[u64]) -> Duration {
    Duration::from_nanos(chance.one_of(nanos))
}

/// Settings of the policies: the defaults for one scenario of three.
pub(crate) fn policies(chance: &mut Chance, may_be_local: bool) -> PolicySettings {
    let mut settings = PolicySettings::default();
    if chance.in_1000(330) {
        return settings;
    }
    if let Ok(prequal) = prequal(chance, may_be_local).validate() {
        settings.prequal = prequal;
    }
    let delay = ShortestExpectedDelaySettings {
        probe_rate: rate(chance.one_of(&[0, 250_000, 500_000, 1_000_000, 2_300_000])),
        latency_band_millionths: chance.one_of(&[0, 50_000, 150_000, 400_000, 10_000_000]),
        cost_band_millionths: chance.one_of(&[0, 100_000, 250_000, 600_000, 10_000_000]),
    };
    if let Ok(delay) = Settings::validate(delay) {
        settings.shortest_expected_delay = delay;
    }
    settings
}

/// Each setting is the default in half of the scenarios, so that no extreme one hides the others.
fn prequal(chance: &mut Chance, may_be_local: bool) -> PrequalSettings {
    let mut it = PrequalSettings::default();
    if chance.in_1000(150) {
        it = PrequalSettings::paper();
    }
    let mut differs = || chance.in_1000(400);
    let differ: [bool; 17] = core::array::from_fn(|_| differs());
    let mut set = |place: usize, apply: &mut dyn FnMut(&mut PrequalSettings, &mut Chance)| {
        if differ[place] {
            apply(&mut it, chance);
        }
    };
    set(0, &mut |it, c| {
        it.probe_rate = rate(c.one_of(&[0, 333_333, 1_000_000, 2_700_001, 5_000_000, 16_000_000]));
    });
    set(1, &mut |it, c| {
        it.probe_rate_min = rate(c.one_of(&[0, 200_000, 2_000_000, 16_000_000]));
    });
    set(2, &mut |it, c| {
        it.remove_rate = rate(c.one_of(&[0, 250_000, 1_500_000, 3_000_000, 16_000_000]));
    });
    set(3, &mut |it, c| {
        it.pool_capacity = c.one_of(&[2, 3, 5, 8, 40, 256]);
    });
    set(4, &mut |it, c| {
        it.report_age_max = spans(c, &[5 * MS, 50 * MS, 300 * MS, 10_000 * MS]);
    });
    set(5, &mut |it, c| {
        it.rif_limit_quantile = quantile(c.one_of(&[0, 250_000, 500_000, 950_000, 1_000_000]));
    });
    set(6, &mut |it, c| {
        it.pool_drift = rate(c.one_of(&[100_000, 500_000, 4_000_000]));
    });
    set(7, &mut |it, c| it.reuse_max = c.one_of(&[2, 4, 16, 1_024]));
    set(8, &mut |it, c| {
        it.probe_idle_max = spans(c, &[MS, 10 * MS, 1_000 * MS]);
    });
    set(9, &mut |it, c| it.idle_probes = c.one_of(&[0, 1, 5, 16]));
    set(10, &mut |it, c| {
        it.probe_interval_min = spans(c, &[0, 10 * MS, 100 * MS]);
    });
    set(11, &mut |it, c| {
        it.probe_deadline = spans(c, &[MS, 5 * MS, 20 * MS, 500 * MS]);
    });
    set(12, &mut |it, c| {
        it.probes_outstanding_max = c.one_of(&[1, 2, 4, 8, 4_096]);
    });
    set(13, &mut |it, c| {
        it.probes_per_second_max = c.one_of(&[1, 20, 200, 1_000, 10_000_000]);
    });
    set(14, &mut |it, c| it.sync_probes = c.one_of(&[2, 4, 5, 8]));
    set(15, &mut |it, c| {
        it.sync_deadline = spans(c, &[MS, 10 * MS, 100 * MS]);
    });
    set(16, &mut |it, c| {
        it.local_only = may_be_local && c.in_1000(250);
    });
    it
}

/// Settings of health: the defaults, those of `serve`, or drawn.
pub(crate) fn health(chance: &mut Chance) -> HealthConfig {
    let settings = match chance.within(0, 9) {
        0 | 1 => HealthSettings::default(),
        2 => HealthSettings::standard(),
        _ => drawn_health(chance),
    };
    settings.validate().unwrap_or_default()
}

fn drawn_health(c: &mut Chance) -> HealthSettings {
    let mut it = HealthSettings::default();
    it.errors = (!c.in_1000(80)).then(|| {
        let mut errors = ErrorSettings::default();
        errors.window = spans(c, &[1_000 * MS, 2_000 * MS, 10_000 * MS, 60_000 * MS]);
        errors.failures_in_a_row = c.one_of(&[1, 2, 5, 5, 8, 1_000]);
        errors.failure_cost = c.one_of(&[0, 1, 5, 20, 20, 1_000]);
        errors
    });
    it.probation = (!c.in_1000(100)).then(|| {
        let mut probation = ProbationSettings::default();
        probation.factor = c.one_of(&[2, 3, 4, 8]);
        probation.latency_min = spans(c, &[MS, 5 * MS, 30 * MS, 100 * MS]);
        probation
    });
    it.warm_up = (!c.in_1000(100)).then(|| {
        let mut warm_up = WarmUpSettings::default();
        warm_up.share_min = quantile(c.one_of(&[1, 20_000, 100_000, 500_000, 1_000_000]));
        warm_up.span_max = spans(c, &[100 * MS, 1_000 * MS, 10_000 * MS, 60_000 * MS]);
        warm_up
    });
    it.out_max = quantile(c.one_of(&[0, 200_000, 340_000, 500_000, 500_000, 1_000_000]));
    it.trials = quantile(c.one_of(&[0, 3_000, 300_000, 1_000_000, 1_000_000, 1_000_000]));
    it.shadow_trials = c.in_1000(400);
    it.back_off = spans(c, &[10 * MS, 50 * MS, 100 * MS, 400 * MS, 1_000 * MS]);
    it.back_off_max = spans(c, &[10 * MS, 200 * MS, 1_000 * MS, 4_000 * MS]);
    it
}

/// The settings that a policy reads, as JSON: whole numbers, spans in nanoseconds, parts in
/// millionths.
pub(crate) fn policy_text(entry: &PolicyEntry, settings: &PolicySettings) -> Object {
    struct Visitor<'a> {
        entry: &'a PolicyEntry,
        sections: Object,
    }
    impl SectionVisitor for Visitor<'_> {
        fn visit<S: Section>(&mut self, settings: &mut Valid<S>) {
            if !self.entry.reads(S::NAME) {
                return;
            }
            let mut values: S = (**settings).clone();
            let mut section = Object::new();
            let fields = S::FIELDS.iter();
            for field in fields.filter(|field| self.entry.reads_key(S::NAME, field.name)) {
                put_field(&mut section, field.name, &field.kind, &mut values);
            }
            self.sections.object(S::NAME, section);
        }
    }
    let mut visitor = Visitor {
        entry,
        sections: Object::new(),
    };
    settings.clone().visit(&mut visitor);
    visitor.sections
}

pub(crate) fn put_field<S>(section: &mut Object, name: &str, kind: &Kind<S>, values: &mut S) {
    match kind {
        Kind::Boolean(field) => section.boolean(name, *field(values)),
        Kind::Duration(field) => section.number(name, nanos(*field(values))),
        Kind::Factor(field) | Kind::U32(field) => section.number(name, *field(values)),
        Kind::Quantile(field) => section.number(name, field(values).millionths()),
        Kind::Rate(field) => section.number(name, field(values).millionths()),
        Kind::U8(field) => section.number(name, *field(values)),
        Kind::U16(field) => section.number(name, *field(values)),
    };
}

/// The settings of health as JSON; a part that is off is missing.
pub(crate) fn health_text(settings: &HealthSettings) -> Object {
    let mut health = Object::new();
    if let Some(errors) = &settings.errors {
        let mut part = Object::new();
        part.number("window", nanos(errors.window));
        part.number("failures_in_a_row", errors.failures_in_a_row);
        part.number("failure_cost", errors.failure_cost);
        health.object("errors", part);
    }
    if let Some(probation) = &settings.probation {
        let mut part = Object::new();
        part.number("factor", probation.factor);
        part.number("latency_min", nanos(probation.latency_min));
        health.object("probation", part);
    }
    if let Some(warm_up) = &settings.warm_up {
        let mut part = Object::new();
        part.number("share_min", warm_up.share_min.millionths());
        part.number("span_max", nanos(warm_up.span_max));
        health.object("warm_up", part);
    }
    health.number("out_max", settings.out_max.millionths());
    health.number("trials", settings.trials.millionths());
    health.boolean("shadow_trials", settings.shadow_trials);
    health.number("back_off", nanos(settings.back_off));
    health.number("back_off_max", nanos(settings.back_off_max));
    health
}
