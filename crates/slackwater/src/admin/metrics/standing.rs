//! Where replicas stand, and what became of them.

use super::super::standing::StandingCounts;
use super::super::status::{ReplicaStatus, ServiceStatus};
use super::{Families, label, of_replica};
use core::fmt;
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use slackwater_core::health::HealthState;

impl Families<'_> {
    pub(super) fn standings(
        &mut self,
        services: &[ServiceStatus],
        replicas: &[ReplicaStatus],
    ) -> fmt::Result {
        let numbers = services.iter().flat_map(|service| {
            let own = replicas.iter().filter(|it| it.service == service.name);
            let states: Vec<_> = own
                .filter_map(|replica| Some(replica.standing.as_ref()?.state.as_str()))
                .collect();
            // Where nobody watches there is nothing to tell.
            let told = HealthState::ALL.iter().filter(|_| !states.is_empty());
            let samples = told.map(|state| {
                let labels = vec![
                    ("service", service.name.clone()),
                    ("state", state.as_str().to_owned()),
                ];
                let number = states.iter().filter(|it| **it == state.as_str()).count();
                (labels, number as u64)
            });
            samples.collect::<Vec<_>>()
        });
        let help = "Replicas by where they stand with the worker that thinks the worst of them.";
        self.gauges("replicas", help, numbers)?;
        let shares = replicas.iter().filter_map(|replica| {
            let share = f64::from(replica.standing.as_ref()?.share_millionths) / 1e6;
            Some((of_replica(replica), ConstGauge::new(share)))
        });
        self.write(
            "replica_share",
            None,
            "The part of its requests that the replica gets, 0 to 1, as the mean over workers.",
            MetricType::Gauge,
            shares,
        )?;
        let each = |value: fn(&StandingCounts) -> u64| {
            let sample = move |service: &ServiceStatus| {
                let name = label("service", service.name.as_str());
                (name, value(&service.counts.standing))
            };
            services.iter().map(sample)
        };
        let help = "Replicas taken out for their failures, by one worker each.";
        self.counters("ejections", help, each(|counts| counts.ejections))?;
        let help = "Replicas taken out for being slow or having stopped, by one worker each.";
        self.counters("probations", help, each(|counts| counts.probations))?;
        let help = "Replicas not taken out because too many were.";
        self.counters("ejections_spared", help, each(|counts| counts.spared))?;
        let help = "Replicas that came back from being out.";
        self.counters("readmissions", help, each(|counts| counts.readmissions))?;
        let help = "Requests sent as trials to replicas that were out.";
        self.counters("trials", help, each(|counts| counts.trials))?;
        let help = "Of these, those that went well.";
        self.counters("trials_passed", help, each(|counts| counts.trials_passed))?;
        let help = "Warm-ups by evidence that began: of replicas that joined or restarted.";
        self.counters("warm_ups", help, each(|counts| counts.warm_ups))
    }
}
