//! [`Survey`] and [`verify()`]: whether memory holds a sound tree, looked at while nobody changes it.

mod copies;

use std::collections::BTreeMap;

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

/// A leaf that breaks no rule.
#[derive(Clone, Copy, Debug)]
pub struct SoundLeaf<'a> {
    /// Where it is.
    pub page: GlobalAddr,
    /// The least key beyond it; none for the last leaf. The least key of it is where the leaf before ends.
    pub high: Option<u64>,
    /// Its (key, value) pairs in the order of keys.
    pub entries: &'a [(u64, u64)],
}

/// What never changes of a page, whatever splits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    level: u8,
    low: u64,
}

/// The low fence and the address of a page that a parent names.
type Child = (u64, GlobalAddr);

/// All pages of a sound tree, by a walk over it.
#[derive(Clone, Debug)]
pub struct Survey {
    shape: Shape,
    pages: BTreeMap<GlobalAddr, Place>,
}

/// Bytes of memory that a [`Survey`] takes for each page, while it is made: a map's entry and a child's.
pub const SURVEY_BYTES_A_PAGE: usize = 64;

impl Survey {
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
    /// `read` brings the words at an address (a page, or the root word); `leaf` is told each leaf, from left to
    /// right. At the end of every operation all splits are told to the level above, so that between operations no
    /// child is known by its sibling only.
    ///
    /// # Errors
    /// The outer result is `read`'s; the inner one is the first defect.
    pub fn of(
        meta: &TreeMeta,
        mut read: impl FnMut(GlobalAddr, &mut [u64]) -> Result<()>,
        mut leaf: impl FnMut(SoundLeaf<'_>),
    ) -> Result<std::result::Result<Self, Defect>> {
        let mut root = [0];
        read(meta.root_word(), &mut root)?;
        let root = GlobalAddr::from_bits(root[0]);
        let mut words = vec![0; meta.layout().words()];
        let mut shape = Shape::default();
        let mut level: Option<u8> = None;
        let mut children = vec![(0, root)];
        let mut pages = BTreeMap::new();
        let mut entries = Vec::new();
        loop {
            let mut below = Vec::new();
            for (index, (low, addr)) in children.iter().enumerate() {
                let defect = |what: String| Ok(Err(Defect { page: *addr, what }));
                if meta.check(*addr).is_err() {
                    return defect("it is not in the memory of the tree's pages".into());
                }
                if pages.contains_key(addr) {
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
                let checked = check_page(&page, expected, *low, next)
                    .and_then(|()| check_entries(&page, &mut below, &mut entries));
                if let Err(what) = checked {
                    return defect(what);
                }
                let place = Place {
                    level: expected,
                    low: *low,
                };
                pages.insert(*addr, place);
                if expected == 0 {
                    shape.keys += entries.len() as u64;
                    leaf(SoundLeaf {
                        page: *addr,
                        high: page.high(),
                        entries: &entries,
                    });
                }
            }
            shape.pages.insert(0, children.len() as u64);
            match level {
                Some(above) if above > 0 => level = Some(above - 1),
                _ => return Ok(Ok(Self { shape, pages })),
            }
            children = below;
        }
    }

    /// What the tree looks like.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }
}

/// As [`Survey::of`], where only the shape and the pairs are wanted: `entry` is told each (key, value), in the
/// order of keys.
///
/// # Errors
/// As [`Survey::of`].
pub fn verify(
    meta: &TreeMeta,
    read: impl FnMut(GlobalAddr, &mut [u64]) -> Result<()>,
    mut entry: impl FnMut(u64, u64),
) -> Result<std::result::Result<Shape, Defect>> {
    let survey = Survey::of(meta, read, |leaf| {
        leaf.entries
            .iter()
            .for_each(|(key, value)| entry(*key, *value));
    })?;
    Ok(survey.map(|survey| survey.shape))
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

/// What the page holds; its children go to `below`, or its pairs, sorted, to `pairs`.
fn check_entries(
    page: &PageView<'_>,
    below: &mut Vec<Child>,
    pairs: &mut Vec<(u64, u64)>,
) -> std::result::Result<(), String> {
    pairs.clear();
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
    pairs.extend(page.leaf().into_iter().flat_map(|leaf| leaf.entries()));
    pairs.sort_unstable();
    if let Some(twice) = pairs.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(format!("it holds key {} twice", twice[0].0));
    }
    match pairs.iter().find(|(key, _)| page.side(*key) != Side::Here) {
        Some((stray, _)) => Err(format!("key {stray} is not within its fences")),
        None => Ok(()),
    }
}
