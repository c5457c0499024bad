#!/bin/bash
# What only a Mac can tell: tries the points that the profile and the run on macOS rest on, and prints one line for each.
#
#   packaging/macos-check.sh [--ccbox FILE] [--sandbox-exec FILE] [--log FILE]
#
#   ok      NN what: seen        as ccbox needs it
#   FAIL    NN what: seen        a rule does not hold, or something does not work; worth a report with all lines
#   told    NN what: seen        a fact that ccbox does not depend on
#   skipped NN what: why         the tool for it is missing here
#
# Ends with 0 if nothing failed, else with 1. Needs no root, writes to a fresh directory in $TMPDIR only, and asks no network. Every
# refusal is tried next to the same call outside of the sandbox, so that a call that never works proves nothing.
# For the shell that macOS has (bash 3.2).
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
ccbox='' sandbox_exec=/usr/bin/sandbox-exec log=/usr/bin/log
usage() { sed -n 's/^#   packaging/usage: packaging/p' "${BASH_SOURCE[0]}"; exit "$1"; }
while [ $# -gt 0 ]; do
    case $1 in
    --ccbox | --sandbox-exec | --log) [ $# -gt 1 ] || usage 2 >&2 ;;
    esac
    case $1 in
    --ccbox) ccbox=$2; shift ;;
    --sandbox-exec) sandbox_exec=$2; shift ;;
    --log) log=$2; shift ;;
    -h | --help) usage 0 ;;
    *) usage 2 >&2 ;;
    esac
    shift
done
if [ -z "$ccbox" ]; then
    for file in "$here/target/release/ccbox" "$here/target/debug/ccbox" "$(command -v ccbox)"; do
        if [ -x "$file" ]; then ccbox=$file; break; fi
    done
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/ccbox-check.XXXXXX") || exit 2
work=$(cd "$work" && pwd -P)
trap 'chmod -R u+rwx "$work"; rm -rf "$work"' EXIT
failed=0
tag=ccbox-$(od -An -N8 -tx1 /dev/urandom | tr -d ' \n')

# ---- how it is tried -------------------------------------------------------------------------------------------------

line() { # WORD NUMBER WHAT SEEN
    [ "$1" = FAIL ] && failed=1
    printf '%-7s %s %s: %s\n' "$1" "$2" "$3" "$(printf '%s' "$4" | tr '\n' ' ')"
}
sb() { # RULES COMMAND...: runs under a profile that allows the rest
    local rules=$1
    shift
    "$sandbox_exec" -p "(version 1)(allow default)$rules" -- "$@"
}
works() { "$@" >/dev/null 2>&1; }
# NUMBER WHAT RULES SETUP ACT: ACT works without the rules, and with them it does not. Both start from what SETUP makes.
refused() {
    local dir=$work/$1
    fresh "$dir" "$4"
    if ! works sh -c "cd '$dir' && $5"; then line skipped "$1" "$2" "the call does not work outside either"; return; fi
    fresh "$dir" "$4"
    if works sb "$3" sh -c "cd '$dir' && $5"; then line FAIL "$1" "$2" "it was not refused"; else line ok "$1" "$2" "refused"; fi
}
# The same, the other way: with the rules it still works.
allowed() {
    local dir=$work/$1
    fresh "$dir" "$4"
    if works sb "$3" sh -c "cd '$dir' && $5"; then line ok "$1" "$2" "works"; else line FAIL "$1" "$2" "it was refused"; fi
}
fresh() { rm -rf "$1"; mkdir -p "$1" && (cd "$1" && sh -c "$2") >/dev/null 2>&1; }
seconds() { perl -MTime::HiRes=time -e 'my $t = time; system @ARGV; printf "%.3f s", time - $t' "$@" 2>/dev/null; }

# ---- the points ------------------------------------------------------------------------------------------------------

line told 00 system "$(sw_vers -productVersion 2>/dev/null || uname -sr), $(uname -m), ccbox ${ccbox:-not found}"

