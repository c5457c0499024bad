//! The commented spec that `ccbox init` writes.

/// A commented `ccbox.toml` for a base profile. It parses as it is, and every line a user is likely to want is there to
/// uncomment.
#[must_use]
pub fn init_template(profile: &str) -> String {
    let about = match profile {
        "dispatch" => "only what is bound below is visible, and the system directories",
        "terminal" => "home is writable and the network is open; the places of keys are closed",
        "strict" => "no network, no caches, no secrets in the environment",
        _ => "everything but secrets is readable, the working directory is writable",
    };
    include_str!("template.toml")
        .replace("@PROFILE@", profile)
        .replace("@ABOUT@", about)
}
