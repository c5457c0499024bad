//! The keys a sandboxed git may change, each reviewed: none runs a program and none makes a later git on the host write
//! or send somewhere else than the repository and the remotes it names. Everything that is not in the table is refused.
//!
//! Reviewed against git-config(1) of git 2.39 to 2.47. What the review refuses inside sections that look harmless:
//!
//! | key | why not |
//! |---|---|
//! | `core.hooksPath`, `core.fsmonitor`, `core.sshCommand`, `core.editor`, `core.pager`, `core.askPass`, `core.gitProxy`, `core.alternateRefsCommand` | run programs |
//! | `core.attributesFile`, `core.excludesFile` | name files; the first selects filters and merge drivers |
//! | `core.sharedRepository` | makes the repository writable by others |
//! | `core.worktree` | moves the work tree; only where [`Place`] shows a submodule's own work tree |
//! | `remote.*.{uploadpack,receivepack,vcs,proxy,proxyAuthMethod,serverOption}` | programs, proxies, options to a server |
//! | `branch.*.mergeOptions`, `pull.{octopus,twohead}`, `merge.default` | name strategies or drivers, which are programs |
//! | `merge.tool`, `merge.guitool` | name a file that `git mergetool` sources |
//! | `merge.verifySignatures`, `push.gpgSign`, `fetch.fsck*`, `commit.gpgSign` | would lower a check the user chose |
//! | `rebase.instructionFormat` | can write an `exec` line into the to-do list (`%n`) |
//! | `gc.recentObjectsHook` | a program |
//! | `gc.repackFilter`, `gc.repackFilterTo` | move objects to a directory of choice |
//! | `push.pushOption` | gives orders to the server in the user's name |
//! | `fetch.bundleURI`, `fetch.bundleCreationToken` | download from elsewhere |
//! | `init.templateDir` | copies hooks |
//! | `submodule.*.update = !…` | a program |
//! | `extensions.worktreeConfig` | turns a second configuration file on or off; it is gated too, but may be older than the gate. Allowed where [`Place`] shows that no such file holds anything but listed keys |
//! | `remotes.*`, `url.*`, `include*`, `http.*`, `credential.*`, `alias.*`, `filter.*`, `diff.*`, `gpg.*`, … | programs and redirections |

#[cfg(test)]
mod tests;
mod value;

use super::config::Entry;
use value::Value;
use value::Value::{Bool, BoolOr, Is, OneOf};

/// Where the git directory whose file is judged lies, or unknown.
///
/// Only `core.worktree` needs it: git writes that key into the configuration of a submodule, and the value must lead from
/// `…/.git/modules/NAME` to a place below the directory around that `.git` and outside of every `.git`. The submodules of a linked work
/// tree have their git directories in the `.git` of the main one, so theirs may lead to any covered root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place<'a> {
    /// Components of the git directory's absolute path.
    pub git_dir: Option<&'a [&'a [u8]]>,
    /// Components of the absolute paths of the covered roots.
    pub roots: &'a [&'a [Vec<u8>]],
    /// No `config.worktree` of the repository holds an entry that is not listed. `git sparse-checkout` turns the extension
    /// on, and then such a file counts that nothing read before.
    pub plain_worktree_settings: bool,
}

/// Which subsections a group holds for.
#[derive(Debug, Clone, Copy)]
enum Sub {
    /// `[section]` only.
    None,
    /// `[section "anything"]`: the name is data, never a place or an option.
    Any,
    /// `[section]` and `[section "anything"]`.
    Both,
    /// `[section "name"]` where the name itself passes.
    Named(fn(&[u8]) -> bool),
}

/// Which keys of the section.
#[derive(Debug, Clone, Copy)]
enum Keys {
    /// These, each with what it may hold.
    Listed(&'static [(&'static str, Value)]),
    /// Every key of the section, with one kind of value.
    All(Value),
}

/// Keys of one section that share a reason.
#[derive(Debug, Clone, Copy)]
struct Group {
    section: &'static str,
    sub: Sub,
    keys: Keys,
}

/// Why an entry may not come or go.
pub(super) const UNLISTED: &str = "not on the list of keys that cannot run a program";
pub(super) const UNPLAIN: &str = "a value that could run a program or point elsewhere";

