//! Independent runs on all cores, with results that do not depend on which of them was faster.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Lets a long job find out that its result is not wanted any more.
#[derive(Clone, Copy, Debug)]
pub struct Abandon<'a> {
    /// The lowest item that failed, or `usize::MAX`.
    failed: &'a AtomicUsize,
    item: usize,
}

impl Abandon<'_> {
    /// Whether an item BEFORE this one has failed. Those behind a failure are given up, those
    /// before it go on, so that the failure that is told is always the same.
    pub fn is_asked_for(&self) -> bool {
        // Nothing but the number itself is passed on.
        self.failed.load(Ordering::Relaxed) < self.item
    }
}

/// Applies `work` to every item, `threads` at a time; results in the order of the items.
///
/// # Errors
/// That of the first item, in their order, whose work fails.
///
/// # Panics
/// When `work` does.
pub fn run_all<T, R, F, W>(items: &[T], threads: usize, work: W) -> Result<Vec<R>, F>
where
    T: Sync,
    R: Send,
    F: Send,
    W: Fn(&T, Abandon<'_>) -> Result<R, F> + Sync,
{
    let next = AtomicUsize::new(0);
    let failed = AtomicUsize::new(usize::MAX);
    let slots: Vec<Mutex<Option<Result<R, F>>>> = items.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let item = next.fetch_add(1, Ordering::Relaxed);
                    let abandon = Abandon {
                        failed: &failed,
                        item,
                    };
                    if item >= items.len() || abandon.is_asked_for() {
                        return;
                    }
                    let result = work(&items[item], abandon);
                    if result.is_err() {
                        failed.fetch_min(item, Ordering::Relaxed);
                    }
                    // A poisoned slot means a panic, which the scope passes on.
                    *slots[item].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
                }
            });
        }
    });
    // Items are begun in order and none before a failure is given up: what is empty lies behind a
    // failure.
    slots
        .into_iter()
        .map_while(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..64).collect();
        for threads in [1, 2, 7, 100] {
            let results = run_all(&items, threads, |item, _| {
                // Later items are done earlier.
                std::thread::sleep(Duration::from_micros((64 - item) * 20));
                Ok::<_, ()>(item * item)
            });
            assert_eq!(results, Ok(items.iter().map(|item| item * item).collect()));
        }
        assert_eq!(
            run_all(&[] as &[u64], 4, |item, _| Ok::<_, ()>(*item)),
            Ok(vec![])
        );
    }

    #[test]
    fn the_first_failure_in_order_is_told() {
        for _ in 0..20 {
            let items: Vec<usize> = (0..32).collect();
            let result = run_all(&items, 4, |item, _| match item {
                3 => {
                    std::thread::sleep(Duration::from_millis(3));
                    Err(3)
                }
                // Fails first, but is not the first.
                5 => Err(5),
                _ => Ok(()),
            });
            assert_eq!(result, Err(3));
        }
    }

    #[test]
    fn work_behind_a_failure_is_given_up() {
        let begun = Instant::now();
        let result: Result<Vec<()>, _> = run_all(&[0, 1], 2, |item, abandon| {
            if *item == 0 {
                std::thread::sleep(Duration::from_millis(20));
                return Err("failed");
            }
            while !abandon.is_asked_for() {
                assert!(begun.elapsed() < Duration::from_secs(20), "not given up");
                std::thread::sleep(Duration::from_millis(1));
            }
            Err("given up")
        });
        assert_eq!(result, Err("failed"));
    }
}
