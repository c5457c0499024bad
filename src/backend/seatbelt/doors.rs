//! Ways out of a profile that are not files and not sockets, and programs that are such a way.
//!
//! Operations are those of a table every release since macOS 13 has: a single one that a compiler does not know rejects the whole
//! profile. Names of services cost nothing where there is no such service.

/// Services that start or drive programs outside: all of them, because each is enough by itself.
pub(super) const LAUNCH: [&str; 4] = [
    "com.apple.coreservices.appleevents",
    "com.apple.coreservices.launchservicesd",
    "com.apple.coreservices.quarantine-resolver",
    "com.apple.runningboard",
];

/// Daemons of the keychain, of accounts and of Kerberos tickets: hiding files alone is bypassed by asking them. The trust daemon
/// stays open, or certificate checks fail.
pub(super) const KEYCHAIN: [&str; 6] = [
    "com.apple.SecurityServer",
    "com.apple.securityd",
    "com.apple.securityd.xpc",
    "com.apple.secd",
    "com.apple.accountsd.accountmanager",
    "com.apple.GSSCred",
];

/// Services no build needs. A simulator runs any program it is given, the service manager keeps one for the next login; the
/// clipboard, the screen, keys and pointer belong to who sits there; the index of Spotlight tells names and words of hidden files.
pub(super) const OTHERS: [&str; 10] = [
    "com.apple.CoreSimulator.CoreSimulatorService",
    "com.apple.xpc.smd",
    "com.apple.pasteboard.1",
    "com.apple.pbs.fetch_services",
    "com.apple.WindowServer",
    "com.apple.windowserver.active",
    "com.apple.windowserver.session",
    "com.apple.iohideventsystem",
    "com.apple.replayd",
    "com.apple.metadata.mds",
];

/// Services that fetch for somebody else, in their own process and past the proxy.
pub(super) const FETCH: [&str; 2] = ["com.apple.nsurlsessiond", "com.apple.WebKit.Networking"];

/// The same as a service of a bundle.
pub(super) const FETCH_BUNDLED: &str = "com.apple.WebKit.Networking";

/// The resolver by message; by socket it is [`RESOLVER`].
pub(super) const RESOLVER_SERVICE: &str = "com.apple.dnssd.service";

/// Programs that drive others.
pub(super) const SCRIPTING: [&str; 4] = [
    "/usr/bin/osascript",
    "/usr/bin/open",
    "/usr/bin/automator",
    "/usr/bin/shortcuts",
];

/// Programs that no build needs and that change the system, hand a task to somebody else, or ask for more rights.
pub(super) const DANGEROUS: [&str; 29] = [
    "/bin/launchctl",
    "/usr/bin/security",
    "/usr/bin/sudo",
    "/usr/bin/su",
    "/usr/bin/login",
    "/usr/bin/at",
    "/usr/bin/batch",
    "/usr/bin/crontab",
    "/usr/sbin/screencapture",
    "/usr/bin/tccutil",
    "/usr/bin/profiles",
    "/usr/sbin/systemsetup",
    "/usr/sbin/networksetup",
    "/usr/sbin/sysadminctl",
    "/usr/sbin/scutil",
    "/usr/sbin/nvram",
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
    "/sbin/kextload",
];

/// `mount_nfs` and its like.
pub(super) const DANGEROUS_FAMILY: &str = "^/sbin/mount_[^/]+$";

/// Devices that every program writes.
pub(super) const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/dtracehelper",
    "/dev/random",
];

/// Here-documents of zsh, which insists on /tmp, writes them and reads them again.
pub(super) const HERE_DOCUMENTS: &str = "^/private/tmp/zsh[A-Za-z0-9]+$";

/// Descriptors by name.
pub(super) const DEVICE_EXPRESSIONS: [&str; 2] = ["^/dev/fd/[0-9]+$", HERE_DOCUMENTS];

/// Devices that belong to somebody else: the terminals of other windows and serial lines, raw disks, the packets and the audit trail
/// of the machine. Linux has a /dev without them (semantics 11).
pub(super) const FOREIGN_DEVICES: [&str; 5] = [
    "^/dev/(tty|cu[.]|pty)[^/]+$",
    "^/dev/bpf[^/]*$",
    "^/dev/r?disk[^/]+$",
    "^/dev/auditpipe[^/]*$",
    "^/dev/fsevents$",
];

/// A terminal that the command has opened itself: the kernel marks those it hands out.
pub(super) const OWN_TERMINAL: &str =
    "(require-all (regex \"^/dev/ttys[0-9]+$\") (extension \"com.apple.sandbox.pty\"))";

/// The socket of the system's resolver.
pub(super) const RESOLVER: &str = "/private/var/run/mDNSResponder";
