//! Classes of IP addresses (D15).
