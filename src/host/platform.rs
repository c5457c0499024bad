//! Which kind of system this is.

use serde::Serialize;

/// Systems that ccbox tells apart (R11).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// Linux.
    Linux,
    /// Linux on Windows, a real kernel.
    Wsl2,
    /// Windows' emulation of Linux system calls: no namespaces.
    Wsl1,
    /// macOS.
    Macos,
    /// Anything else.
    Other,
}

impl Platform {
    /// This system: one uname(2), no files.
    #[must_use]
    pub fn detect() -> Self {
        match nix::sys::utsname::uname() {
            Ok(u) => Self::of(
                &u.sysname().to_string_lossy(),
                &u.release().to_string_lossy(),
            ),
            Err(_) => Self::Other,
        }
    }

    /// By the words of uname(2).
    fn of(sysname: &str, release: &str) -> Self {
        match sysname {
            "Darwin" => Self::Macos,
            "Linux" => {
                let lower = release.to_ascii_lowercase();
                if !lower.contains("microsoft") {
                    Self::Linux
                // WSL1 says "4.4.0-19041-Microsoft"; WSL2 kernels are 4.19 or later and say "microsoft-standard" or "WSL2".
                } else if release.starts_with("4.4.") && !lower.contains("wsl2") {
                    Self::Wsl1
                } else {
                    Self::Wsl2
                }
            }
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_are_told_apart_by_their_names() {
        let table = [
            ("Linux", "6.1.0-18-amd64", Platform::Linux),
            (
                "Linux",
                "5.15.153.1-microsoft-standard-WSL2",
                Platform::Wsl2,
            ),
            ("Linux", "4.19.84-microsoft-standard", Platform::Wsl2),
            ("Linux", "4.4.0-19041-Microsoft", Platform::Wsl1),
            ("Darwin", "24.1.0", Platform::Macos),
            ("FreeBSD", "14.0", Platform::Other),
        ];
        for (s, r, want) in table {
            assert_eq!(Platform::of(s, r), want, "{r}");
        }
    }
}
