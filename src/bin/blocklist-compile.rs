//! The admin command.
fn main() {}
