//! The keys `connect` and `routes[].connect`: what becomes of CONNECT, by which a client asks for a tunnel.

use super::show::quoted;
pub use crate::routes::Connect;
use crate::toml_reader::values::one_of;
use crate::toml_reader::{Reader, Setting};
use core::fmt::{self, Write};

impl Connect {
    const NAMES: [(&'static str, Self); 2] = [("refuse", Self::Refuse), ("pass", Self::Pass)];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Pass => "pass",
        }
    }

    /// For all that say nothing else.
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let read = reader.setting("connect", Self::default(), "", |value| {
            one_of(value, &Self::NAMES)
        });
        read.value
    }

    /// The same for one route; `None` if it says nothing.
    pub(super) fn read_of_route(reader: &mut Reader<'_>, field: &str) -> Setting<Option<Self>> {
        reader.setting(field, None, "", |value| {
            one_of(value, &Self::NAMES).map(Some)
        })
    }

    pub(super) fn write(self, to: &mut String) -> fmt::Result {
        writeln!(to, "connect = {}", quoted(self.as_str()))
    }
}
