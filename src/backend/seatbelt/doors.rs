//! Ways out of a profile that are not files and not sockets, and programs that are such a way.

/// Services that start or drive programs outside: all of them, because each is enough by itself.
pub(super) const LAUNCH: [&str; 4] = [
    "com.apple.coreservices.appleevents",
    "com.apple.coreservices.launchservicesd",
    "com.apple.coreservices.quarantine-resolver",
    "com.apple.runningboard",
];

/// Daemons of the keychain: hiding its files alone is bypassed by asking them. The trust daemon stays open, or certificate checks
/// fail.
pub(super) const KEYCHAIN: [&str; 4] = [
    "com.apple.SecurityServer",
    "com.apple.securityd",
    "com.apple.securityd.xpc",
    "com.apple.secd",
];

/// Programs that drive others.
pub(super) const SCRIPTING: [&str; 4] = [
    "/usr/bin/osascript",
    "/usr/bin/open",
    "/usr/bin/automator",
    "/usr/bin/shortcuts",
];

/// Programs that no build needs and that change the system, hand a task to somebody else, or ask for more rights.
pub(super) const DANGEROUS: [&str; 24] = [
    "/bin/launchctl",
    "/usr/bin/security",
    "/usr/bin/sudo",
    "/usr/bin/su",
    "/usr/bin/login",
    "/usr/bin/at",
    "/usr/bin/crontab",
    "/usr/sbin/screencapture",
    "/usr/bin/tccutil",
    "/usr/bin/profiles",
    "/usr/sbin/systemsetup",
    "/usr/sbin/networksetup",
    "/usr/bin/dscl",
    "/usr/sbin/dseditgroup",
    "/usr/sbin/spctl",
    "/usr/bin/csrutil",
    "/usr/bin/kmutil",
    "/usr/sbin/diskutil",
    "/usr/bin/hdiutil",
    "/sbin/mount",
    "/sbin/umount",
    "/usr/bin/tmutil",
    "/usr/bin/sandbox-exec",
    "/usr/sbin/chroot",
];

/// Devices that every program writes.
pub(super) const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/dtracehelper",
    "/dev/random",
];

/// Terminals, descriptors by name, and the here-documents of zsh, which insist on /tmp.
pub(super) const DEVICE_EXPRESSIONS: [&str; 3] = [
    "^/dev/ttys[0-9]+$",
    "^/dev/fd/[0-9]+$",
    "^/private/tmp/zsh[A-Za-z0-9]+$",
];

/// The socket of the system's resolver.
pub(super) const RESOLVER: &str = "/private/var/run/mDNSResponder";
