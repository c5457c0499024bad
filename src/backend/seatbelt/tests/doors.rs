//! What the requirements say about everything that is not a path of the spec: services, processes, devices, the network.

use super::evaluator::MARK;
use super::model::Spec;

const LAUNCH: [&str; 4] = [
    "com.apple.coreservices.appleevents",
    "com.apple.coreservices.launchservicesd",
    "com.apple.coreservices.quarantine-resolver",
    "com.apple.runningboard",
];
const KEYS: [&str; 6] = [
    "com.apple.SecurityServer",
    "com.apple.securityd",
    "com.apple.securityd.xpc",
    "com.apple.secd",
    "com.apple.accountsd.accountmanager",
    "com.apple.GSSCred",
];
const CLOSED: [&str; 13] = [
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
    "com.apple.nsurlsessiond",
    "com.apple.WebKit.Networking",
    "xpc:com.apple.WebKit.Networking",
];
const OPEN: [&str; 4] = [
    "com.apple.trustd.agent",
    "com.apple.system.opendirectoryd.libinfo",
    "com.apple.cfprefsd.agent",
    "com.apple.logd",
];

const DANGEROUS: [&str; 30] = [
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
    "/sbin/mount_nfs",
    "/sbin/umount",
    "/usr/bin/tmutil",
    "/usr/bin/sandbox-exec",
    "/usr/sbin/chroot",
    "/sbin/kextload",
];
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/random",
    "/dev/tty",
    "/dev/ttys001",
    "/dev/ptmx",
    "/dev/dtracehelper",
    "/dev/fd/3",
];
const FOREIGN: [&str; 9] = [
    "/dev/ttys009",
    "/dev/ttyp0",
    "/dev/ptyp0",
    "/dev/cu.usb1",
    "/dev/bpf0",
    "/dev/disk0",
    "/dev/rdisk2s1",
    "/dev/auditpipe",
    "/dev/fsevents",
];

const SCRIPTING: [&str; 4] = [
    "/usr/bin/osascript",
    "/usr/bin/open",
    "/usr/bin/automator",
    "/usr/bin/shortcuts",
];

type Answer = (&'static str, String, bool);

pub(super) fn answers(spec: &Spec) -> Vec<Answer> {
    let mut out: Vec<Answer> = Vec::new();
    let mut all = |op: &'static str, list: &[&str], want: bool| {
        out.extend(list.iter().map(|t| (op, (*t).to_owned(), want)));
    };
    all("mach-lookup", &LAUNCH, spec.events);
    all("lsopen", &[""], spec.events);
    all("appleevent-send", &["com.apple.finder"], spec.events);
    all("process-exec*", &SCRIPTING, spec.events);
    all("mach-lookup", &KEYS, spec.keychain);
    all("mach-lookup", &CLOSED, false);
    all("mach-lookup", &OPEN, true);
    all("mach-lookup", &["com.apple.dnssd.service"], spec.dns);
    for op in [
        "job-creation",
        "user-preference-write",
        "hid-control",
        "file-mount",
        "file-search",
    ] {
        all(op, &["/Users/dev/w/proj/x"], false);
    }
    for op in ["signal", "process-info-pidinfo", "mach-priv-task-port"] {
        all(op, &["self", "same-sandbox"], true);
        all(op, &["others"], false);
    }
    all("file-ioctl", &["TIOCSTI"], false);
    all("file-ioctl", &["TIOCGWINSZ"], true);
    all("process-exec*", &DANGEROUS, false);
    all(
        "process-exec*",
        &["/usr/bin/codesign", "/usr/bin/xcrun", "/sbin/md5"],
        true,
    );
    all(
        "network-outbound",
        &[
            "192.0.2.1:443",
            "localhost:22",
            "localhost:5123",
            "/private/var/run/docker.sock",
        ],
        false,
    );
    all("network-outbound", &["localhost:51234"], true);
    all(
        "network-outbound",
        &["/private/var/run/mDNSResponder"],
        spec.dns,
    );
    all(
        "network-bind",
        &["local:*:8080", "/Users/dev/w/proj/s"],
        false,
    );
    all("network-inbound", &["local:*:8080"], false);
    let own = format!("/dev/ttys009{MARK}com.apple.sandbox.pty");
    for op in ["file-read-data", "file-write-data"] {
        all(op, &DEVICES, true);
        all(op, &[&own], true);
        all(op, &FOREIGN, false);
    }
    all(
        "file-read-data",
        &["/dev/urandom", "/etc/hosts", "/usr/lib/dyld"],
        true,
    );
    all(
        "file-write-data",
        &["/etc/hosts", "/usr/bin/true", "/private/tmp/x", "/dev/mem"],
        false,
    );
    let here = ["/private/tmp/zshA1b2"];
    all("file-write-create", &here, true);
    all("file-read-data", &here, true);
    out
}
