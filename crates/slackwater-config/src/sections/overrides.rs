//! Command-line flags that override or replace a configuration file.
//!
//! Subcommands that serve flatten [`Overrides`] into their own arguments. A flag takes precedence
//! over the file's key of the same meaning. Lists are replaced, not extended. Without a file, the
//! flags alone are the configuration.

use super::variables::Variables;
use crate::toml_reader::Flag;
use toml::de::DeValue;

/// Declares flags that set keys, lists first, then single values. Each has its help, field, name,
/// value name and key.
macro_rules! flags {
    ($(#[$meta:meta])* pub struct $name:ident lists {
        $($(#[doc = $list_doc:literal])+ $list:ident $list_flag:literal $list_value:literal => $list_key:literal;)*
    } values {
        $($(#[doc = $doc:literal])+ $field:ident $flag:literal $value:literal => $key:literal $(, $attribute:meta)*;)*
    } $(also { $($also:tt)* })?) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        #[cfg_attr(feature = "clap", derive(clap::Args))]
        #[expect(clippy::doc_markdown, reason = "this is what the help shows, without markup")]
        pub struct $name {
            $(
                $(#[doc = $list_doc])+
                #[cfg_attr(feature = "clap", arg(long, value_name = $list_value, value_delimiter = ','))]
                pub $list: Vec<String>,
            )*
            $(
                $(#[doc = $doc])+
                #[cfg_attr(feature = "clap", arg(long, value_name = $value $(, $attribute)*))]
                pub $field: Option<String>,
            )*
            $($($also)*)?
        }

        impl $name {
            /// The flags (without dashes) whose values are a fixed set of names, with these names:
            /// for shell completion.
            #[must_use]
            pub fn choices() -> Vec<(&'static str, Vec<String>)> {
                let keys = [$(($list_flag, $list_key),)* $(($flag, $key),)*];
                $crate::sections::pages::choices_of(&keys)
            }

            /// The keys that the flags set, with their values.
            pub(super) fn flags(&self) -> Vec<$crate::toml_reader::Flag<'_>> {
                use $crate::sections::overrides::flag_of;
                vec![
                    $(flag_of($list_key, $list_flag, &self.$list),)*
                    $(flag_of($key, $flag, &self.$field),)*
                ]
            }
        }
    };
}

pub(super) use flags;

flags! {
    /// Flags that set configuration keys.
    pub struct Overrides lists {
        /// Address that clients connect to [key: listen]
        listen "--listen" "ADDR:PORT" => "listen";
        /// The replicas, separated by commas [key: replicas]
        replicas "--replicas" "HOST:PORT,…" => "replicas";
    } values {
        /// The policy.
        policy "--policy" "NAME" => "policy", help = policy_help();
        /// Threads that carry requests [key: workers; default: one for each core]
        workers "--workers" "N" => "workers", allow_negative_numbers = true;
        /// Transport of probes: udp, http or none [key: probe.transport; default: udp]
        probe "--probe" "TRANSPORT" => "probe.transport";
        /// Address of status, metrics and dashboard, or "none" [key: admin.listen; default:
        /// 127.0.0.1:9900]
        admin "--admin" "ADDR:PORT" => "admin.listen";
        /// Lowest level that is logged: error, warn, info, debug or trace [key: log.level; default:
        /// info]
        log_level "--log-level" "LEVEL" => "log.level";
        /// Format of the log: text or json [key: log.format; default: text]
        log_format "--log-format" "FORMAT" => "log.format";
        /// Destination of the access log: none, stdout, stderr or a file [key: access_log.to;
        /// default: none]
        access_log "--access-log" "WHERE" => "access_log.to";
    } also {
        /// Environment variables that set keys of `[tracing]`. The caller reads the environment.
        #[cfg_attr(feature = "clap", arg(skip))]
        pub variables: Variables,
    }
}

#[cfg(feature = "clap")]
fn policy_help() -> String {
    use slackwater_core::policy::{DEFAULT_POLICY, POLICIES};
    let names: Vec<_> = POLICIES.iter().map(|entry| entry.name).collect();
    let names = names.join(", ");
    let default = DEFAULT_POLICY.name;
    format!("Policy that picks replicas: {names} [key: policy; default: {default}]")
}

/// The value that a flag gives its key.
pub(super) fn flag_of<'v>(
    field: &'static str,
    name: &'static str,
    written: impl IntoIterator<Item = &'v String>,
) -> Flag<'v> {
    let value = |written: &'v String| match DeValue::parse(written) {
        // Only this flag is a number. If its text is no number, the key's own parser rejects it.
        Ok(number) if field == "workers" && number.get_ref().is_integer() => number.into_inner(),
        _ => DeValue::String(written.as_str().into()),
    };
    Flag {
        field,
        name,
        values: written.into_iter().map(value).collect(),
    }
}
