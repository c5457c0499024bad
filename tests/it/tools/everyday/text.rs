//! Editors, text tools and archives.

use super::{Tool, loose, tool};

const LINES: &str = "seq 20 >n; printf 'b 2\\na 1\\nc 3\\n' >a; chmod 640 a; ln -s a l; printf 'x\\ny\\n' >m; ln m hard";
const TREE: &str = "mkdir -p t/d; echo one >t/a; seq 2000 >t/d/b; ln -s a t/l; ln t/a t/h; chmod 750 t/d; touch -d 2001-01-01 t/a t/d/b t/d; touch -h -d 2001-01-01 t/l; touch -d 2001-01-01 t";

#[rustfmt::skip]
pub(super) const TOOLS: &[Tool] = &[
    tool("sed -i", LINES, "sed -i 's/b/B/' a; sed -i.bak 1d a; sed -i --follow-symlinks 's/c/C/' l; sed -i 's/x/z/' hard; sed -s -i '$a end' n m; sed -n 'w out' a; ls -A | grep -c '^sed' || true"),
    tool("perl -i", LINES, "perl -pi -e 's/b/B/' a; perl -pi.orig -e 's/1/one/' a n; perl -ni -e 'print unless /x/' hard; perl -e 'open F, \">>\", \"a\"; print F \"end\\n\"; close F; rename \"a\", \"q\" or die; unlink \"m\" or die; utime 1e9, 1e9, \"q\"; chmod 0600, \"q\"; mkdir \"pd\"; symlink \"q\", \"ps\"; truncate \"n\", 3'"),
    tool("gawk -i inplace", LINES, "gawk -i inplace '{ print $2, $1 }' a; gawk '{ print >(NR % 2 ? \"odd\" : \"even\") }' n; gawk 'BEGIN { print \"x\" | \"sort >sorted\" }'; awk '{ print $1 >> \"first\" }' a"),
    tool("ed", LINES, "printf '1d\\n$a\\nlast\\n.\\nw\\nw other\\nq\\n' | ed -s a; printf 'r n\\n1,3m$\\nw hard\\nq\\n' | ed -s hard"),
    tool("vim -es", LINES, "vim -es -u NONE -N -c '%s/b/B/' -c 'w' -c 'w! copy' -c q a; vim -es -u NONE -N -c 'set backup backupdir=.' -c 'g/1/d' -c 'x' n; vim -es -u NONE -N -c 'normal Ghello' -c 'set undofile undodir=.' -c x hard; ls -A | grep -c swp || true"),
    loose("patch", &["n.rej"], "seq 20 >n; mkdir d; sed 's/^7$/seven/' n >new; (diff -u --label n --label n n new >p || true); printf -- '--- /dev/null\\n+++ b/d/made\\n@@ -0,0 +1 @@\\n+made\\n' >p2", "patch -s n <p; patch -s -R n <p; patch -s -b -z .was n p; patch -s -p1 <p2; patch -s n <p -N >/dev/null || echo applied before; ls"),
    tool("sort -o", "shuf -i 1-500 --random-source=/bin/sh >a; ln a b", "sort -n -o a a; sort -u -n a b -o c; sort -R --random-source=/bin/sh a >/dev/null; sort -S 32k -T \"$TMPDIR\" -n a | sort -c -n; head -3 a"),
    tool("uniq, comm, join, paste, tr, cut", "printf '1 a\\n2 b\\n2 b\\n' >x; printf '1 A\\n3 C\\n' >y", "uniq x u; comm x y >c; join x y >j; paste x y >p; tr a-z A-Z <x >t; cut -d' ' -f2 x >k; nl x >n; tac x >r; expand x >e; fold -w2 x >f"),
    tool("base64, sha256sum, cmp, diff", "seq 50 >a", "base64 a >b; base64 -d b >c; cmp a c; sha256sum a b >s; sha256sum -c s; echo 1 >>c; diff a c >d || echo differ; cksum a >k"),
    tool("tar", TREE, "tar cf t.tar --sort=name --mtime=2001-01-01 --owner=0 --group=0 t; mkdir x y; tar xf t.tar -C x; tar xpf t.tar -C y --no-same-owner; tar xf t.tar -C x --overwrite; tar xf t.tar -C x --unlink-first --recursive-unlink; tar tf t.tar | head -3; tar rf t.tar t/a; tar --delete -f t.tar t/d/b; tar cf - t | tar xf - -C x -k 2>/dev/null || echo kept; rm -r t; tar xf t.tar"),
    tool("tar with compression", TREE, "for z in z J j; do tar c${z}f t.$z --sort=name t; mkdir $z; tar xf t.$z -C $z; done; rm t.z t.J t.j"),
    tool("gzip", "seq 2000 >a; touch -d 2001-01-01 a; cp -a a b", "gzip -n a; gzip -nk b; zcat a.gz | cmp - b; gunzip a.gz; gzip -nf b; gzip -d b.gz; gzip -n a; gzip -n b; cat a.gz b.gz >ab.gz; zcat ab.gz | wc -l"),
    tool("xz", "seq 2000 >a; touch -d 2001-01-01 a; cp -a a b", "xz a; xz -k -T2 b; xzcat a.xz | cmp - b; unxz a.xz; xz -d <b.xz >c"),
    tool("bzip2", "seq 2000 >a; touch -d 2001-01-01 a; cp -a a b", "bzip2 a; bzip2 -k b; bzcat a.bz2 | cmp - b; bunzip2 a.bz2"),
    tool("zip, unzip", TREE, "zip -qrXy z.zip t/a t/d t/l; mkdir x; unzip -q z.zip -d x; unzip -qo z.zip -d x; zip -qd z.zip t/a; zip -qX z.zip t/a; unzip -tq z.zip; zip -qrm gone.zip t/d; rm *.zip"),
    tool("ar", "echo one >a.o; echo two >b.o", "ar rcsD lib.a a.o b.o; ar dD lib.a a.o; mkdir x; cd x; ar x ../lib.a; ar t ../lib.a"),
    loose("sqlite3 with a write-ahead log", &["db"], "", "sqlite3 db 'pragma journal_mode=wal; create table t(a unique, b); insert into t values(1, 2);'; sqlite3 db <<X\nbegin; insert into t values(3, 4); commit; select count(*) from t; pragma wal_checkpoint(truncate);\nX\nfor i in 1 2 3 4; do sqlite3 -cmd '.timeout 20000' db \"insert into t values(1$i, 0)\" & done; wait; sqlite3 db 'select count(*) from t; vacuum; pragma integrity_check; pragma journal_mode=delete'; ls"),
    loose("sqlite3 with a rollback journal", &["db", "copy"], "", "for m in delete truncate persist off; do sqlite3 db \"pragma journal_mode=$m; create table if not exists t(a); insert into t values('$m');\" >>modes; done; sqlite3 db 'begin; delete from t; rollback; select * from t'; sqlite3 db '.backup copy'; sqlite3 copy .dump >dump; sqlite3 db \"attach 'other' as o; create table o.x(y); insert into o.x values(1)\"; sqlite3 other 'select * from x'; rm -f db-journal other"),
    loose("openssl, ssh-keygen", &["id", "id.pub", "k"], "", "openssl genrsa -out k 2048 2>/dev/null; stat -c %a k; openssl rsa -in k -pubout -out pub 2>/dev/null; test -s pub; rm pub; ssh-keygen -q -t ed25519 -N '' -f id; stat -c %a id id.pub; openssl enc -aes-256-cbc -nosalt -k x -pbkdf2 -in /dev/null -out enc"),
    tool("curl, wget to files", "mkdir s; seq 100 >s/a; touch -d 2001-01-01 s/a", "curl -s -o c file://$PWD/s/a; curl -s -R --create-dirs -o d/e/c file://$PWD/s/a; curl -s -O file://$PWD/s/a; curl -s -C - -o c file://$PWD/s/a || true; wget -q -O w file:///none 2>/dev/null || echo no; rm w"),
    tool("mandoc, jq-like pipes", "printf '.Dd x\\n.Dt A 1\\n.Os\\n.Sh NAME\\n.Nm a\\n.Nd b\\n' >a.1", "mandoc -T ascii a.1 | col -b >a.txt; mandoc -T html a.1 >a.html; grep -c NAME a.txt"),
];
