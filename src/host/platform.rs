//! Which kind of system this is.

use serde::Serialize;

/// Where WSL keeps the sockets by which Windows programs are started; root's, as all of /run.
const INTEROP: &str = "/run/WSL";

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
    /// This system: one uname(2) and one look for what WSL's own init makes, which a kernel built at home does not name.
    #[must_use]
    pub fn detect() -> Self {
        match nix::sys::utsname::uname() {
            Ok(u) => Self::of(
                &u.sysname().to_string_lossy(),
                &u.release().to_string_lossy(),
                std::path::Path::new(INTEROP).is_dir(),
            ),
            Err(_) => Self::Other,
        }
    }

    /// By the words of uname(2), and whether the directory of WSL's interop sockets is there.
    fn of(sysname: &str, release: &str, interop: bool) -> Self {
        match sysname {
            "Darwin" => Self::Macos,
            "Linux" => {
                let lower = release.to_ascii_lowercase();
                if !lower.contains("microsoft") {
                    if interop { Self::Wsl2 } else { Self::Linux }
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
            assert_eq!(Platform::of(s, r, false), want, "{r}");
        }
    }

    /// WSL2 takes a kernel of one's own; WSL1 is none, whatever lies about.
    #[test]
    fn a_kernel_without_a_name_is_known_by_its_init() {
        assert_eq!(Platform::of("Linux", "6.6.0-mine", true), Platform::Wsl2);
        assert_eq!(Platform::of("Linux", "6.6.0-mine", false), Platform::Linux);
        assert_eq!(
            Platform::of("Linux", "4.4.0-19041-Microsoft", true),
            Platform::Wsl1
        );
        assert_eq!(Platform::of("Darwin", "24.1.0", true), Platform::Macos);
    }
}