/// Says whether this entry may appear in, or disappear from, a configuration file.
///
/// # Errors
/// The reason, as text for people.
pub fn judge(entry: &Entry, place: &Place<'_>) -> Result<(), &'static str> {
    if entry.section == "core" && entry.subsection.is_none() && entry.key == "worktree" {
        return match (&entry.value, place.git_dir) {
            (Some(value), Some(git_dir)) if value::worktree(git_dir, place.roots, value) => Ok(()),
            _ => Err(UNPLAIN),
        };
    }
    if entry.section == "extensions" && entry.subsection.is_none() && entry.key == "worktreeconfig"
    {
        return if place.plain_worktree_settings && Bool.accepts(entry.value.as_deref()) {
            Ok(())
        } else {
            Err("it would turn on or off settings that may run programs")
        };
    }
    let mut reason = UNLISTED;
    for group in TABLE.iter().filter(|g| g.section == entry.section) {
        let sub = match (group.sub, entry.subsection.as_deref()) {
            (Sub::None | Sub::Both, None) | (Sub::Any | Sub::Both, Some(_)) => true,
            (Sub::Named(check), Some(name)) => check(name),
            (Sub::None, Some(_)) | (Sub::Any | Sub::Named(_), None) => false,
        };
        let value = match group.keys {
            Keys::All(value) => Some(value),
            Keys::Listed(keys) => keys.iter().find(|(k, _)| *k == entry.key).map(|(_, v)| *v),
        };
        match value {
            Some(value) if sub && value.accepts(entry.value.as_deref()) => return Ok(()),
            Some(_) => reason = UNPLAIN,
            None => {}
        }
    }
    Err(reason)
}

/// Keys are lower case, as the reader gives them.
const TABLE: &[Group] = &[
    // What `init` and `clone` write about the file system and the format, and how text and paths are shown. Booleans,
    // numbers and words; none names a file or a program.
    Group {
        section: "core",
        sub: Sub::None,
        keys: Keys::Listed(&[
            ("repositoryformatversion", OneOf(&["0", "1"])),
            ("filemode", Bool),
            ("bare", Bool),
            ("logallrefupdates", BoolOr(&["always"])),
            ("ignorecase", Bool),
            ("precomposeunicode", Bool),
            ("symlinks", Bool),
            ("autocrlf", BoolOr(&["input"])),
            ("eol", OneOf(&["lf", "crlf", "native"])),
            ("safecrlf", BoolOr(&["warn"])),
            ("sparsecheckout", Bool),
            ("sparsecheckoutcone", Bool),
            ("compression", Is(value::integer)),
            ("abbrev", BoolOr(&["auto", "no"])),
            ("quotepath", Bool),
        ]),
    },
    // How the repository is stored. A git that does not know an extension refuses the repository. Exact words, because
    // newer gits read a location out of `refStorage`.
    Group {
        section: "extensions",
        sub: Sub::None,
        keys: Keys::Listed(&[
            ("objectformat", OneOf(&["sha1", "sha256"])),
            ("compatobjectformat", OneOf(&["sha1", "sha256"])),
            ("refstorage", OneOf(&["files", "reftable"])),
            ("partialclone", Is(value::location)),
            ("preciousobjects", Bool),
            ("relativeworktrees", Bool),
        ]),
    },
    // What a branch follows. `remote` and `pushRemote` may be a URL, so they pass the same check as one. The last three
    // are notes that `gh` and editors keep; they are read as a branch name or a number.
    Group {
        section: "branch",
        sub: Sub::Any,
        keys: Keys::Listed(&[
            ("remote", Is(value::location)),
            ("pushremote", Is(value::location)),
            ("merge", Is(value::refname)),
            (
                "rebase",
                BoolOr(&["merges", "m", "interactive", "i", "preserve", "p"]),
            ),
            ("description", Is(value::prose)),
            ("vscode-merge-base", Is(value::refname)),
            ("gh-merge-base", Is(value::refname)),
            ("github-pr-owner-number", Is(value::word)),
        ]),
    },
    Group {
        section: "branch",
        sub: Sub::None,
        keys: Keys::Listed(&[
            ("autosetupmerge", BoolOr(&["always", "inherit", "simple"])),
            (
                "autosetuprebase",
                OneOf(&["never", "local", "remote", "always"]),
            ),
            ("sort", Is(value::sort_key)),
        ]),
    },
    // Where to fetch from and push to, and which refs. git takes the *name* of a remote without `url` for a URL, so the
    // name is checked like one. Refspecs map refs to refs; a ref is never a path outside `refs/`.
    Group {
        section: "remote",
        sub: Sub::Named(value::location),
        keys: Keys::Listed(&[
            ("url", Is(value::location)),
            ("pushurl", Is(value::location)),
            ("fetch", Is(value::refspec)),
            ("push", Is(value::refspec)),
            ("tagopt", OneOf(&["--tags", "--no-tags"])),
            ("prune", Bool),
            ("prunetags", Bool),
            ("mirror", BoolOr(&["fetch", "push"])),
            ("skipdefaultupdate", Bool),
            ("skipfetchall", Bool),
            ("promisor", Bool),
            ("partialclonefilter", Is(value::filter_spec)),
            ("followremotehead", Is(value::follow_head)),
            ("gh-resolved", Is(value::word)),
        ]),
    },
    Group {
        section: "remote",
        sub: Sub::None,
        keys: Keys::Listed(&[("pushdefault", Is(value::location))]),
    },
    // `update` takes `!command`, so only the four words. The name becomes a path below `.git/modules`.
    Group {
        section: "submodule",
        sub: Sub::Named(value::submodule_name),
        keys: Keys::Listed(&[
            ("url", Is(value::location)),
            ("active", Bool),
            ("branch", Is(value::refname)),
            ("ignore", OneOf(&["all", "dirty", "untracked", "none"])),
            ("update", OneOf(&["none", "checkout", "rebase", "merge"])),
            ("fetchrecursesubmodules", BoolOr(&["on-demand"])),
        ]),
    },
    Group {
        section: "submodule",
        sub: Sub::None,
        keys: Keys::Listed(&[
            ("active", Is(value::line)),
            ("recurse", Bool),
            ("propagatebranches", Bool),
            ("fetchjobs", Is(value::integer)),
            ("alternatelocation", OneOf(&["no", "superproject"])),
            ("alternateerrorstrategy", OneOf(&["die", "info", "ignore"])),
        ]),
    },
    // Who the author is. Not the signing key.
    Group {
        section: "user",
        sub: Sub::None,
        keys: Keys::Listed(&[("name", Is(value::line)), ("email", Is(value::line))]),
    },
    // How a pull joins: words of git itself. Not `octopus` and `twohead`, which name strategies.
    Group {
        section: "pull",
        sub: Sub::None,
        keys: Keys::Listed(&[
            ("ff", BoolOr(&["only"])),
            (
                "rebase",
                BoolOr(&["merges", "m", "interactive", "i", "preserve", "p"]),
            ),
        ]),
    },
    // What a push sends to the remote that is set anyway.
    Group {
        section: "push",
        sub: Sub::None,
        keys: Keys::Listed(&[
            ("autosetupremote", Bool),
            (
                "default",
                OneOf(&[
                    "nothing", "current", "upstream", "tracking", "simple", "matching",
                ]),
            ),
            ("followtags", Bool),
            ("recursesubmodules", BoolOr(&["check", "on-demand", "only"])),
            ("useforceifincludes", Bool),
            ("negotiate", Bool),
            ("usebitmaps", Bool),
        ]),
    },
    // How much a fetch brings and how it says so.
    Group {
        section: "fetch",
        sub: Sub::None,
        keys: Keys::Listed(&[
            ("recursesubmodules", BoolOr(&["on-demand"])),
            ("unpacklimit", Is(value::integer)),
            ("prune", Bool),
            ("prunetags", Bool),
            ("all", Bool),
            ("output", OneOf(&["full", "compact", "porcelain"])),
            (
                "negotiationalgorithm",
                OneOf(&["default", "consecutive", "skipping", "noop"]),
            ),
            ("showforcedupdates", Bool),
            ("parallel", Is(value::integer)),
            ("writecommitgraph", Bool),
        ]),
    },
    // When and how hard to pack; dates and numbers. The worst is that unreachable objects go early, and those the
    // sandbox may delete anyway.
    Group {
        section: "gc",
        sub: Sub::None,
        keys: Keys::Listed(&[
            ("aggressivedepth", Is(value::integer)),
            ("aggressivewindow", Is(value::integer)),
            ("auto", Is(value::integer)),
            ("autopacklimit", Is(value::integer)),
            ("autodetach", Bool),
            ("bigpackthreshold", Is(value::integer)),
            ("writecommitgraph", Bool),
            ("logexpiry", Is(value::date)),
            ("packrefs", BoolOr(&["notbare"])),
            ("cruftpacks", Bool),
            ("maxcruftsize", Is(value::integer)),
            ("pruneexpire", Is(value::date)),
            ("worktreepruneexpire", Is(value::date)),
            ("rerereresolved", Is(value::date)),
            ("rerereunresolved", Is(value::date)),
        ]),
    },
    Group {
        section: "gc",
        sub: Sub::Both,
        keys: Keys::Listed(&[
            ("reflogexpire", Is(value::date)),
            ("reflogexpireunreachable", Is(value::date)),
        ]),
    },
    // Hints on or off, whatever their name.
    Group {
        section: "advice",
        sub: Sub::None,
        keys: Keys::All(Bool),
    },
    // Switches and colours, whatever the slot: git parses them, so no escape sequence gets through.
    Group {
        section: "color",
        sub: Sub::Both,
        keys: Keys::All(Value::SwitchOrColor),
    },
    // How a rebase is done. Not `instructionFormat`, which writes lines of the to-do list.
    Group {
        section: "rebase",
        sub: Sub::None,
        keys: Keys::Listed(&[
            ("backend", OneOf(&["apply", "merge"])),
            ("stat", Bool),
            ("autosquash", Bool),
            ("autostash", Bool),
            ("updaterefs", Bool),
            ("missingcommitscheck", OneOf(&["ignore", "warn", "error"])),
            ("abbreviatecommands", Bool),
            ("reschedulefailedexec", Bool),
            ("forkpoint", Bool),
            (
                "rebasemerges",
                BoolOr(&["rebase-cousins", "no-rebase-cousins"]),
            ),
            ("maxlabellength", Is(value::integer)),
        ]),
    },
    // What `git status` prints. `submoduleSummary` asks git in submodules, whose configuration is gated as well.
    Group {
        section: "status",
        sub: Sub::None,
        keys: Keys::Listed(&[
            ("relativepaths", Bool),
            ("short", Bool),
            ("branch", Bool),
            ("aheadbehind", Bool),
            ("displaycommentprefix", Bool),
            ("renamelimit", Is(value::integer)),
            ("renames", BoolOr(&["copies", "copy"])),
            ("showstash", Bool),
            ("showuntrackedfiles", BoolOr(&["normal", "all"])),
            ("submodulesummary", BoolOr(&[])),
        ]),
    },
    // How a merge is done by git's own strategy. `merge.<driver>.*` has a subsection and is not here.
    Group {
        section: "merge",
        sub: Sub::None,
        keys: Keys::Listed(&[
            ("conflictstyle", OneOf(&["merge", "diff3", "zdiff3"])),
            ("defaulttoupstream", Bool),
            ("ff", BoolOr(&["only"])),
            ("branchdesc", Bool),
            ("log", Bool),
            ("suppressdest", Is(value::line)),
            ("renamelimit", Is(value::integer)),
            ("renames", Bool),
            ("directoryrenames", BoolOr(&["conflict"])),
            ("renormalize", Bool),
            ("stat", BoolOr(&["compact", "diffstat"])),
            ("autostash", Bool),
            ("verbosity", Is(value::integer)),
        ]),
    },
    Group {
        section: "init",
        sub: Sub::None,
        keys: Keys::Listed(&[("defaultbranch", Is(value::refname))]),
    },
    // Written by `git sparse-checkout` beside `core.sparseCheckout`.
    Group {
        section: "index",
        sub: Sub::None,
        keys: Keys::Listed(&[("sparse", Bool)]),
    },
];
