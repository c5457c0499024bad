# What every script of this directory starts with, inside and outside alike: the same author, the same dates, no settings of the caller.
set -eu
export LC_ALL=C TZ=UTC GIT_AUTHOR_NAME=author GIT_AUTHOR_EMAIL=author@x.test GIT_COMMITTER_NAME=author GIT_COMMITTER_EMAIL=author@x.test
export GIT_AUTHOR_DATE='2026-01-02T03:04:05Z' GIT_COMMITTER_DATE='2026-01-02T03:04:05Z'
export GIT_CONFIG_NOSYSTEM=1 GIT_EDITOR=true GIT_SEQUENCE_EDITOR=true GIT_TERMINAL_PROMPT=0 GIT_ADVICE=0
unset GIT_DIR GIT_WORK_TREE

# Submodules and clones of paths.
g() { git -c protocol.file.allow=always -c gc.auto=0 -c maintenance.auto=false -c pack.threads=1 -c init.defaultBranch=main "$@"; }

# commit FILE TEXT: one line more in FILE, one commit more.
commit() { echo "$2" >>"$1"; g add -- "$1"; g commit -q -m "$2"; }

# repo NAME: two commits on main, one on topic. FMT: options of init.
repo() {
    # shellcheck disable=SC2086 # options
    g init -q ${FMT-} "$1"
    (cd "$1" && commit a one && commit b two && g checkout -q -b topic && commit c three && g checkout -q main)
}

# bare NAME FROM: a bare clone.
bare() { g clone -q --bare "$2" "$1"; }

# show DIR...: everything about repositories that does not depend on when they were made.
show() {
    for dir; do
        (
            cd "$dir"
            d=$(git rev-parse --git-dir)
            echo "== $dir"
            git for-each-ref --format='%(refname) %(objectname) %(upstream)'
            git rev-parse -q --verify HEAD || echo no HEAD
            git symbolic-ref -q HEAD || echo detached
            if [ "$(git rev-parse --is-bare-repository)" = false ]; then git status --porcelain --branch; fi
            for f in config config.worktree; do if [ -e "$d/$f" ]; then stat -c '%a %n' "$d/$f"; git config --file "$d/$f" --list; fi; done
            git fsck --strict --no-dangling 2>&1
            names "$d"
        )
    done
}

# names DIR: what stands in it, with modes; not what depends on the moment or on compression.
names() {
    (cd "$1" && find . -mindepth 1 \( -path ./objects -o -path './modules/*/objects' -o -path './worktrees/*/objects' -o -name reftable \) -prune -o \
        -printf '%P %y %m\n' | sort)
}
