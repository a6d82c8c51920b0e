//! Slackwater's own chores: checks of the tree that no other tool does.

fn main() {}
