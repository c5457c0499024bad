//! coreutils, findutils and their like: what makes, moves, copies and removes.

use super::{Tool, loose, tool};

/// A tree with everything a copy has to keep.
const TREE: &str = "mkdir -p t/d/e; echo one >t/a; echo two >t/d/b; : >t/empty; chmod 751 t/d; chmod 640 t/a; printf '#!/bin/sh\\necho run\\n' >t/x; chmod 755 t/x
    ln t/a t/d/hard; ln -s a t/soft; ln -s ../none t/d/dangling; ln -s d t/dirlink; mkfifo t/pipe; touch 't/na me' \"t/$(printf 'a\\tb')\" t/-dash t/ünï
    touch -d 2001-02-03T04:05:06.789 t/a t/x; touch -h -d 2002-01-01 t/soft; touch -d 2003-01-01 t/d/e t/d";

#[rustfmt::skip]
pub(super) const TOOLS: &[Tool] = &[
    tool("mkdir", "", "mkdir a; mkdir -p b/c/d b/c/d; mkdir -m 700 p; mkdir 'sp ace'; mkdir a && exit 9; [ -d b/c/d ]"),
    tool("rmdir", "mkdir -p a/b/c d/f; touch d/f/x", "rmdir -p a/b/c; rmdir d || echo full; rmdir none 2>/dev/null || echo none"),
    tool("touch -d, -r, -h", "echo x >a; ln -s a l", "touch new; touch -d 2001-01-01T01:02:03.5 a dated; touch -h -d 2002-01-01 l; touch -r a ref; touch -c none; touch -a -d 2003-01-01 a"),
    tool("truncate", "echo hello >a", "truncate -s 2 a; truncate -s 10K b; truncate -s +5 b; truncate -s 0 c; truncate -r a d; truncate -c -s 3 none"),
    tool("dd", "seq 1000 >in", "dd if=in of=out bs=7 count=20 status=none; dd if=in of=out bs=1 seek=50 conv=notrunc count=9 status=none; dd if=/dev/zero of=z bs=64k count=2 conv=fsync status=none
        dd if=in of=n oflag=nofollow,append conv=notrunc bs=100 count=1 status=none; dd of=excl conv=excl status=none </dev/null; dd of=excl conv=excl status=none </dev/null 2>/dev/null || echo exists"),
    tool("cp -a", TREE, "cp -a t u; cp -al t h; rm t/d/hard; cp -as \"$PWD/t\" s"),
    tool("cp -r", "mkdir -p t/d; seq 30 >t/a; echo b >t/d/b; ln -s a t/l", "cp -r t u; cp -rL t v; cp t/a t/d w 2>/dev/null || echo no; cp --parents t/d/b u; cp -p t/a pa; cp -n t/a u/a; cp -u t/a u/a; cp -b t/a u/a; cp --remove-destination t/a u/l; cp -f t/a pa; cp --sparse=always t/a sp; cp --reflink=auto t/a rl"),
    tool("mv", "mkdir -p a/b c; echo x >a/b/f; echo y >g", "mv a d; mv g d/b/; mv d/b/f d/b/F; mv -T c d/c; mv -b d/b/g d/b/F; touch n; mv -n n d/b/F; mv d/b d/c/; mv none x 2>/dev/null || echo none; mv d d/c 2>/dev/null || echo into itself"),
    tool("mv between file systems", TREE, "mv t \"$TMPDIR/u\"; [ ! -e t ]; mv \"$TMPDIR/u\" back; mkdir $TMPDIR/n; echo n >$TMPDIR/n/f; mv $TMPDIR/n/f f"),
    tool("ln", "echo x >a; mkdir d", "ln a b; ln a d/c; ln -f a b; ln a b 2>/dev/null || echo exists; ln d e 2>/dev/null || echo directory; echo y >>d/c; cat a; rm a; ln b a"),
    tool("ln -s", "echo x >a; mkdir d", "ln -s a l; ln -s \"$PWD/a\" abs; ln -sr d/../a rel; ln -sfn d l; ln -s none dangling; ln -s a l 2>/dev/null || echo exists; echo y >abs; echo z >dangling; cat a none; ln -s loop loop; cat loop 2>/dev/null || echo loop"),
    loose("mktemp", &["made"], "mkdir made", "f=$(mktemp made/XXXX); d=$(mktemp -d made/dXXXX); echo x >$f; echo y >$d/y; stat -c %a $f $d; mv $f made/f; mv $d made/d; t=$(mktemp); echo x >$t; rm $t; mktemp -u made/XXXX >/dev/null"),
    tool("install", "echo x >a", "install a b; install -m 600 a c; install -D -m 755 a d/e/f/a; install -d -m 711 g/h; install -t g a b; install -b a c; install -C a b; install -s a s 2>/dev/null || echo no object"),
    tool("find -delete, -exec", TREE, "find t -name 'b*' -delete; find t -type f -name x -exec sh -c 'echo more >>\"$1\"' _ {} \\;; find t -type f -print0 | sort -z | xargs -0 chmod u+w; find t -depth -empty -delete; find t -newer t/a | sort | head -1 >/dev/null; find t | sort >list; find t -delete"),
    tool("rm -rf", TREE, "rm -f none; rm t/d 2>/dev/null || echo directory; rm t/-dash t/d/dangling; rm -r t/d; rm -rf t; [ ! -e t ]; mkdir k; chmod 500 k; rm -rf k"),
    tool("unlink, link", "echo x >a", "link a b; unlink a; unlink none 2>/dev/null || echo none; mkdir d; unlink d 2>/dev/null || echo directory"),
    tool("chmod", TREE, "chmod 600 t/a; chmod -R go-rwx t/d; chmod u+s,g+s t/x; chmod +t t/d; chmod --reference=t/a t/empty; chmod a-w t/ünï; [ $(id -u) = 0 ] || (echo x >t/ünï) 2>/dev/null || echo refused; umask 077; echo p >private; mkdir pd; umask 0; echo w >world; chmod 000 t/empty; stat -c %a t/empty"),
    tool("chown, chgrp", "echo x >a; mkdir d", "chown $(id -u) a; chgrp $(id -g) a d; chown -R $(id -u):$(id -g) d; chown -h $(id -u) a; chown 12345 a 2>/dev/null || true"),
    tool("tee", "", "seq 5 | tee a b >/dev/null; seq 6 9 | tee -a a | wc -l; echo x | tee >(tr x y >sub) >out; for i in $(seq 100); do [ -s sub ] && break; sleep 0.02; done; cat sub"),
    tool("sh redirections", "mkdir d; echo old >o", "echo a >o; echo b >>o; : >empty; exec 5<>rw; echo 5 >&5; exec 5>&-; set -C; (echo c >o) 2>/dev/null || echo kept; echo c >|o; set +C; cat <<X >here\nhere $((1+1))\nX\ncat <o >d/../copy; (cd d; echo up >../up); { echo 1; echo 2 >&2; } >both 2>&1; echo x >'' 2>/dev/null || echo empty name"),
    tool("sh and /dev/stdout", "", "sh -c 'echo one >/dev/stdout; echo two >/dev/stderr; echo three >>/proc/self/fd/1; cat /dev/stdin >/dev/fd/1' <<<in >out 2>err; echo x >/dev/null; head -c 3 /dev/zero >zero; echo y | tee /dev/stderr 2>err2"),
    tool("mkfifo", "", "mkfifo p -m 640; (sleep 0.1; seq 1000 >p) & cat p | tail -1; wait; (cat p >got) & echo late >p; wait; mkfifo p 2>/dev/null || echo exists; rm p; mkfifo q"),
    tool("mknod", "", "mknod p p; mknod -m 600 r p; [ -p p ]; rm r"),
    tool("flock", "", "flock lock sh -c 'echo held; flock -n lock true || echo busy'; exec 9>fd; flock 9; flock -n fd true || echo busy; flock -u 9; flock -n fd echo free; for i in $(seq 20); do flock lock sh -c 'n=$(cat n 2>/dev/null || echo 0); echo $((n+1)) >n' & done; wait; cat n"),
    tool("split, csplit", "seq 1000 >in", "split -l 100 in l.; split -b 1K -d in b.; split -n 3 --additional-suffix=.t in n; csplit -s in 300 600; cat l.* | cmp - in; split -l 300 --filter='wc -l >$FILE.count' in f."),
    tool("shred", "seq 100 >a; seq 10 >b", "shred -n 1 -z b; shred -n 1 -u a; stat -c %s b; tr -d '\\0' <b | wc -c"),
    tool("fallocate", "", "fallocate -l 100K a; stat -c %s a; fallocate -z -o 0 -l 10 a 2>/dev/null || true; fallocate -l 10 b"),
    tool("sync", "echo x >a", "sync a; sync -d a; sync -f a"),
    tool("xargs -P", "", "seq 200 | xargs -P 4 -I{} sh -c 'mkdir -p d$(({} % 7)) && echo {} >d$(({} % 7))/{}'; find . -type f | wc -l; seq 200 | xargs -P 4 -n 10 sh -c 'for i; do rm d$((i % 7))/$i; done' _; find . -type f | wc -l"),
    tool("readlink, realpath, stat", TREE, "readlink t/soft; realpath t/dirlink/b | sed 's,.*/t/,,'; stat -c '%a %s %h %F' t/a t/x t/soft t/pipe t/d; test -w t/a && test -x t/x && ! test -e none; readlink -e none || echo none"),
    tool("rsync", TREE, "rsync -aH --no-devices t/ u/; echo more >>t/a; rsync -aH --delete --inplace t/ u/; rm t/d/b; rsync -aH --delete t/ u/; rsync -rc --chmod=D700,F600 t/d/ v/; rsync -a --link-dest=\"$PWD/u\" t/ w/; rsync -a --backup --suffix=.old t/x u/x"),
    loose("script", &["typescript"], "", "script -qec 'echo on a terminal; exit 3' typescript </dev/null >/dev/null || echo $?; grep -c terminal typescript"),
    tool("cat, many at once", "", "for i in $(seq 300); do echo $i >f$i & done; wait; cat f* | sort -n | tail -1; for i in $(seq 1 2 300); do mv f$i g$i & done; wait; ls | wc -l"),
    tool("touch, long and odd names", "", "n=$(printf 'x%.0s' $(seq 255)); echo a >$n; (echo a >${n}y) 2>/dev/null || echo too long; p=.; for i in $(seq 15); do p=$p/$n; done; mkdir -p $p 2>/dev/null || echo deep; cd $n 2>/dev/null || true; touch \"$(printf 'a\\nb')\" \"$(printf 'c\\377')\" '\"' '\\' '*'; ls | wc -l"),
];
