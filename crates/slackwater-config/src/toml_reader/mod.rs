//! TOML documents of users (and JSON and YAML, read alike), key by key: every mistake is found, and
//! each names file, line, column and field.
//!
//! [`Reader`] walks a document; [`values`] makes values of what it finds; [`Mistake`] and
//! [`Remark`] say what is wrong or strange, and where. What the keys are is their readers'
//! business: `config` for `serve` and `agent`, `sim` for scenarios.

mod disguise;
mod foreign;
mod mistake;
mod path;
mod reader;
mod source;
mod suggest;
mod unknown;
pub mod values;

pub use foreign::Format;
pub use mistake::{Mistake, Mistakes, Place, Remark, Severity};
pub use reader::{Flag, Item, Reader, Said, Setting};
pub use source::{Source, read_bounded};
pub use suggest::nearest;
pub(crate) use suggest::{ForeignName, is_same};
