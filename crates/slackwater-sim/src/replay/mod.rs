//! What was recorded, played again: exactly, under the policy that made the choices.

pub mod exact;
pub mod history;

#[cfg(test)]
mod tests;
