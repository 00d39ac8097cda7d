//! Cache hints.

use crate::LINE_BYTES;

/// Asks the CPU to fetch the lines of `values`. Structures of many megabytes are accessed at random, and what is
/// accessed next is often known some work ahead. Nothing happens where the CPU has no such instruction.
#[inline]
pub fn prefetch<T>(values: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let mut address = values.as_ptr().cast::<i8>();
        let end = address.wrapping_add(size_of_val(values));
        while address < end {
            // SAFETY: SSE is part of the x86-64 baseline; a prefetch never faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
            address = address.wrapping_add(LINE_BYTES);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, LINE_BYTES);
}
