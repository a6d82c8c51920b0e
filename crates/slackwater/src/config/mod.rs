//! The configuration file: parsed once into valid types.
