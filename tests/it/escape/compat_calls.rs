//! 32-bit calls (int 0x80) and the x32 bit: other numbers for the same work, which a filter of 64-bit numbers misreads.

use super::{Site, callers, ran};

/// open(2) is 5 in the 32-bit table and 2 in both others. The path must lie below 4 GiB.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    char *low = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    strcpy(low, "made-by-int80");
    long r;
    __asm__ volatile("int $0x80" : "=a"(r) : "a"(5), "b"(low), "c"(O_CREAT | O_WRONLY), "d"(0644)
                     : "memory", "r8", "r9", "r10", "r11");
    printf("int80 %ld\n", r);
    strcpy(low, "made-by-x32");
    printf("x32 %ld\n", syscall(0x40000000 + 2, low, O_CREAT | O_WRONLY, 0644));
    puts("__done__");
    return 0;
}
"#;

#[test]
fn no_other_numbers() {
    for caller in callers() {
        let site = Site::new(caller);
        let program = site.compile("compat", SOURCE, &[]);
        let made = |name: &str| site.path(&format!("ws/{name}")).exists();

        let attack = ran(site.inside(&[&program]));
        assert!(
            attack.has("int80 -38") && attack.has("x32 -1"),
            "{attack:?}"
        );
        assert!(!made("made-by-int80") && !made("made-by-x32"));

        ran(site.outside(&[&program]));
        assert!(made("made-by-int80"), "the kernel has no 32-bit calls");
    }
}
