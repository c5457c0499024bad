//! The system a call is made on.

use crate::host::Platform;
use crate::session::seatbelt::Tools;

/// What decides how a call runs. Only tests make up another one than [`Machine::here`]: nothing outside of the program can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Which system.
    pub platform: Platform,
    /// The programs of the system that a run on macOS uses.
    pub tools: Tools,
    /// The caller.
    pub uid: u32,
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn here() -> Self {
        Self {
            platform: Platform::detect(),
            tools: Tools::system(),
            uid: nix::unistd::getuid().as_raw(),
        }
    }

    /// Rules are those of macOS.
    #[must_use]
    pub fn is_mac(&self) -> bool {
        self.platform == Platform::Macos
    }
}
