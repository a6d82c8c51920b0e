//! Macros that declare tables.

/// A section's struct with its defaults, and its table.
///
/// ```text
/// settings! {
///     /// How many requests a service works on at once, and how many wait.
///     pub struct QueueSettings in "queue" {
///         /// Requests that wait for a place, over all workers. 0: requests never wait.
///         waiting_max: u32 = 1024, Within(Number, 0..=1 << 20);
///     }
/// }
/// ```
///
/// The text after the kind is shown as the default, where the default itself would not explain it.
/// `fixed` marks a key whose change needs a restart. Keys in the syntax of [`keys!`] may come
/// `first` and `then`; `also` declares fields that are no keys.
macro_rules! settings {
    ($(#[$meta:meta])* $vis:vis struct $name:ident in $section:literal
        $(first { $($first:tt)* } fields)? {
        $(
            $(#[doc = $doc:literal])+
            $field:ident: $type:ty = $default:expr, $kind:expr
                $(, $unsaid:literal)? $(, $fixed:ident)?;
        )*
    } $(then { $($then:tt)* })? $(also {
        $($(#[doc = $also_doc:literal])+ $also:ident: $also_type:ty = $also_default:expr;)*
    })?) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        $vis struct $name {
            $($(#[doc = $doc])+ $vis $field: $type,)*
            $($($(#[doc = $also_doc])+ $vis $also: $also_type,)*)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* $($($also: $also_default,)*)? }
            }
        }

        $crate::table::keys! { $name in $section {
            $($($first)*)?
            $($(#[doc = $doc])+ $field at $field: $kind $(, $unsaid)? $(, $fixed)?;)*
            $($($then)*)?
        } }
    };
}

/// The table of a section whose settings are declared elsewhere.
///
/// | entry | the value |
/// |---|---|
/// | `key at place: kind;` | is at this place among the settings |
/// | `key of rules.place: kind;` | is at this place in `rules`, valid settings of the core |
/// | `key: kind;` | is read and shown by hand |
/// | `key as "section.key" …` | has its key in a section below |
///
/// The function after the section's name checks what the kinds cannot.
macro_rules! keys {
    (@place : $kind:expr) => { $kind };
    (@place at $($place:ident).+ : $kind:expr) => {
        $crate::table::At {
            get: |settings: &Self| &settings.$($place).+,
            set: |settings: &mut Self, value| {
                settings.$($place).+ = value;
                Ok(())
            },
            kind: $kind,
        }
    };
    (@place of $valid:ident.$($place:ident).+ : $kind:expr) => {
        $crate::table::At {
            get: |settings: &Self| &settings.$valid.$($place).+,
            set: |settings: &mut Self, value| {
                let valid = &mut settings.$valid;
                $crate::table::amend(valid, |valid| valid.$($place).+ = value)
            },
            kind: $kind,
        }
    };
    (@name $key:ident) => { stringify!($key) };
    (@name $key:ident $name:literal) => { $name };
    (@fixed) => { false };
    (@fixed fixed) => { true };
    (@unsaid) => { None };
    (@unsaid $unsaid:literal) => { Some($unsaid) };
    ($name:ident in $section:literal $(, $check:path)? {
        $(
            $(#[doc = $doc:literal])+
            $key:ident $(as $full:literal)?
                $(at $($place:ident).+)? $(of $valid:ident.$($part:ident).+)? : $kind:expr
                $(, $unsaid:literal)? $(, $fixed:ident)?;
        )*
    }) => {
        impl $crate::table::Section for $name {
            const NAME: &'static str = $section;
            const KEYS: &'static [$crate::table::Key<Self>] = &[$(
                $crate::table::Key {
                    name: $crate::table::keys!(@name $key $($full)?),
                    doc: &[$($doc),+],
                    unsaid: $crate::table::keys!(@unsaid $($unsaid)?),
                    fixed: $crate::table::keys!(@fixed $($fixed)?),
                    place: &$crate::table::keys!(
                        @place $(at $($place).+)? $(of $valid.$($part).+)? : $kind
                    ),
                },
            )*];

            $(fn check(&self) -> Result<(), ::slackwater_core::policy::ConfigError> {
                $check(self)
            })?
        }
    };
}

/// An enum whose values have names in the configuration.
macro_rules! named {
    ($(#[$meta:meta])* pub enum $name:ident {
        $($(#[$of:meta])* $value:ident = $text:literal,)*
    }) => {
        ::slackwater_core::named! {
            $(#[$meta])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum $name by as_str { $($(#[$of])* $value = $text,)* }
        }

        impl $name {
            /// All names, with their values.
            pub(crate) const NAMES: &'static [(&'static str, Self)] = &[$(($text, Self::$value),)*];
        }
    };
}

pub(crate) use {keys, named, settings};
