//! What the command line says beside, or in place of, a configuration file.
//!
//! Sub-commands that serve flatten [`Overrides`] into their own arguments. A flag that is given
//! wins over the file's key of the same meaning; lists replace, they do not add. Without a file the
//! flags alone are the configuration.

use super::otel_variables::Variables;
use crate::toml_reader::Flag;
use toml::de::DeValue;

/// Declares flags that stand for keys: lists, and then single values, each with its help, its
/// field, its name, what it calls its value, and its key.
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
            /// The flags, without dashes, that take one of a few names, with these names: for
            /// shells that complete them.
            #[must_use]
            pub fn choices() -> Vec<(&'static str, Vec<String>)> {
                let keys = [$(($list_flag, $list_key),)* $(($flag, $key),)*];
                $crate::sections::pages::choices_of(&keys)
            }

            /// What they say of their keys.
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
    /// Flags that stand for configuration keys.
    pub struct Overrides lists {
        /// Where clients connect [key: listen]
        listen "--listen" "ADDR:PORT" => "listen";
        /// The replicas, separated by commas [key: replicas]
        replicas "--replicas" "HOST:PORT,…" => "replicas";
    } values {
        /// Who chooses.
        policy "--policy" "NAME" => "policy", help = policy_help();
        /// Threads that carry requests [key: workers; default: one for each core]
        workers "--workers" "N" => "workers", allow_negative_numbers = true;
        /// What carries probes: udp, http or none [key: probe.transport; default: udp]
        probe "--probe" "TRANSPORT" => "probe.transport";
        /// Where status and metrics are served, or "none" [key: admin.listen; default:
        /// 127.0.0.1:9900]
        admin "--admin" "ADDR:PORT" => "admin.listen";
        /// What is logged: error, warn, info, debug or trace [key: log.level; default: info]
        log_level "--log-level" "LEVEL" => "log.level";
        /// What a line of the log looks like: text or json [key: log.format; default: text]
        log_format "--log-format" "FORMAT" => "log.format";
        /// Where a line for each request goes: none, stdout, stderr or a file [key: access_log.to;
        /// default: none]
        access_log "--access-log" "WHERE" => "access_log.to";
    } also {
        /// What stands in for keys of `[tracing]`; whoever serves asks the environment.
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
    format!("Who chooses: {names} [key: policy; default: {default}]")
}

/// What a flag says of its key.
pub(super) fn flag_of<'v>(
    field: &'static str,
    name: &'static str,
    written: impl IntoIterator<Item = &'v String>,
) -> Flag<'v> {
    let value = |written: &'v String| match DeValue::parse(written) {
        // Only this one is a number; a text that is none is refused by the key's own parser.
        Ok(number) if field == "workers" && number.get_ref().is_integer() => number.into_inner(),
        _ => DeValue::String(written.as_str().into()),
    };
    Flag {
        field,
        name,
        values: written.into_iter().map(value).collect(),
    }
}