# Every operation and constant of the profiles.
compiles() { # NUMBER WHAT OPTIONS...
    local number=$1 what=$2 said
    shift 2
    if [ -z "$ccbox" ]; then line skipped "$number" "$what" "no ccbox"; return; fi
    if ! (cd "$work" && "$ccbox" profile --format seatbelt "$@") >"$work/profile.sb" 2>"$work/said"; then
        line FAIL "$number" "$what" "$(cat "$work/said")"; return
    fi
    if said=$("$sandbox_exec" -f "$work/profile.sb" -- /usr/bin/true 2>&1); then
        line ok "$number" "$what" "applied, $(wc -c <"$work/profile.sb" | tr -d ' ') bytes, $(seconds "$sandbox_exec" -f "$work/profile.sb" -- /usr/bin/true)"
    else
        line FAIL "$number" "$what" "$said"
    fi
}
compiles 01 "profile dev compiles"
compiles 02 "profile dispatch compiles" -p 'mode = "chat"' --rw .
compiles 03 "profile terminal compiles" --profile terminal
compiles 04 "profile strict compiles" --profile strict --rw .

# Hard links and clones: which end is looked at.
secret="(deny file-read* file-link file-clone (subpath \"$work/05/s\"))"
refused 05 "hard link of a hidden file" "$secret" 'mkdir s d && echo x >s/f' 'ln s/f d/l && cat d/l'
refused 06 "clone of a hidden file" "(deny file-read* file-link file-clone (subpath \"$work/06/s\"))" 'mkdir s d && echo x >s/f' 'cp -c s/f d/l 2>/dev/null && cat d/l'
refused 07 "hard link of a file that is not written" "(deny file-write* file-link (subpath \"$work/07/s\"))" 'mkdir s d && echo x >s/f' 'ln s/f d/l && echo y >d/l'

# Renames.
pin="(deny file-write-unlink (subpath \"$work/08/p/f\") (literal \"$work/08/p\"))"
refused 08 "rename of a pinned directory" "$pin" 'mkdir p && echo x >p/f' 'mv p q'
refused 09 "rename over a pinned directory" "(deny file-write-unlink file-write-create (literal \"$work/09/p\"))" 'mkdir p q' 'perl -e "rename q(q), q(p) or exit 1"'
refused 10 "rename over a pinned file" "(deny file-write* file-write-unlink (subpath \"$work/10/f\"))" 'echo x >f && echo y >g' 'mv -f g f'
swap='import ctypes,os,sys
c=ctypes.CDLL(None)
sys.exit(c.renamex_np(b"a",b"f",2) != 0)'
printf '%s\n' "$swap" >"$work/swap.py"
if xcrun --find python3 >/dev/null 2>&1; then
    refused 11 "swap of a protected file (renamex_np)" "(deny file-write* file-write-unlink (subpath \"$work/11/f\"))" 'echo x >f && echo y >a' "python3 '$work/swap.py'"
    refused 12 "swap of a pinned directory (renamex_np)" "(deny file-write-unlink file-write-create (literal \"$work/12/f\"))" 'mkdir f a' "python3 '$work/swap.py'"
else
    line skipped 11 "swap of a protected file (renamex_np)" "no python3 of the developer tools"
    line skipped 12 "swap of a pinned directory (renamex_np)" "no python3 of the developer tools"
fi

# Other names of the same path.
refused 13 "read by way of the data volume" "(deny file-read* (subpath \"$work/13/s\") (subpath \"/System/Volumes/Data$work/13/s\"))" 'mkdir s && echo x >s/f' "cat '/System/Volumes/Data$work/13/s/f'"
refused 14 "creation by way of the data volume" "(deny file-write* (subpath \"$work/14/s\") (subpath \"/System/Volumes/Data$work/14/s\"))" 'mkdir s' "echo x >'/System/Volumes/Data$work/14/s/f'"
refused 15 "expression, another case" "(deny file-write* (regex \"/[.][eE][nN][vV](/.*)?\$\"))" 'true' 'echo x >.ENV'
refused 16 "path, another case" "(deny file-read* (subpath \"$work/16/s\"))" 'mkdir s && echo x >s/f' 'cat S/F'
# shellcheck disable=SC2016 # expanded inside
refused 17 "name with an accent, decomposed" "(deny file-write* (subpath \"$work/17/$(printf 'caf\303\251')\"))" 'true' 'echo x >"$(printf "cafe\314\201")"'
refused 18 "subpath on a plain file" "(deny file-write* (subpath \"$work/18/f\"))" 'echo x >f' 'echo y >f'

