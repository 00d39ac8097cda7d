//! Whether what an index cache remembers leads to every key, by the pages that are there now.

use dmtree_cluster::GlobalAddr;

use super::{Defect, Place, Survey};
use crate::cache::CachedPage;
use crate::page::PageView;
use crate::{IndexCache, PageFormat, Result, TreeMeta};

impl Survey {
    /// Holds the copies of `cache` against the tree that was surveyed. A copy may be out of date, in one direction
    /// only: it may lead left of where a key is now, from where right siblings lead to it, and never right of it.
    /// With splits as the only change of shape (they leave the lower half where the page was, and pages are never
    /// freed, so that a page keeps its level and its low fence for ever) that says of a copy of page P, of level l:
    ///
    /// * P is in the tree, of level l, and its low fence is the copy's;
    /// * the copy's high fence is P's or beyond: splits have lowered it since;
    /// * the copy's separators ascend from its low fence and stay below its high fence;
    /// * each child is in the tree, of level l - 1, and **its low fence is the separator**: so a key that the copy
    ///   sends there is not left of the child;
    /// * in the format with a sequence word: P's is the copy's or a later one; with the same, P is as the copy says.
    ///
    /// The root that the cache remembers is in the tree, of the level that it remembers, and leftmost there.
    ///
    /// `read` is [`Survey::of`]'s. Returns how many copies were checked.
    ///
    /// # Errors
    /// The outer result is `read`'s; the inner one is the first copy that is not so, by the page that it is of.
    pub fn check_cache(
        &self,
        meta: &TreeMeta,
        cache: &IndexCache,
        mut read: impl FnMut(GlobalAddr, &mut [u64]) -> Result<()>,
    ) -> Result<std::result::Result<u64, Defect>> {
        if let Some((root, level)) = cache.root()
            && self.pages.get(&root) != Some(&Place { level, low: 0 })
        {
            let what = format!("it is remembered as a root of level {level}, and is none");
            return Ok(Err(Defect { page: root, what }));
        }
        let mut words = vec![0; meta.layout().words()];
        let pages = cache.pages();
        for (level, copy) in pages.iter() {
            let page = copy.addr();
            let checked = match self.check_copy(level, copy) {
                Ok(()) => {
                    read(page, &mut words)?;
                    check_page(meta, copy, &words)
                }
                wrong => wrong,
            };
            if let Err(why) = checked {
                let what = format!("a cached copy of it leads astray: {why}");
                return Ok(Err(Defect { page, what }));
            }
        }
        Ok(Ok(pages.len() as u64))
    }

    /// What the survey alone can tell of a copy.
    fn check_copy(&self, level: u8, copy: &CachedPage) -> std::result::Result<(), String> {
        let low = copy.low();
        match self.pages.get(&copy.addr()) {
            Some(place) if *place == (Place { level, low }) => {}
            Some(place) => {
                let Place { level: is, low: at } = place;
                return Err(format!(
                    "it says level {level} from key {low}, and the page is of level {is} from key {at}"
                ));
            }
            None => return Err("the page is not in the tree".into()),
        }
        let mut previous = None;
        for (separator, child) in copy.entries() {
            let in_order = match previous {
                None => separator == low,
                Some(previous) => previous < separator,
            };
            if !in_order || !copy.covers(separator) {
                return Err(format!("separator {separator} is out of place"));
            }
            previous = Some(separator);
            let right = Place {
                level: level - 1,
                low: separator,
            };
            match self.pages.get(&child) {
                Some(place) if *place == right => {}
                Some(Place { level: is, low: at }) => {
                    return Err(format!(
                        "keys from {separator} on are sent to page {child}, which is of level {is} from key {at}"
                    ));
                }
                None => return Err(format!("it names page {child}, which is not in the tree")),
            }
        }
        Ok(())
    }
}

/// A copy against its page as it is now.
fn check_page(
    meta: &TreeMeta,
    copy: &CachedPage,
    words: &[u64],
) -> std::result::Result<(), String> {
    let page = PageView::parse(*meta.layout(), words)?;
    let (then, now) = (copy.high(), page.high());
    let grown = match (then, now) {
        (Some(then), Some(now)) => then < now,
        (Some(_), None) => true,
        (None, _) => false,
    };
    if grown {
        return Err(format!(
            "its high fence was {then:?} and is {now:?}: pages do not grow"
        ));
    }
    if page.layout().format() != PageFormat::Sound {
        // Four bits of a version come round.
        return Ok(());
    }
    if page.seq() < copy.seq() {
        return Err(format!(
            "its sequence number was {} and is {}",
            copy.seq(),
            page.seq()
        ));
    }
    let same = page.inner().is_some_and(|inner| {
        then == now && inner.len() == copy.entries().count() && inner.entries().eq(copy.entries())
    });
    if page.seq() == copy.seq() && !same {
        return Err("it differs from the page, whose sequence number has not changed".into());
    }
    Ok(())
}
