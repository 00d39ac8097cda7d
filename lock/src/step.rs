//! The futures of [`crate::side`]: what a step of a protocol is while it is waited for.
//!
//! By hand, because most steps are made at once, by a few instructions of the caller: an `async fn` around one is a
//! function of its own, with a state to look at and results to hand on.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use dmtree_cluster::{Result as ClusterResult, Slot};
use pin_project_lite::pin_project;

use crate::Result;

/// The `N` words that a step brings: [`crate::side::Steps::words`] has them after [`crate::side::Steps::run`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Brought<const N: usize> {
    /// By CPU.
    Words([u64; N]),
    /// By this verb.
    Verb(Slot),
}

/// By a load or a fetch-add.
impl From<u64> for Brought<1> {
    #[inline(always)]
    fn from(found: u64) -> Self {
        Brought::Words([found])
    }
}

/// By a compare-exchange, which finds a word in any case.
impl From<std::result::Result<u64, u64>> for Brought<1> {
    #[inline(always)]
    fn from((Ok(found) | Err(found)): std::result::Result<u64, u64>) -> Self {
        Brought::Words([found])
    }
}

impl From<[u64; 2]> for Brought<2> {
    #[inline(always)]
    fn from(found: [u64; 2]) -> Self {
        Brought::Words(found)
    }
}

pin_project! {
    /// A step that brings a `T`.
    #[project = StepProjection]
    #[must_use = "futures do nothing unless polled"]
    pub(crate) enum Step<F, T> {
        // It has to be waited for.
        Access { #[pin] access: F },
        // It is in a chain, or there is nothing to do.
        Brings { what: T },
    }
}

impl<F, T> Step<F, T> {
    #[inline(always)]
    pub(crate) fn access(access: F) -> Self {
        Step::Access { access }
    }

    #[inline(always)]
    pub(crate) fn brings(what: T) -> Self {
        Step::Brings { what }
    }
}

impl<F, U, T> Future for Step<F, T>
where
    F: Future<Output = ClusterResult<U>>,
    T: From<U> + Copy,
{
    type Output = Result<T>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        Poll::Ready(match self.project() {
            StepProjection::Access { access } => match ready!(access.poll(context)) {
                Ok(found) => Ok(found.into()),
                Err(error) => Err(error.into()),
            },
            StepProjection::Brings { what } => Ok(*what),
        })
    }
}

pin_project! {
    /// Two accesses, one after the other.
    #[must_use = "futures do nothing unless polled"]
    pub(crate) struct InTurn<F, U> {
        #[pin]
        first: F,
        #[pin]
        second: F,
        // What the first one found, once it is over.
        found: Option<U>,
    }
}

impl<F, U> InTurn<F, U> {
    #[inline(always)]
    pub(crate) fn new(first: F, second: F) -> Self {
        Self {
            first,
            second,
            found: None,
        }
    }
}

impl<F, U> Future for InTurn<F, U>
where
    F: Future<Output = ClusterResult<U>>,
    U: Copy,
{
    type Output = ClusterResult<[U; 2]>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ClusterResult<[U; 2]>> {
        let this = self.project();
        let first = match *this.found {
            Some(found) => found,
            None => match ready!(this.first.poll(context)) {
                Ok(found) => *this.found.insert(found),
                Err(error) => return Poll::Ready(Err(error)),
            },
        };
        Poll::Ready(match ready!(this.second.poll(context)) {
            Ok(second) => Ok([first, second]),
            Err(error) => Err(error),
        })
    }
}
