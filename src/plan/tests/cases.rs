//! The known failure cases, by name.
