//! Exit codes of ccbox itself, after env(1) and timeout(1).

/// ccbox could not or would not run the command.
pub const OWN_FAILURE: u8 = 125;
/// The command was found but could not be executed.
pub const CANNOT_EXECUTE: u8 = 126;
/// The command was not found in the sandbox's view.
pub const NOT_FOUND: u8 = 127;

/// An error that knows the code ccbox ends with and the next step for the user.
///
/// Every error enum at a module boundary implements it, so that `cli` can print one line:
/// `ccbox: error: <display>; hint: <hint>`.
pub trait Failure: std::error::Error {
    /// 125, 126 or 127.
    fn exit_code(&self) -> u8 {
        OWN_FAILURE
    }
    /// The one next step, without trailing period.
    fn hint(&self) -> Option<String> {
        None
    }
    /// Longer help for a terminal (a source line with a caret), several lines, no prefix.
    fn detail(&self) -> Option<String> {
        None
    }
}

/// The words of an error of the system without Rust's "(os error N)", lower case as all messages are.
#[must_use]
pub fn reason(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => nix::errno::Errno::from_raw(number).desc().to_lowercase(),
        None => error.to_string().to_lowercase(),
    }
}

impl<'a, E: Failure + 'a> From<E> for Box<dyn Failure + 'a> {
    fn from(e: E) -> Self {
        Box::new(e)
    }
}
