//! Policies as they are named on the command line.

use crate::fault::Fault;
use crate::toml_reader::nearest;
use slackwater_core::policy::PolicySettings;
use slackwater_sim::PolicyChoice;

/// Every name that can be given, for help.
pub(super) fn names() -> String {
    PolicyChoice::names().collect::<Vec<_>>().join(", ")
}

/// The policies named, each with its settings; `option` is what they were given by.
pub(super) fn choose(
    option: &str,
    names: &[String],
    settings: &PolicySettings,
) -> Result<Vec<PolicyChoice>, Fault> {
    let mut chosen = Vec::<PolicyChoice>::new();
    for name in names {
        if chosen.iter().any(|other| other.name == *name) {
            return Err(Fault::usage(format!("{option} {name}: is given twice")));
        }
        let choice = PolicyChoice::with_settings(name, settings.clone())
            .or_else(|| PolicyChoice::named(name));
        chosen.push(choice.ok_or_else(|| {
            let known = match nearest(name, PolicyChoice::names()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("expected one of {}", self::names()),
            };
            Fault::usage(format!("{option} {name}: there is no such policy, {known}"))
        })?);
    }
    Ok(chosen)
}
