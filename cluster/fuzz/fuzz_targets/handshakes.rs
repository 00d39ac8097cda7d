#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| dmtree_cluster::tcp::fuzz::handshakes(bytes));
