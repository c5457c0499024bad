//! The command line other processes see of this one.

use std::io;

/// Overwrites this process's arguments, which everybody who sees it can read in /proc/PID/cmdline, with `title` and NUL bytes. They
/// end where they did; what has copies of them keeps those.
///
/// For a child of fork(2): the parent's stay what they are.
#[cfg(target_os = "linux")]
pub fn replace_arguments(title: &str) -> io::Result<()> {
    use std::fs::{File, OpenOptions};
    use std::io::Read;
    use std::os::unix::fs::FileExt;
    let mut fields = String::new();
    File::open("/proc/self/stat")?.read_to_string(&mut fields)?;
    let (start, end) = argument_area(&fields).ok_or(io::ErrorKind::InvalidData)?;
    let length = usize::try_from(end.saturating_sub(start)).map_err(io::Error::other)?;
    let mut text = title.as_bytes().to_vec();
    text.resize(length, 0);
    if let Some(last) = text.last_mut() {
        // Without a NUL at the very end the kernel would show the environment, too (fs/proc/base.c, get_mm_cmdline).
        *last = 0;
    }
    let memory = OpenOptions::new().write(true).open("/proc/self/mem")?;
    memory.write_all_at(&text, start)
}

/// There is no /proc here.
#[cfg(not(target_os = "linux"))]
pub fn replace_arguments(_title: &str) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(any(target_os = "linux", test))]
/// `arg_start` and `arg_end`, fields 48 and 49 of /proc/PID/stat (proc(5)).
fn argument_area(line: &str) -> Option<(u64, u64)> {
    // The second field is a name in parentheses and may hold anything.
    let (_, rest) = line.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(48 - 3);
    let start = fields.next()?.parse().ok()?;
    let end = fields.next()?.parse().ok()?;
    (start < end).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_area_is_found_behind_any_name() {
        let numbers: Vec<String> = (3..=52).map(|n| n.to_string()).collect();
        let line = format!("7 (a) b (c) {}\n", numbers.join(" "));
        assert_eq!(argument_area(&line), Some((48, 49)));
        assert_eq!(argument_area("7 (a) S 1"), None);
        assert_eq!(argument_area("no name"), None);
    }
}
