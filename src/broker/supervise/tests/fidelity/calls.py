# What a program may ask of a covered tree, one line each; run outside and inside, the lines must be the same.
import ctypes, errno, os, resource, signal, socket, stat, struct, subprocess, threading

libc = ctypes.CDLL(None, use_errno=True)
CREATE = os.O_WRONLY | os.O_CREAT


def t(name, call):
    try:
        got = call()
        if isinstance(got, int) and got > 2:
            got = oct(os.fstat(got).st_mode) if name.startswith('fd') else got
        print(name, got)
    except OSError as e:
        print(name, errno.errorcode[e.errno])


def raw(name, *args):
    if getattr(libc, name)(*args) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def mode(path):
    s = os.lstat(path)
    return oct(s.st_mode), s.st_nlink, s.st_uid == os.getuid(), s.st_size


os.mkdir('d')
d = os.open('d', os.O_RDONLY)
p = os.open('d', os.O_PATH)
t('fd dirfd', lambda: os.open('a', CREATE, 0o640, dir_fd=d))
t('fd O_PATH dirfd', lambda: os.open('b', CREATE, 0o640, dir_fd=p))
t('mkdir at', lambda: os.mkdir('m', dir_fd=p))
t('rename at', lambda: os.rename('a', 'c', src_dir_fd=d, dst_dir_fd=p))
os.mkdir('gone'); gone = os.open('gone', os.O_PATH); os.rmdir('gone')
t('removed dirfd', lambda: os.open('x', CREATE, dir_fd=gone))

# Without a name at first.
u = os.open('.', os.O_TMPFILE | os.O_RDWR, 0o604)
os.write(u, b'unnamed')
t('named by /proc', lambda: raw('linkat', -100, f'/proc/self/fd/{u}'.encode(), -100, b'n1', 0x400))
t('named again', lambda: raw('linkat', u, b'', -100, b'n2', 0x1000))
t('named over', lambda: raw('linkat', -100, f'/proc/self/fd/{u}'.encode(), -100, b'n1', 0x400))
x = os.open('.', os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600)
t('never named', lambda: raw('linkat', -100, f'/proc/self/fd/{x}'.encode(), -100, b'n3', 0x400))
t('n1', lambda: mode('n1'))
held = os.open('n1', os.O_PATH)
t('reopened', lambda: os.open(f'/proc/self/fd/{held}', os.O_WRONLY | os.O_TRUNC) > 0)
t('chmod O_PATH', lambda: os.fchmod(held, 0o600))
t('chmod /proc', lambda: os.chmod(f'/proc/self/fd/{held}', 0o600))
t('write O_PATH', lambda: os.write(held, b'x'))

# Names.
for size in (1, 254, 255, 256):
    t(f'name of {size}', lambda: os.open(b'n' * size, CREATE) > 0)
    t(f'mkdir of {size}', lambda: os.mkdir(b'm' * size))
