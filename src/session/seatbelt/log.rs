//! What the kernel says it refused, out of the lines of `log stream --style ndjson`. Pure.
//!
//! The command can write to the system's log, too, and it can find out the tag of its run. So the text of a message proves nothing: who
//! wrote it does, and that the logging system notes itself. A message counts only if it comes from process 0, the kernel, and out of its
//! Sandbox extension, or from the daemon that gathers reports.

use serde_json::Value;

/// Names of operations of macOS 14 that a profile of ours can refuse, and of the kernel's own refusals.
const OPERATIONS: [&str; 56] = [
    "appleevent-send",
    "device-camera",
    "device-microphone",
    "file-clone",
    "file-ioctl",
    "file-issue-extension",
    "file-link",
    "file-map-executable",
    "file-mknod",
    "file-mount",
    "file-read*",
    "file-read-data",
    "file-read-metadata",
    "file-read-xattr",
    "file-revoke",
    "file-search",
    "file-write*",
    "file-write-acl",
    "file-write-create",
    "file-write-data",
    "file-write-finderinfo",
    "file-write-flags",
    "file-write-mode",
    "file-write-mount",
    "file-write-owner",
    "file-write-setugid",
    "file-write-times",
    "file-write-umount",
    "file-write-unlink",
    "file-write-xattr",
    "forbidden-exec-sugid",
    "forbidden-sandbox-reinit",
    "hid-control",
    "iokit-open",
    "ipc-posix-sem",
    "ipc-posix-shm",
    "job-creation",
    "lsopen",
    "mach-lookup",
    "mach-register",
    "network*",
    "network-bind",
    "network-inbound",
    "network-outbound",
    "process-exec",
    "process-exec*",
    "process-exec-interpreter",
    "process-fork",
    "process-info*",
    "signal",
    "sysctl-read",
    "sysctl-write",
    "system-fcntl",
    "system-privilege",
    "system-socket",
    "user-preference-write",
];

/// The name of a refusal that is none of [`OPERATIONS`].
const UNKNOWN: &str = "sandbox";

/// Refusals of the kernel itself, which have no rule and so no tag.
const UNTAGGED: [&str; 2] = ["forbidden-exec-sugid", "forbidden-sandbox-reinit"];

/// The daemon that gathers reports.
const REPORTER: &str = "/usr/libexec/sandboxd";

/// Longer lines are nobody's whom we know.
pub const LONGEST: usize = 64 * 1024;

/// One refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denial {
    /// Seatbelt's name of the operation.
    pub action: &'static str,
    /// Path, host, service; may be empty.
    pub target: String,
    /// As the kernel names the process, cut to 16 characters or so.
    pub process: String,
    /// Its number.
    pub pid: i32,
    /// So many at once.
    pub count: u64,
    /// The rule of this run that refused said so itself.
    pub tagged: bool,
}

/// What a line is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// The log is being read from here on.
    Begins,
    /// Something was refused.
    Denied(Denial),
    /// Anything else.
    Other,
}

/// The predicate for `log`: the kernel's, of this run or without any mark.
#[must_use]
pub fn predicate(tag: &str) -> String {
    let untagged: Vec<String> = UNTAGGED
        .iter()
        .map(|name| format!(" OR eventMessage CONTAINS \"{name}\""))
        .collect();
    format!(
        "((processID == 0 AND senderImagePath ENDSWITH \"/Sandbox\") OR processImagePath == \"{REPORTER}\") AND (eventMessage CONTAINS \"{tag}\"{})",
        untagged.concat()
    )
}

/// Reads one line for the run with this tag.
#[must_use]
pub fn read(line: &[u8], tag: &str) -> Line {
    if line.len() > LONGEST {
        return Line::Other;
    }
    if line.starts_with(b"Filtering the log data using ") {
        return Line::Begins;
    }
    let Ok(event) = serde_json::from_slice::<Value>(line) else {
        return Line::Other;
    };
    let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
    let by_kernel = event.get("processID").and_then(Value::as_i64) == Some(0)
        && text("senderImagePath").ends_with("/Sandbox");
    if !by_kernel && text("processImagePath") != REPORTER {
        return Line::Other;
    }
    message(text("eventMessage"), tag).map_or(Line::Other, Line::Denied)
}

/// `[N duplicate report[s] for ]Sandbox: NAME(PID) deny(CODE) OPERATION[ TARGET]`, and the tag as the one line after it. A path with a
/// newline or with a tag in it makes more lines, and then nothing is believed.
fn message(text: &str, tag: &str) -> Option<Denial> {
    let (first, tagged) = match text.split_once('\n') {
        None => (text, false),
        Some((first, rest)) if rest == tag => (first, true),
        Some(_) => return None,
    };
    let (count, rest) = counted(first);
    let rest = rest.strip_prefix("Sandbox: ")?;
    let (who, what) = rest.split_once(") deny(").map_or_else(
        // Older systems print no code.
        || rest.split_once(") deny "),
        |(who, coded)| Some((who, coded.split_once(") ")?.1)),
    )?;
    let (process, pid) = who.rsplit_once('(')?;
    let (operation, target) = what.split_once(' ').unwrap_or((what, ""));
    let action = OPERATIONS
        .iter()
        .find(|known| **known == operation)
        .copied()
        .unwrap_or(UNKNOWN);
    if !tagged && !UNTAGGED.contains(&action) {
        return None;
    }
    Some(Denial {
        action,
        target: target.to_owned(),
        process: process.to_owned(),
        pid: pid.parse().ok()?,
        count,
        tagged,
    })
}

fn counted(text: &str) -> (u64, &str) {
    let plain = (1, text);
    let Some((number, rest)) = text.split_once(" duplicate report") else {
        return plain;
    };
    let Some(rest) = rest
        .strip_prefix("s for ")
        .or_else(|| rest.strip_prefix(" for "))
    else {
        return plain;
    };
    number.parse().map_or(plain, |n: u64| (n.max(1), rest))
}

/// Services that programs ask for whatever they do, and do without.
const NOISE_SERVICES: [&str; 4] = [
    "com.apple.diagnosticd",
    "com.apple.analyticsd",
    "com.apple.logd",
    "com.apple.logd.events",
];

/// Whether it is known that programs try this in passing and nothing is lost by the refusal.
#[must_use]
pub fn is_noise(denial: &Denial) -> bool {
    let Denial { action, target, .. } = denial;
    let has_extension = |ext: &str| {
        std::path::Path::new(target)
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case(ext))
    };
    match *action {
        "network-outbound" => {
            ["/private/var/run/mDNSResponder", "/private/var/run/syslog"].contains(&target.as_str())
        }
        "mach-lookup" => NOISE_SERVICES.contains(&target.as_str()),
        "file-write-data" | "file-write-create" | "file-write-unlink" | "file-ioctl"
        | "file-read-data" => {
            ["/dev/dtracehelper", "/dev/tty"].contains(&target.as_str())
                || (action.starts_with("file-write")
                    && (target.contains("/hsperfdata_")
                        || target.contains("/go/telemetry/")
                        || (target.contains("/__pycache__/") && target.contains(".pyc"))
                        || has_extension("pyc")))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
