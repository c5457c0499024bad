# What attacks use.
# begin N: what the host's git runs for the attack of this number leaves $T/PWNED-N.
begin() {
    N=$1
    CMD="touch $T/PWNED-$N"
}
# hook FILE...: makes it one.
hook() { for f; do printf '#!/bin/sh\n%s\n' "$CMD" >"$f"; chmod 755 "$f"; done; }
# evil FILE: a configuration that runs something at `git status`.
evil() { printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = "%s; false"\n' "$CMD" >"$1"; }
# worse FILE: the same for a repository of the kind that is tested.
worse() {
    evil "$1"
    case $FMT in
        *sha256) printf '\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n' >>"$1" ;;
        *reftable) printf '\trepositoryformatversion = 1\n[extensions]\n\trefstorage = reftable\n' >>"$1" ;;
    esac
}
# unnamed DIR FILE: a file made without a name in DIR gets the name FILE.
unnamed() {
    printf '#!/bin/sh\n%s\n' "$CMD" | python3 -c 'import ctypes, os, sys
made = os.open(sys.argv[1], os.O_TMPFILE | os.O_WRONLY, 0o755)
os.write(made, sys.stdin.buffer.read())
ctypes.CDLL(None).linkat(-100, b"/proc/self/fd/%d" % made, -100, sys.argv[2].encode(), 0x400)' "$1" "$2"
}
# skeleton DIR: a git directory by hand, without HEAD.
skeleton() { mkdir -p "$1/objects" "$1/refs/heads" "$1/hooks" "$1/info"; printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n' >"$1/config"; }
head() { echo 'ref: refs/heads/main' >"$1/HEAD"; }
# exchange A B: renameat2 with RENAME_EXCHANGE.
exchange() { python3 -c 'import ctypes, sys; a, b = sys.argv[1:]; sys.exit(ctypes.CDLL(None).renameat2(-100, a.encode(), -100, b.encode(), 2) != 0)' "$1" "$2"; }
# A commit, whatever else it does.
again() { g -C "$1" commit -q --allow-empty -m again; }
# guarded DIR: what git runs or believes in each git directory below, by content.
guarded() {
    find "$1" -name HEAD ! -path '*/logs/*' ! -path '*/refs/*' -printf '%h\n' | sort | while read -r d; do
        for f in "$d/config" "$d/config.worktree" "$d/commondir" "$d/info/attributes" "$d"/hooks/* "$d"/remotes/* "$d"/branches/*; do
            if [ -e "$f" ] && [ ! -d "$f" ] && [ "${f%.sample}" = "$f" ]; then stat -c '%n %a %F' "$f"; cksum <"$f"; fi
        done
        if [ -e "$d/hooks" ]; then stat -c '%n %a %F' "$d/hooks"; fi
    done
}
