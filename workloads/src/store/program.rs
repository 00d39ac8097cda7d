//! Which program this is.

use std::fs::File;
use std::io::{self, Read};

use sha2::{Digest, Sha256};

use super::record::hex;

/// The SHA-256 of the bytes of the program that runs, in hexadecimal digits.
pub(super) fn fingerprint() -> io::Result<String> {
    of(open()?)
}

/// On Linux what really runs, also when the file of that name has been replaced by a newer build since.
#[cfg(target_os = "linux")]
fn open() -> io::Result<File> {
    File::open("/proc/self/exe")
}

#[cfg(not(target_os = "linux"))]
fn open() -> io::Result<File> {
    File::open(std::env::current_exe()?)
}

fn of(mut bytes: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match bytes.read(&mut buffer)? {
            0 => return Ok(hex(&hash.finalize())),
            read => hash.update(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_hash_of_all_bytes() {
        // FIPS 180-4's example, and a text longer than the buffer.
        assert_eq!(
            of(&b"abc"[..]).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let million = vec![b'a'; 1_000_000];
        assert_eq!(
            of(&million[..]).unwrap(),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"
        );
        assert_eq!(fingerprint().unwrap(), fingerprint().unwrap());
    }
}
