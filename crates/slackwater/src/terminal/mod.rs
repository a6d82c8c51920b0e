//! What all that is shown in a terminal is made of: lines with inks, bars, figures and problems in
//! words. The demo's table, `top` and `admin` use it.

#[cfg(any(feature = "demo", feature = "top"))]
pub(crate) mod bars;
#[cfg(any(feature = "demo", feature = "top"))]
pub(crate) mod line;
pub(crate) mod problems;
pub(crate) mod words;
