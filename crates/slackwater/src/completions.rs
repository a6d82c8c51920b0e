//! The sub-command `slackwater completions`: a script for a shell that completes sub-commands,
//! flags, and the values of flags with a fixed set of names.
//!
//! The configuration's reader checks these values, because its errors say more than a list. So the
//! command line accepts any text, and only the script has the names.

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use slackwater_config::{AgentOverrides, Overrides};
use slackwater_core::policy::POLICIES;

/// Returns the script for `shell`.
pub(crate) fn script(command: Command, shell: clap_complete::Shell) -> Vec<u8> {
    let mut script = Vec::new();
    let mut command = with_values(command);
    clap_complete::generate(shell, &mut command, "slackwater", &mut script);
    script
}

/// Adds the possible values to the command's arguments.
fn with_values(command: Command) -> Command {
    let choices = match command.get_name() {
        "serve" => Overrides::choices(),
        "agent" => AgentOverrides::choices(),
        _ => Vec::new(),
    };
    let command = command.mut_args(|arg| with_value(arg, &choices));
    command.mut_subcommands(with_values)
}

fn with_value(arg: Arg, choices: &[(&'static str, Vec<String>)]) -> Arg {
    if !arg.get_action().takes_values() {
        return arg;
    }
    let flag = arg.get_long().unwrap_or_default();
    if let Some((_, names)) = choices.iter().find(|(known, _)| *known == flag) {
        return arg.value_parser(PossibleValuesParser::new(names.clone()));
    }
    let mut policies: Vec<_> = POLICIES.iter().map(|policy| policy.name).collect();
    match arg.get_id().as_str() {
        "policy" => arg.value_parser(PossibleValuesParser::new(policies)),
        "versus" | "policies" => {
            policies.push("all");
            arg.value_parser(PossibleValuesParser::new(policies))
        }
        "attempt" => arg.value_parser(["first", "retry", "hedge", "tie", "trial"]),
        "access_log" => arg.value_hint(ValueHint::AnyPath),
        // Without a hint, shells complete file names even for a number.
        _ if arg.get_value_hint() == ValueHint::Unknown => arg.value_hint(ValueHint::Other),
        _ => arg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    fn values(path: &[&str], arg: &str) -> Vec<String> {
        let mut command = &with_values(Cli::command());
        for name in path {
            command = command.find_subcommand(name).expect("a sub-command");
        }
        let arg = command.get_arguments().find(|it| it.get_id() == arg);
        let values = arg.expect("an argument").get_possible_values();
        values.iter().map(|it| it.get_name().to_owned()).collect()
    }

    #[test]
    fn completions_of_flags_are_the_names_in_the_configuration() {
        for (command, flag, some) in [
            #[cfg(feature = "serve")]
            ("serve", "policy", "least_loaded"),
            #[cfg(feature = "serve")]
            ("serve", "probe", "udp"),
            #[cfg(feature = "serve")]
            ("serve", "log_level", "debug"),
            #[cfg(feature = "serve")]
            ("serve", "log_format", "json"),
            ("agent", "log_level", "debug"),
            ("agent", "protocol", "h2c"),
        ] {
            let values = values(&[command], flag);
            assert!(
                values.iter().any(|it| it == some),
                "{command} {flag}: {values:?}"
            );
        }
        #[cfg(feature = "serve")]
        assert!(values(&["serve"], "listen").is_empty());
        assert!(values(&["agent"], "listen").is_empty());
    }

    #[cfg(all(feature = "demo", feature = "sim"))]
    #[test]
    fn completions_of_all_commands_list_the_policies() {
        for (path, arg) in [
            (&["demo"][..], "versus"),
            (&["admin", "policy"], "policy"),
            (&["sim", "run"], "policy"),
            (&["sim", "size"], "policies"),
            (&["sim", "replay"], "policy"),
        ] {
            let values = values(path, arg);
            assert!(
                values.iter().any(|it| it == "prequal"),
                "{path:?}: {values:?}"
            );
        }
    }
}
