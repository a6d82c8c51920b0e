//! Reads users' documents (TOML, and JSON and YAML in the same way) key by key. All mistakes are
//! found, and each names file, line, column and field.
//!
//! [`Reader`] walks a document, and [`values`] converts what it finds. [`Mistake`] and [`Remark`]
//! say what is wrong or suspicious, and where. The callers define the keys: `config` for `serve`
//! and `agent`, `sim` for scenarios.

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
pub(crate) use reader::Layer;
pub use reader::{Definition, Flag, Item, Reader, Setting};
pub use source::{Source, read_bounded};
pub use suggest::nearest;
pub(crate) use suggest::{ForeignName, is_same};
