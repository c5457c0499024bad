//! The sandbox's own pid 1: traced, written through /proc/1/mem or process_vm_writev, it would run code without the filter.

use super::{Site, callers, python, ran};

/// Every way on each process of the list; prints the ones that worked.
const ATTACK: &str = "
import time
def attempt(name, action):
    try: action(); print('worked', name)
    except OSError: pass
def check(result):
    if result == -1: raise OSError(ctypes.get_errno(), '')
def attach(pid, request):
    check(libc.ptrace(request, pid, 0, 0))
    if request == 16: os.waitpid(pid, 0x40000000)
    else: libc.ptrace(0x4207, pid, 0, 0); os.waitpid(pid, 0x40000000)
    libc.ptrace(17, pid, 0, 0)
class iovec(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('len', ctypes.c_size_t)]
def mapping(pid):
    return int(open(f'/proc/{pid}/maps').readline().split('-')[0], 16)
def read_memory(pid):
    buffer = ctypes.create_string_buffer(8)
    local, remote = iovec(ctypes.addressof(buffer), 8), iovec(mapping(pid), 8)
    check(libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0))
def attack(name, pid):
    attempt(name + ' attach', lambda: attach(pid, 16))
    attempt(name + ' seize', lambda: attach(pid, 0x4206))
    attempt(name + ' mem', lambda: open(f'/proc/{pid}/mem', 'r+b'))
    attempt(name + ' vm', lambda: read_memory(pid))
    attempt(name + ' environ', lambda: open(f'/proc/{pid}/environ').read())
    attempt(name + ' fd', lambda: [os.readlink(f'/proc/{pid}/fd/{n}') for n in os.listdir(f'/proc/{pid}/fd')] or check(-1))
    attempt(name + ' root', lambda: os.listdir(f'/proc/{pid}/root/'))
    attempt(name + ' cwd', lambda: os.listdir(f'/proc/{pid}/cwd/'))
    attempt(name + ' exe', lambda: open(f'/proc/{pid}/exe', 'rb'))
    attempt(name + ' map_files', lambda: os.listdir(f'/proc/{pid}/map_files'))
    pidfd = os.pidfd_open(pid)
    attempt(name + ' getfd', lambda: check(call(438, pidfd, 0, 0)[0]))
child = os.fork()
if child == 0: time.sleep(30); os._exit(0)
attack('own', child)
for pid in [int(p) for p in os.listdir('/proc') if p.isdigit()]:
    if INSIDE and pid not in (os.getpid(), child): attack('other', pid)
os.kill(child, 9)
";

#[test]
fn nothing_of_the_machinery_is_reached() {
    for caller in callers() {
        let site = Site::new(caller);
        let control = ran(site.outside(&python(&format!("INSIDE = False\n{ATTACK}"))));
        let attack = ran(site.inside(&python(&format!("INSIDE = True\n{ATTACK}"))));
        for way in [
            "attach",
            "seize",
            "mem",
            "vm",
            "environ",
            "fd",
            "root",
            "cwd",
            "exe",
            "map_files",
            "getfd",
        ] {
            let own = format!("worked own {way}");
            assert!(control.has(&own), "{way}: {control:?}");
            // Debugging one's own processes goes on working.
            assert!(attack.has(&own), "{way}: {attack:?}");
        }
        assert!(!attack.stdout.contains("worked other"), "{attack:?}");
    }
}
