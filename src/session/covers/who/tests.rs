use super::*;

#[test]
fn the_second_number_is_the_mounts() {
    let status = "Name:\tcat\nTgid:\t812\nNSpid:\t812\t7\t3\nNSpgid:\t1\n";
    assert_eq!(number_inside(status), Some(7));
    assert_eq!(number_inside("NSpid:\t812\n"), None);
    assert_eq!(number_inside("Name:\tcat\n"), None);
}

#[test]
fn a_thread_of_this_namespace_is_its_process() {
    let me = i32::try_from(std::process::id()).unwrap();
    let thread = nix::unistd::gettid().as_raw();
    // On kernels before 6.11 the other way is taken, which needs a namespace in between.
    if let Some(found) = Who::new(me).translated(thread) {
        assert_eq!(found, (me, thread));
    }
}
