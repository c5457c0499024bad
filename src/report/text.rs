//! Escaping of hostile text and the fixed shapes of stderr lines.
