//! The wire format against its test vectors, and against random input.

mod properties;
mod vectors;
