//! [`verify()`]: whether memory holds a sound tree, looked at while nobody changes it.

use std::collections::BTreeSet;

use dmtree_cluster::GlobalAddr;

use crate::page::{PageView, Side};
use crate::{Leaf, PageFormat, Result, TreeMeta};

/// A page that breaks the tree's rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("page {page}: {what}")]
pub struct Defect {
    /// Which page.
    pub page: GlobalAddr,
    /// What is wrong with it.
    pub what: String,
}

/// What a sound tree looks like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Keys.
    pub keys: u64,
    /// Pages by level, leaves first.
    pub pages: Vec<u64>,
}

impl Shape {
    /// Levels; a single leaf has one.
    pub fn height(&self) -> usize {
        self.pages.len()
    }
}

/// The low fence and the address of a page that a parent names.
type Child = (u64, GlobalAddr);

/// Walks the whole tree and checks it, level by level from the root:
///
/// * each page bears the tag and its level, is settled, and lies in the tree's memory;
/// * a level's pages, by their right siblings, are exactly the children that the level above names, in order;
///   their fences meet without a gap, from 0 to no upper bound, so that each key is reached from the root and
///   from the chain of leaves alike;
/// * no page is in the tree twice;
/// * separators ascend from the page's low fence and stay below its high fence;
/// * keys lie within their leaf's fences, each once.
///
/// `read` brings the words at an address (a page, or the root word); `entry` is told each (key, value), leaf by
/// leaf from left to right, in the order of slots within a leaf. At the end of every operation all splits are
/// told to the level above, so that between operations no child is known by its sibling only.
///
/// # Errors
/// The outer result is `read`'s; the inner one is the first defect.
pub fn verify(
    meta: &TreeMeta,
    mut read: impl FnMut(GlobalAddr, &mut [u64]) -> Result<()>,
    mut entry: impl FnMut(u64, u64),
) -> Result<std::result::Result<Shape, Defect>> {
    let mut root = [0];
    read(meta.root_word(), &mut root)?;
    let root = GlobalAddr::from_bits(root[0]);
    let mut words = vec![0; meta.layout().words()];
    let mut shape = Shape::default();
    let mut level: Option<u8> = None;
    let mut children = vec![(0, root)];
    let mut seen = BTreeSet::new();
    loop {
        let mut below = Vec::new();
        for (index, (low, addr)) in children.iter().enumerate() {
            let defect = |what: String| Ok(Err(Defect { page: *addr, what }));
            if meta.check(*addr).is_err() {
                return defect("it is not in the memory of the tree's pages".into());
            }
            if !seen.insert(*addr) {
                return defect("it is in the tree twice".into());
            }
            read(*addr, &mut words)?;
            let page = match PageView::parse(*meta.layout(), &words) {
                Ok(page) => page,
                Err(why) => return defect(why.into()),
            };
            // The root says what level it has; below, levels count down.
            let expected = *level.get_or_insert(page.level());
            let next = children.get(index + 1).copied();
            let checked = check_page(&page, expected, *low, next);
            if let Err(what) = checked.and_then(|()| check_entries(&page, &mut below)) {
                return defect(what);
            }
            if let Some(leaf) = page.leaf() {
                shape.keys += leaf.len() as u64;
                leaf.entries().for_each(|(key, value)| entry(key, value));
            }
        }
        shape.pages.insert(0, children.len() as u64);
        match level {
            Some(above) if above > 0 => level = Some(above - 1),
            _ => return Ok(Ok(shape)),
        }
        children = below;
    }
}

/// The header, against what the level above says of the page and of the `next` one.
fn check_page(
    page: &PageView<'_>,
    level: u8,
    low: u64,
    next: Option<Child>,
) -> std::result::Result<(), String> {
    if page.level() != level {
        return Err(format!(
            "it is of level {} where {level} belongs",
            page.level()
        ));
    }
    if !page.is_settled() {
        return Err(match page.layout().format() {
            PageFormat::Sound => format!(
                "its sequence number {} is odd: a change did not end",
                page.seq()
            ),
            PageFormat::Sherman => "its front and rear versions differ".into(),
        });
    }
    if page.low() != low {
        return Err(format!(
            "its low fence is {} where its parent says {low}",
            page.low()
        ));
    }
    let right = page.high().zip(page.right());
    if right != next {
        return Err(format!(
            "its high fence and right sibling are {right:?}, and should be {next:?}"
        ));
    }
    match right {
        Some((high, _)) if high <= low => Err(format!("its fences are {low} and {high}")),
        _ => Ok(()),
    }
}

/// What the page holds; its children go to `below`.
fn check_entries(page: &PageView<'_>, below: &mut Vec<Child>) -> std::result::Result<(), String> {
    if let Some(inner) = page.inner() {
        let entries: Vec<Child> = inner.entries().collect();
        if entries[0].0 != page.low() {
            return Err(format!(
                "its first separator is not its low fence {}",
                page.low()
            ));
        }
        if !entries.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err("its separators do not ascend".into());
        }
        let last = entries[entries.len() - 1].0;
        below.extend(entries);
        if page.side(last) != Side::Here {
            return Err(format!("separator {last} is beyond it"));
        }
        return Ok(());
    }
    let torn = |leaf: Leaf<'_>| (0..page.layout().leaf_slots()).find(|slot| !leaf.is_whole(*slot));
    if let Some(slot) = page.leaf().and_then(torn) {
        return Err(format!("the versions of the entry in slot {slot} differ"));
    }
    let entries = page.leaf().into_iter().flat_map(|leaf| leaf.entries());
    let mut keys: Vec<u64> = entries.map(|(key, _)| key).collect();
    keys.sort_unstable();
    if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("it holds key {} twice", twice[0]));
    }
    match keys.iter().find(|key| page.side(**key) != Side::Here) {
        Some(stray) => Err(format!("key {stray} is not within its fences")),
        None => Ok(()),
    }
}