for size in (4094, 4095, 4096, 4097):
    path = b'./' * (size // 2 - 3) + b'e' * (size - 2 * (size // 2 - 3))
    t(f'path of {size}', lambda: os.open(path, CREATE) > 0)
    t(f'unlink of {size}', lambda: os.unlink(path))
for name in (b'\xff\xfe', b'\x01\x7f', b' ', b'a\nb', b'-', b'\xc3\xa4', b'a\\b', b'...'):
    t(f'name {name}', lambda: os.open(name, CREATE | os.O_EXCL) > 0)
    t(f'moved {name}', lambda: os.rename(name, name + b'2'))
os.mkdir('dd')
for path in ('s/', 's//', 's/.', 's/..', 'dd/', 'dd/.', 'dd/./', 'n1/', 'n1/.'):
    t(f'open {path}', lambda: os.open(path, CREATE))
    t(f'mkdir {path}', lambda: os.mkdir(path))
    t(f'rmdir {path}', lambda: os.rmdir(path))
    t(f'unlink {path}', lambda: os.unlink(path))
    t(f'rename {path}', lambda: os.rename(path, 'elsewhere'))
    t(f'symlink {path}', lambda: os.symlink('x', path))

# Links.
open('end', 'w').close()
os.symlink('end', 'l0')
for n in range(1, 42):
    os.symlink(f'l{n - 1}', f'l{n}')
for n in (38, 39, 40, 41):
    t(f'{n + 1} links', lambda: os.open(f'l{n}', CREATE) > 0)
    t(f'{n + 1} links truncate', lambda: os.truncate(f'l{n}', 1))
    t(f'{n + 1} links chmod', lambda: os.chmod(f'l{n}', 0o600))
os.symlink('loop', 'loop')
t('loop', lambda: os.open('loop', CREATE))
t('loop not followed', lambda: os.open('loop', CREATE | os.O_NOFOLLOW))
t('loop removed', lambda: os.unlink('loop'))

# Modes.
for mask in (0, 0o22, 0o77, 0o777):
    os.umask(mask)
    os.close(os.open(f'u{mask}', CREATE, 0o7777)); os.mkdir(f'v{mask}', 0o7777); os.mkfifo(f'w{mask}', 0o666)
    t(f'umask {mask:o}', lambda: [mode(f'{k}{mask}') for k in 'uvw'])
os.umask(0o22)
os.mkdir('sticky'); os.chmod('sticky', 0o1777)
os.mkdir('group'); os.chmod('group', 0o2775)
for place in ('sticky', 'group'):
    os.mkdir(place + '/d'); os.close(os.open(place + '/f', CREATE, 0o666)); os.rename(place + '/f', place + '/g')
    t(place, lambda: (mode(place), mode(place + '/d'), mode(place + '/g')))
os.close(os.open('ro', CREATE, 0o444))
t('read-only', lambda: os.open('ro', os.O_WRONLY))
t('read-only truncate', lambda: os.truncate('ro', 0))
t('read-only removed', lambda: os.unlink('ro'))
os.mkdir('closed'); open('closed/f', 'w').close(); os.chmod('closed', 0o500)
for call in ("os.open('closed/n', CREATE)", "os.unlink('closed/f')", "os.rename('closed/f', 'f')", "os.mkdir('closed/d')",
             "os.link('ro2', 'closed/l')", "os.rename('d', 'closed/d')", "os.open('closed/f', os.O_WRONLY) > 0"):
    t(call, lambda: eval(call))
os.chmod('closed', 0)
for call in ("os.open('closed/n', CREATE)", "os.unlink('closed/f')", "os.rename('closed', 'shut')", "os.rmdir('shut')"):
    t(call, lambda: eval(call))
os.chmod('shut', 0o700)

# Other people's files, and file systems that take nothing.
for path in ('/proc/version', '/proc/self/none', '/sys/none', '/dev/none/x'):
    t(f'open {path}', lambda: os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW) > 0 or 'opened')
t('link to another file system', lambda: os.link('/proc/self/status', 'linked'))
t('moved from another file system', lambda: os.rename('/proc/version', 'version'))
t('immutable', lambda: os.rename('.', 'x'))

# Limits.
def by_thread(call):
    got = []
    def run():
        try: got.append(call())
        except OSError as e: got.append(e)
    thread = threading.Thread(target=run); thread.start(); thread.join()
    if isinstance(got[0], OSError): raise got[0]
    return got[0]
with open('kept', 'w') as f: f.write('content')
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
used = max(int(n) for n in os.listdir('/proc/self/fd')) + 1
resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
full = []
while True:
    try: full.append(os.dup(1))
    except OSError: break
t('no descriptor left', lambda: os.open('limit', CREATE))
t('nor for an exclusive one', lambda: os.open('limit', CREATE | os.O_EXCL))
t('nor by a thread', lambda: by_thread(lambda: os.open('limit', CREATE)))
t('nor below nothing', lambda: os.open('none/limit', CREATE))
t('nor for an old file', lambda: os.open('end', os.O_WRONLY))
t('nor to empty one', lambda: os.open('kept', os.O_WRONLY | os.O_TRUNC))
t('nor to empty or make one', lambda: os.open('kept', CREATE | os.O_TRUNC))
t('mkdir', lambda: os.mkdir('limit-d'))
os.close(full.pop(len(full) // 2))
t('one left in the middle', lambda: os.close(os.open('middle', CREATE)))
full.append(os.dup(1))
resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
t('none at all', lambda: os.open('limit', CREATE))
resource.setrlimit(resource.RLIMIT_NOFILE, (used, hard))
t('left', lambda: (os.path.lexists('limit'), os.stat('kept').st_size))
for fd in full: os.close(fd)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
signal.signal(signal.SIGXFSZ, lambda *a: print('SIGXFSZ'))
old = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, old[1]))
big = os.open('big', os.O_RDWR | os.O_CREAT)
for size in (100, 101):
    t(f'truncate {size}', lambda: os.truncate('big', size))
    t(f'ftruncate {size}', lambda: os.ftruncate(big, size))
t('write past', lambda: os.pwrite(big, b'x' * 50, 80))
resource.setrlimit(resource.RLIMIT_FSIZE, old)

