//! What is written to files, as a whole.
