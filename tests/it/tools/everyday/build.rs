//! Compilers, build tools and version control.

use super::{Tool, loose, tool};

const C: &str = "printf '#include <stdio.h>\\nint f(void); int main(void) { printf(\"%%d\\\\n\", f()); return f() - 42; }\\n' >main.c; printf 'int f(void) { return 42; }\\n' >f.c";
const REPO: &str = "git init -q r; cd r; echo a >a; git add a; git commit -q -m one; echo b >b; git add b; git commit -q -m two; git branch side HEAD~1";
const GIT: &[&str] = &[
    "r/.git/index",
    "r/.git/objects/info",
    "c/.git/index",
    "w/.git/index",
    "r/.git/worktrees/w/index",
    "r/.git/logs",
    "c/.git/logs",
    "r/.git/objects/pack",
    "c/.git/objects/pack",
];

#[rustfmt::skip]
pub(super) const TOOLS: &[Tool] = &[
    tool("gcc", C, "gcc -O1 -o p main.c f.c; ./p; gcc -c f.c; gcc -shared -fPIC -o libf.so f.c; gcc -o q main.c -L. -lf -Wl,-rpath,$PWD; ./q; gcc -E main.c >/dev/null; gcc -MMD -c main.c; cat main.d | head -1; echo 'int x = ;' >bad.c; gcc -c bad.c 2>/dev/null || echo error; rm q"),
    tool("gcc, run while it is made anew", C, "for i in $(seq 30); do gcc -o p$i main.c f.c & [ $((i % 5)) = 0 ] && wait; done; wait; for i in $(seq 30); do ./p$i >>out; done; sort -u out"),
    tool("ld, strip, objcopy", C, "gcc -g -c main.c; gcc -c f.c; ld -r -o both.o main.o f.o; strip -o small.o f.o; strip -g main.o; objcopy --only-section=.text f.o text.o; nm f.o | cut -c17-; gcc -o p both.o; ./p; strip p; ./p; rm *.o p"),
    tool("make", "printf 'all: p sub\\np: main.o f.o\\n\\tgcc -o $@ $^\\n%%.o: %%.c\\n\\tgcc -c $<\\nsub:\\n\\tmkdir -p sub && $(MAKE) -s -C sub -f ../sub.mk\\ninstall: all\\n\\tinstall -D p $(DESTDIR)/bin/p\\nclean:\\n\\trm -rf *.o p sub\\n.PHONY: all clean install sub\\n' >Makefile; printf 'x:\\n\\techo x >x\\n' >sub.mk; printf 'int f(void) { return 42; }\\n' >f.c; printf 'int f(void); int main(void) { return f() - 42; }\\n' >main.c",
        "make -s; ./p; make -s -j4; make -s DESTDIR=$PWD/out install; touch f.c; make -s -q p || echo stale; make -s -j4; make -s clean; ls; make none 2>/dev/null || echo no rule"),
    tool("m4", "printf 'define(`x\\x27, `y $1\\x27)x(1)\\ninclude(`b\\x27)' >a; echo inc >b", "m4 a >out; m4 -F frozen a >/dev/null; m4 -D z=1 - <<<z >>out; cat out"),
    tool("bison", "printf '%%%%token A\\n%%%%%%%%\\ns: A;\\n%%%%%%%%\\n' | sed 's/%%/%/g' >g.y", "bison -d -v g.y; bison -o sub.c --defines=sub.h g.y; ls"),
    tool("strace", "", "strace -f -o trace -e trace=openat,rename sh -c 'echo x >a; mv a b'; grep -c 'openat.*\"a\"' trace; rm trace; strace -c -o sum true; rm sum"),
    loose("git init, add, commit", GIT, "", "git init -q r; cd r; echo a >a; mkdir d; echo b >d/b; ln -s a l; printf '#!/bin/sh\\n' >x; chmod +x x; git add -A; git commit -q -m one; git rm -q -r d; git mv a c; git commit -q -m two; git log --format='%h %s'; git status --short; git fsck 2>&1; rm .git/hooks/*.sample"),
    loose("git branch, checkout, merge, stash", GIT, REPO, "cd r; git checkout -q side; echo c >c; git add c; git commit -q -m three; git merge -q -m merged main; echo d >>a; git stash -q; git stash pop -q; git checkout -q a; git switch -q -c new; git reset -q --hard HEAD~1; git tag v1; git branch -D side 2>/dev/null || echo no; git log --all --format=%s | sort"),
    loose("git rebase, cherry-pick, apply", GIT, REPO, "cd r; git checkout -q side; echo c >c; git add c; git commit -q -m three; git rebase -q main; git format-patch -q -1 -o ../p; git reset -q --hard HEAD~1; git am -q ../p/*; git revert --no-edit HEAD >/dev/null; git diff HEAD~1 | git apply -R; git checkout -q .; git cherry-pick main~1 2>/dev/null || git cherry-pick --abort 2>/dev/null || git reset -q; git log --format=%s"),
    loose("git gc", GIT, REPO, "cd r; for i in 1 2 3 4 5; do echo $i >n; git add n; git commit -q -m n$i; done; git gc -q --prune=now; git repack -q -a -d; git pack-refs --all; git count-objects; find .git/objects -type f | grep -vc pack || true; git fsck 2>&1"),
    loose("git clone, worktree", GIT, REPO, "git clone -q r c; cd c; echo x >x; git add x; git commit -q -m x; git push -q origin HEAD:refs/heads/pushed; cd ../r; git worktree add -q ../w side; cd ../w; echo w >w; git add w; git commit -q -m w; git -C ../r log --all --format=%s | sort; rm -f ../c/.git/hooks/*.sample; sed -i 's,/.*/ws,WS,' .git; git -C ../c remote set-url origin WS"),
    loose("cargo build, test, run", &["target", "Cargo.lock"], "mkdir src tests; printf '[package]\\nname = \"small\"\\nversion = \"0.1.0\"\\nedition = \"2021\"\\n' >Cargo.toml; printf 'pub fn f() -> u32 { 42 }\\n#[test]\\nfn t() { assert_eq!(f(), 42); }\\n' >src/lib.rs; printf 'fn main() { println!(\"{}\", small::f()); }\\n' >src/main.rs; printf '#[test]\\nfn u() { std::fs::write(\"made\", \"x\").unwrap(); }\\n' >tests/u.rs",
        "export CARGO_HOME=$TMPDIR/cargo CARGO_TERM_QUIET=true; cargo build --offline; ./target/debug/small; cargo test --offline 2>&1 | grep -c '^test result: ok'; cargo run --offline; touch src/lib.rs; cargo build --offline --release; rm -r target; cargo new --vcs none sub 2>/dev/null; cat sub/src/main.rs"),
    tool("rustc", "printf 'fn main() { println!(\"r\"); }\\n' >r.rs", "rustc -o r r.rs; ./r; rustc --crate-type rlib --crate-name l -o l.rlib - <<<'pub fn f() {}'; rm r l.rlib"),
    loose("go build, test", &["bin"], "printf 'module x.test/a\\n\\ngo 1.16\\n' >go.mod; printf 'package main\\n\\nfunc f() int { return 42 }\\n\\nfunc main() { println(f()) }\\n' >a.go; printf 'package main\\n\\nimport (\"os\"; \"testing\")\\n\\nfunc TestF(t *testing.T) { if f() != 42 { t.Fatal() }; if err := os.WriteFile(t.TempDir()+\"/x\", nil, 0600); err != nil { t.Fatal(err) } }\\n' >a_test.go",
        "export GOCACHE=$TMPDIR/go GOPATH=$TMPDIR/gopath GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off; go build -o bin/a .; ./bin/a 2>&1; go test ./... | cut -f1; gofmt -w a_test.go; go vet ./..."),
    loose("javac, java, jar", &["A.class", "a.jar"], "printf 'class A { public static void main(String[] a) throws Exception { java.nio.file.Files.writeString(java.nio.file.Path.of(\"out\"), \"x\"); java.io.File.createTempFile(\"abc\", \"d\").delete(); System.out.println(42); } }\\n' >A.java",
        "javac A.java; java A; jar cf a.jar A.class; java -cp a.jar A; java A.java"),
];
