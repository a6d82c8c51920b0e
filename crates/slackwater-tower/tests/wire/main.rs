//! The wire format against its test vectors, and against random input.

#[cfg(test)]
mod properties;
#[cfg(test)]
mod vectors;
