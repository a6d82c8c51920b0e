//! Policies by their names on the command line.

use slackwater_config::Fault;
use slackwater_config::toml_reader::nearest;
use slackwater_core::health::HealthConfig;
use slackwater_core::policy::PolicySettings;
use slackwater_sim::PolicyChoice;

/// All names that are accepted.
fn names() -> String {
    PolicyChoice::names().collect::<Vec<_>>().join(", ")
}

/// What a scenario sets for the policies that it is played under.
#[derive(Debug)]
pub(super) struct Around {
    pub(super) settings: PolicySettings,
    pub(super) health: Option<HealthConfig>,
}

/// The name that selects all policies.
const ALL: &str = "all";

/// Returns the named policies, each with the scenario's settings; `option` is the flag that names
/// them. The single name `all` selects all.
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

/// Returns whether the names are the single one that selects all policies.
pub(super) fn is_all(names: &[String]) -> bool {
    matches!(names, [only] if only == ALL)
}

/// Checks that there is such a policy.
pub(super) fn check(option: &str, name: &str) -> Result<(), Fault> {
    let around = Around {
        settings: PolicySettings::default(),
        health: None,
    };
    choice(option, name, &around).map(drop)
}

/// Returns the named policy.
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

/// The help text about the names.
pub(super) fn help() -> String {
    format!("\nPolicies: {}.\n", names())
}
