#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ccbox::fuzz::client_hello(data));
