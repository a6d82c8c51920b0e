//! The elements of what is shown in a terminal: lines with inks, bars, figures as text. The demo's
//! table and `top` use them.

#[cfg(any(feature = "demo", feature = "top"))]
pub(crate) mod bars;
#[cfg(any(feature = "demo", feature = "top"))]
pub(crate) mod line;
pub(crate) mod words;
