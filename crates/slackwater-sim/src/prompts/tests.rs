//! Conversations end to end.
