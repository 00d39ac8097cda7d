//! Cache hints.

use crate::LINE_BYTES;

/// Asks the CPU to fetch the lines of `bytes`. Structures of many megabytes are accessed at random, and what is
/// accessed next is often known some work ahead. Nothing happens where the CPU has no such instruction.
#[inline]
pub fn prefetch(bytes: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    for line in bytes.chunks(LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of the x86-64 baseline; a prefetch never faults, and the address is in bounds.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, LINE_BYTES);
}
