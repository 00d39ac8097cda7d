//! [`Key`]: the secret that the nodes of a cluster share.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use rand::TryRng;

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 32;

/// The secret that the nodes of a cluster share: who has it is one of them.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

/// It is nobody else's business.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Why a file is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: String,
        /// What the operating system says.
        error: io::Error,
    },
    /// Others may read it.
    #[error(
        "{path}: others than its owner may read it (mode {mode:o}); chmod 600 {path} and, if they may have, a new key"
    )]
    Readable {
        /// The file.
        path: String,
        /// Its permissions.
        mode: u32,
    },
    /// It is something else.
    #[error("{path}: it has to be {} hexadecimal digits and nothing else", KEY_BYTES * 2)]
    Contents {
        /// The file.
        path: String,
    },
}

impl Key {
    /// A new one, by the operating system's random numbers.
    ///
    /// # Errors
    /// When it has none.
    pub fn generate() -> io::Result<Self> {
        let mut key = [0; KEY_BYTES];
        rand::rngs::SysRng
            .try_fill_bytes(&mut key)
            .map_err(io::Error::other)?;
        Ok(Self(key))
    }

    /// Reads the file at `path`, which nobody but its owner may read.
    ///
    /// # Errors
    /// [`KeyError`], which names the file.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let name = || path.display().to_string();
        let failed = |error| KeyError::File {
            path: name(),
            error,
        };
        let mut file = File::open(path).map_err(failed)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
            if mode & 0o077 != 0 {
                let path = name();
                return Err(KeyError::Readable { path, mode });
            }
        }
        let mut text = String::new();
        // A key is short: of anything else no more than that is read.
        Read::by_ref(&mut file)
            .take(KEY_BYTES as u64 * 2 + 16)
            .read_to_string(&mut text)
            .map_err(failed)?;
        Self::from_hex(text.trim()).ok_or_else(|| KeyError::Contents { path: name() })
    }

    /// Writes it to a new file at `path`, which nobody but its owner may read.
    ///
    /// # Errors
    /// [`KeyError::File`], also when there is one already.
    pub fn write_new(&self, path: &Path) -> Result<(), KeyError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        let digits = self.to_hex();
        options
            .open(path)
            .and_then(|mut file| {
                writeln!(file, "{digits}")?;
                file.sync_all()
            })
            .map_err(|error| KeyError::File {
                path: path.display().to_string(),
                error,
            })
    }

    pub(super) fn of_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// As [`Key::read`] takes it. It is a secret: whoever sees it is of the cluster.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Of 64 hexadecimal digits; none of anything else.
    pub fn from_hex(text: &str) -> Option<Self> {
        let mut key = [0; KEY_BYTES];
        if text.len() != KEY_BYTES * 2 || !text.is_ascii() {
            return None;
        }
        for (index, byte) in key.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[index * 2..][..2], 16).ok()?;
        }
        Some(Self(key))
    }

    pub(super) fn bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_file_and_is_kept_from_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let key = Key::generate().unwrap();
        assert_ne!(key, Key::generate().unwrap());
        key.write_new(&path).unwrap();
        assert_eq!(Key::read(&path).unwrap(), key);
        assert!(key.write_new(&path).is_err(), "it is not written over");
        assert!(!format!("{key:?}").contains(&format!("{:02x}", key.0[0])));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
            let error = Key::read(&path).unwrap_err().to_string();
            assert!(
                error.contains("640") && error.contains("chmod 600"),
                "{error}"
            );
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        for text in ["", "12", &"g".repeat(64), &"0".repeat(65), &"é".repeat(32)] {
            std::fs::write(&path, text).unwrap();
            let error = Key::read(&path).unwrap_err().to_string();
            assert!(error.contains("64 hexadecimal digits"), "{error}");
        }
        let missing = Key::read(&directory.path().join("none")).unwrap_err();
        assert!(matches!(missing, KeyError::File { .. }));
    }
}
