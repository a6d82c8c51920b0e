//! Which replica gets the next query, as a value.
#![no_std]
