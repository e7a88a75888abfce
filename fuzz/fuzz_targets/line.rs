#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| coalmine_fuzz::line(bytes));