# What works.
allowed 19 "a grant inside a refusal" "(deny file-write*)(allow file-write* (literal \"/dev/null\") (subpath \"$work/19\"))(deny file-write* (subpath \"$work/19/ro\"))" 'mkdir ro' 'echo x >f && mv f g && rm g && mkdir d && rmdir d'
allowed 20 "signals in the same sandbox" "(deny signal)(allow signal (target same-sandbox))" 'true' 'sleep 5 & kill $! && wait $!; test $? -gt 128'
sleep 30 &
other=$!
if works sb "(deny signal)(allow signal (target same-sandbox))" kill -0 "$other"; then line FAIL 21 "signals outside" "not refused"; else line ok 21 "signals outside" "refused"; fi
kill "$other" 2>/dev/null
refused 22 "program by a link to it" "(deny process-exec* (subpath \"$work/22/w\"))" 'mkdir w && cp /bin/echo w/e && ln -s w/e l' './l'
refused 23 "script with an interpreter" "(deny process-exec* (subpath \"$work/23/w\"))" 'mkdir w && printf "#!/bin/sh\n" >w/s && chmod +x w/s' 'w/s'
allowed 24 "script run by a shell" "(deny process-exec* (subpath \"$work/24/w\"))" 'mkdir w && echo true >w/s' 'sh w/s'

# The program itself.
code() { "$@" >/dev/null 2>"$work/said"; printf '%s, "%s"' $? "$(head -n 1 "$work/said")"; }
exits() { # NUMBER WHAT CODE COMMAND...
    local number=$1 what=$2 wanted=$3 seen
    shift 3
    seen=$(code "$@")
    case $seen in "$wanted,"*) line ok "$number" "$what" "$seen" ;; *) line FAIL "$number" "$what" "$seen" ;; esac
}
exits 25 "exit code of usage" 64 "$sandbox_exec"
exits 26 "exit code of a profile that is none" 65 "$sandbox_exec" -p '(version 1)(allow frobnicate)' -- /usr/bin/true
exits 27 "exit code inside of another sandbox" 71 "$sandbox_exec" -p '(version 1)(allow default)(deny file-write* (literal "/ccbox-probe"))' -- \
    "$sandbox_exec" -p '(version 1)(allow default)(deny file-write* (literal "/ccbox-probe"))' -- /usr/bin/true
exits 28 "exit code of the command" 7 "$sandbox_exec" -p '(version 1)(allow default)' -- sh -c 'exit 7'
if works "$sandbox_exec" -p '(version 1)(allow default)' -- true; then line ok 29 "two dashes before the command" "taken"; else line FAIL 29 "two dashes before the command" "not taken"; fi

# Size.
many() { # COUNT: a profile with so many paths
    printf '(version 1)(allow default)(deny file-write*'
    local n=0
    while [ $n -lt "$1" ]; do printf ' (subpath "/Users/nobody/some/where/in/a/project/%04d") (literal "/Users/nobody/some/where/in/a/project/%04d")' $n $n; n=$((n + 1)); done
    printf ')'
}
many 2000 >"$work/many.sb"
if works "$sandbox_exec" -f "$work/many.sb" -- /usr/bin/true; then
    line told 30 "profile of 2,000 paths" "$(seconds "$sandbox_exec" -f "$work/many.sb" -- /usr/bin/true)"
else
    line FAIL 30 "profile of 2,000 paths" "not applied"
fi
line told 31 "a small profile" "$(seconds "$sandbox_exec" -p '(version 1)(allow default)' -- /usr/bin/true)"

# The log. Tagged refusals of three kinds, then their messages as they are.
sb "(deny file-write* (subpath \"$work/32\") (with message \"$tag\"))(deny network* (with message \"$tag\"))" \
    sh -c "mkdir '$work/32'; nc -z -w 1 192.0.2.7 443; nc -l 127.0.0.1 0" >/dev/null 2>&1 &
