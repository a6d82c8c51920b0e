//! Policies as they are named on the command line.

use slackwater_config::Fault;
use slackwater_config::toml_reader::nearest;
use slackwater_core::health::HealthConfig;
use slackwater_core::policy::PolicySettings;
use slackwater_sim::PolicyChoice;

/// Every name that can be given.
fn names() -> String {
    PolicyChoice::names().collect::<Vec<_>>().join(", ")
}

/// What a scenario says of the policies that it is played under.
#[derive(Debug)]
pub(super) struct Around {
    pub(super) settings: PolicySettings,
    pub(super) health: Option<HealthConfig>,
}

/// What stands for every name.
const ALL: &str = "all";

/// The policies named, each as the scenario has it; `option` is what they were given by. The only
/// name `all` stands for all.
pub(super) fn choose(
    option: &str,
    names: &[String],
    around: &Around,
) -> Result<Vec<PolicyChoice>, Fault> {
    if is_all(names) {
        let all = PolicyChoice::names().map(|name| choice(option, name, around));
        return all.collect();
    }
    let mut chosen = Vec::<PolicyChoice>::new();
    for name in names {
        if chosen.iter().any(|other| other.name == *name) {
            return Err(Fault::usage(format!("{option} {name}: is given twice")));
        }
        if name == ALL {
            return Err(Fault::usage(format!(
                "{option} {name}: stands for every policy, so no other name goes with it"
            )));
        }
        chosen.push(choice(option, name, around)?);
    }
    Ok(chosen)
}

/// Whether the names are the one that stands for every policy.
pub(super) fn is_all(names: &[String]) -> bool {
    matches!(names, [only] if only == ALL)
}

/// Whether there is such a policy.
pub(super) fn check(option: &str, name: &str) -> Result<(), Fault> {
    let around = Around {
        settings: PolicySettings::default(),
        health: None,
    };
    choice(option, name, &around).map(drop)
}

/// The one policy that is named.
pub(super) fn choice(option: &str, name: &str, around: &Around) -> Result<PolicyChoice, Fault> {
    let choice = PolicyChoice::with_settings(name, around.settings.clone())
        .or_else(|| PolicyChoice::named(name));
    let choice = choice.map(|choice| match &around.health {
        Some(health) => choice.guarded(health.clone()),
        None => choice,
    });
    choice.ok_or_else(|| {
        let known = match nearest(name, PolicyChoice::names()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("expected one of {}", names()),
        };
        let what = if name.is_empty() {
            "a name is empty".to_owned()
        } else {
            format!("{name}: there is no such policy")
        };
        Fault::usage(format!("{option} {what}, {known}"))
    })
}

/// What help says of the names.
pub(super) fn help() -> String {
    format!("\nPolicies: {}.\n", names())
}
