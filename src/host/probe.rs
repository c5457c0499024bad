//! Functional probe: what this host can enforce, what is missing, how to get it (R11).