tried=$!
sleep 1
kill "$tried" 2>/dev/null
found=$("$log" show --last 1m --style ndjson --predicate "eventMessage CONTAINS \"$tag\"" 2>/dev/null | grep -c "$tag")
if [ "${found:-0}" -gt 0 ]; then line ok 32 "log lines with the tag" "$found"; else line FAIL 32 "log lines with the tag" "none"; fi
shape=$("$log" show --last 1m --style ndjson --predicate "eventMessage CONTAINS \"$tag\"" 2>/dev/null | sed -n 's/.*"eventMessage" *: *"\([^"]*\)".*/\1/p' | sed "s|$work|W|g" | sort -u | head -n 6 | tr '\n' '|')
line told 33 "log lines, their shape" "${shape:-none}"
by=$("$log" show --last 1m --style ndjson --predicate "eventMessage CONTAINS \"$tag\" AND processID == 0" 2>/dev/null | grep -c "$tag")
if [ "${by:-0}" -gt 0 ]; then line ok 34 "log lines are the kernel's" "$by"; else line FAIL 34 "log lines are the kernel's" "none has process 0"; fi

# ccbox.
run() { (cd "$work" && "$ccbox" run "$@") 2>"$work/said"; }
ours() { # NUMBER WHAT WANTED SEEN
    # shellcheck disable=SC2254 # a pattern
    case $4 in $3) line ok "$1" "$2" "$4" ;; *) line FAIL "$1" "$2" "$4; $(head -n 3 "$work/said")" ;; esac
}
if [ -z "$ccbox" ]; then
    for number in 35 36 37 38 39 40 41; do line skipped $number "ccbox" "not found"; done
else
    said=$(run -- echo ran)
    ours 35 "ccbox run" "ran 0" "$said $?"
    run -- sh -c 'exit 9'
    ours 36 "exit code through ccbox" 9 $?
    mkdir -p "$work/w"
    run -- sh -c 'echo x >/usr/local/ccbox-check' >/dev/null
    ours 37 "a refusal is told" "*denied file-write-create*" "$(grep denied "$work/said" | head -n 1)"
    (cd "$work" && exec "$ccbox" run -- sh -c 'echo $$ >pid; sleep 300 & echo $! >child; wait') 2>/dev/null &
    outer=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do [ -s "$work/child" ] || sleep 0.3; done
    kill -KILL "$outer" 2>/dev/null
    sleep 0.5
    left=''
    [ -s "$work/child" ] || left=' nothing: it did not start, so none is'
    for file in pid child; do kill -0 "$(cat "$work/$file" 2>/dev/null || echo 0x)" 2>/dev/null && left="$left $file"; done
    ours 38 "ccbox killed ends what it ran" "none left" "${left:-none} left"
    run -- sh -c 'sleep 301 & echo $! >late' >/dev/null
    if [ ! -s "$work/late" ]; then line FAIL 39 "what the command leaves ends with it" "it did not start"
    elif kill -0 "$(cat "$work/late")" 2>/dev/null; then line FAIL 39 "what the command leaves ends with it" "it goes on"; else line ok 39 "what the command leaves ends with it" "gone"; fi
    # shellcheck disable=SC2016 # expanded inside
    ours 40 "temporary files" "*/ccbox-*" "$(run -- sh -c 'echo $TMPDIR')"
    # shellcheck disable=SC2016 # expanded inside
    ours 41 "ccbox inside of ccbox" "inner" "$(run -- "$ccbox" run -- echo inner)"
fi

# The way to the proxies, on both halves of the loopback.
port=$((20000 + $$ % 20000))
for host in 127.0.0.1 ::1; do
    number=42 rules="(deny network*)(allow network-outbound (remote ip \"localhost:$port\"))"
    [ $host = 127.0.0.1 ] || number=43
    nc -l $host $port >/dev/null 2>&1 &
    listener=$!
    sleep 0.5
    if works sb "$rules" nc -z -w 2 $host $port; then line ok $number "the filter localhost and $host" "reached"
    elif works nc -z -w 2 $host $port; then line FAIL $number "the filter localhost and $host" "refused"
    else line skipped $number "the filter localhost and $host" "nc does not listen"; fi
    kill $listener 2>/dev/null
done
exit $failed
