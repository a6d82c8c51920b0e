//! What all that is shown in a terminal is made of: lines with inks, bars, figures in words. The
//! demo's table and `top` use it.

pub(crate) mod bars;
pub(crate) mod line;
pub(crate) mod words;
