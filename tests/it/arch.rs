//! Rules about the source itself, stated in ARCHITECTURE.md as absences.
