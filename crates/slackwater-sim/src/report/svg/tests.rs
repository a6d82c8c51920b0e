//! Pictures of charts as they should be, and as they should not.