# Between directories that may not be searched or changed.
for name in ('open', 'shut', 'still'): os.mkdir(name) if not os.path.exists(name) else None
for name in ('open/f', 'still/f', 'still/g'): open(name, 'w').close()
os.mkdir('still/d'); os.mkdir('open/d')
for m in (0, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600):
    os.chmod('still', m)
    for a, b in (('open/f', 'still/new'), ('still/f', 'open/new'), ('open/f', 'still/f'), ('open/d', 'still/d'), ('open/d', 'still/f'),
                 ('still/d', 'open/f'), ('still/f', 'still/g'), ('still', 'still/in'), ('open/f', 'still/d/f'), ('open/none', 'still/f')):
        t(f'{m:o} {a} to {b}', lambda: os.rename(a, b))
        t(f'{m:o} {a} linked to {b}', lambda: os.link(a, b))
        # Back to where it was.
        os.chmod('still', 0o700)
        for name in ('open/new', 'still/new', 'still/d/f'):
            if os.path.lexists(name): os.unlink(name)
        for name in ('open/f', 'still/f', 'still/g'):
            if not os.path.lexists(name): open(name, 'w').close()
        for name in ('open/d', 'still/d'):
            if not os.path.isdir(name): os.path.lexists(name) and os.unlink(name); os.mkdir(name)
        os.chmod('still', m)
os.chmod('still', 0o700)

# What a new file has from its directory, and from another thread.
os.mkdir('listed')
acl = struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *e, 0xffffffff) for e in ((1, 7), (4, 7), (0x10, 7), (0x20, 5)))
try: os.setxattr('listed', 'system.posix_acl_default', acl)
except OSError as e: print('no lists', e.errno)
os.umask(0o77)
os.close(os.open('listed/f', CREATE, 0o666)); os.mkdir('listed/d', 0o777); os.mkfifo('listed/p', 0o666)
t('listed', lambda: [mode('listed/' + n) for n in 'fdp'] + os.listxattr('listed/d'))
for mask in (0o22, 0o277, 0):
    by_thread(lambda: os.umask(mask))
    os.close(os.open(f'threads{mask}', CREATE, 0o777)); os.mkdir(f'threadsd{mask}')
    t(f'umask of a thread {mask:o}', lambda: (mode(f'threads{mask}'), mode(f'threadsd{mask}')))
os.umask(0o22)
os.chown('group', -1, os.getgid())
t('group', lambda: (os.stat('group/g').st_gid == os.stat('group').st_gid, os.stat('group/d').st_gid == os.stat('group').st_gid))

# Of other owners, or with flags, where the test could make such (see there).
for top in ('theirs', 'theirs/sticky', 'theirs/group', 'flags'):
    if not os.path.isdir(top): continue
    for name in sorted(os.listdir(top)):
        path = top + '/' + name
        for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_TRUNC, CREATE | os.O_EXCL, CREATE, os.O_TRUNC):
            t(f'{path} {flags:o}', lambda: os.close(os.open(path, flags)))
        t(f'{path} truncate', lambda: os.truncate(path, 0))
        t(f'{path} chmod', lambda: os.chmod(path, 0o666))
        t(f'{path} attribute', lambda: os.setxattr(path, 'user.a', b'x'))
        t(f'{path} linked', lambda: os.link(path, 'linked-' + name))
        t(f'{path} renamed', lambda: os.rename(path, path + '2'))
        t(f'{path} away', lambda: os.rename(path, 'away-' + name))
        t(f'{path} replaced', lambda: os.rename('kept2', path))
        t(f'{path} made in', lambda: os.mkdir(path + '/made'))
        t(f'{path} opened in', lambda: os.close(os.open(path + '/new', CREATE)))
        t(f'{path} unlink', lambda: os.unlink(path))
        t(f'{path} rmdir', lambda: os.rmdir(path))
    t(f'{top} made', lambda: os.close(os.open(top + '/own', CREATE, 0o666)))
    if os.path.lexists(top + '/own'):
        t(f'{top} own', lambda: (mode(top + '/own'), os.stat(top + '/own').st_gid))
        t(f'{top} own renamed', lambda: os.rename(top + '/own', top + '/own2'))
        t(f'{top} own removed', lambda: os.unlink(top + '/own2'))

# Threads and children.
def work(n):
    for k in range(20):
        os.close(os.open(f't{n}-{k}', CREATE)); os.rename(f't{n}-{k}', f'T{n}-{k}')
        if k % 2: os.unlink(f'T{n}-{k}')
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(subprocess.run(['sh', '-c', 'mkdir -p q/r && echo x >q/r/f && mv q/r q/s && cat q/s/f && umask 027 && touch q/t && stat -c %a q/t'],
                     stdout=subprocess.PIPE, cwd='d').stdout)
