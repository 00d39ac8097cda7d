//! The Trace Event Format (Google, "Trace Event Format", 2016), as Perfetto and chrome://tracing read it: its events
//! as types, and what of a run they carry.

use dmtree_cluster::{Chain, GlobalAddr, Op, Verb};
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::value::RawValue;

/// What kind of event it is.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub(super) enum Phase {
    /// A slice begins.
    #[serde(rename = "B")]
    Begin,
    /// The innermost slice of the thread that has begun ends.
    #[serde(rename = "E")]
    End,
    /// A whole slice.
    #[serde(rename = "X")]
    Complete,
    /// Names something.
    #[serde(rename = "M")]
    Metadata,
}

/// An event; `A` is the type of what it carries beside.
#[derive(Debug, serde::Serialize)]
pub(super) struct Event<'a, A> {
    pub(super) ph: Phase,
    pub(super) name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cat: Option<&'static str>,
    pub(super) ts: Micros,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dur: Option<Micros>,
    pub(super) pid: u32,
    pub(super) tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) args: Option<A>,
}

/// A time in picoseconds, written as the format's microseconds, with six decimals: exact, which a float would not be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Micros(pub(super) u64);

impl Serialize for Micros {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000);
        RawValue::from_string(text)
            .map_err(S::Error::custom)?
            .serialize(serializer)
    }
}

/// A word: as text, since readers in JavaScript keep 53 bits of a number.
#[derive(Clone, Copy, Debug)]
struct Word(u64);

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:#x}", self.0))
    }
}

/// An address, in the form that messages have: `0:host+0x40`.
#[derive(Clone, Copy, Debug)]
struct Address(GlobalAddr);

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// What a metadata event says.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Naming {
    Name(String),
    SortIndex(u32),
}

/// Which lock a wait or a critical section is of, and of which page.
#[derive(Debug, serde::Serialize)]
pub(super) struct LockArgs {
    lock: Address,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<Address>,
}

impl LockArgs {
    pub(super) fn new(lock: GlobalAddr, page: Option<GlobalAddr>) -> Self {
        Self {
            lock: Address(lock),
            page: page.map(Address),
        }
    }
}

/// How a slice ended that did not end by itself, or began that goes on.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Interrupted {
    /// The run ended first.
    Unfinished(bool),
    /// It goes on: slices of a thread nest, and an outer one ends here.
    GoesOn(bool),
}

/// What a chain was.
#[derive(Debug, serde::Serialize)]
pub(super) struct ChainArgs {
    /// The target node.
    to: u16,
    verbs: Vec<VerbArgs>,
}

impl ChainArgs {
    /// Of a chain that has completed.
    pub(super) fn new(chain: &Chain) -> Self {
        Self {
            to: chain.node().map_or(0, |node| node.0),
            verbs: chain
                .verbs()
                .iter()
                .map(|verb| VerbArgs::new(verb, chain))
                .collect(),
        }
    }
}

/// What a verb was; what does not apply to it is absent.
#[derive(Debug, Default, serde::Serialize)]
struct VerbArgs {
    op: &'static str,
    addr: String,
    bytes: u32,
    /// Whether it waited for the READs and atomics before it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    fenced: bool,
    /// What a CAS expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<Word>,
    /// What a CAS, a swap or a WRITE of a word stores.
    #[serde(skip_serializing_if = "Option::is_none")]
    new: Option<Word>,
    /// The addend of an FAA.
    #[serde(skip_serializing_if = "Option::is_none")]
    add: Option<Word>,
    /// What an atomic or a READ of a word found.
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<Word>,
    /// Whether a CAS stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    swapped: Option<bool>,
}

impl VerbArgs {
    fn new(verb: &Verb, chain: &Chain) -> Self {
        let word = chain.data().get(verb.data_word()).copied().unwrap_or(0);
        let args = Self {
            op: verb.op.name(),
            addr: verb.addr.to_string(),
            bytes: verb.op.remote_bytes(),
            fenced: verb.fenced,
            ..Self::default()
        };
        let found = Some(Word(word));
        match verb.op {
            Op::Read { len: 8 } => Self { found, ..args },
            Op::Write { len: 8 } => Self { new: found, ..args },
            Op::Read { .. } | Op::Write { .. } => args,
            Op::Cas { expected, new } => Self {
                expected: Some(Word(expected)),
                new: Some(Word(new)),
                found,
                swapped: Some(word == expected),
                ..args
            },
            Op::Faa { add } => Self {
                add: Some(Word(add)),
                found,
                ..args
            },
            Op::Swap { new } => Self {
                new: Some(Word(new)),
                found,
                ..args
            },
        }
    }
}

/// The verbs of a chain in short: `3 READ`, `WRITE + CAS`.
pub(super) fn chain_name(chain: &Chain) -> String {
    let mut parts: Vec<(&str, usize)> = Vec::new();
    for verb in chain.verbs() {
        let name = verb.op.name();
        match parts.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => parts.push((name, 1)),
        }
    }
    let parts: Vec<String> = parts
        .into_iter()
        .map(|(name, count)| match count {
            1 => name.to_owned(),
            _ => format!("{count} {name}"),
        })
        .collect();
    parts.join(" + ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use dmtree_cluster::NodeId;

    #[test]
    fn times_are_exact() {
        for (ps, text) in [
            (0, "0.000000"),
            (1, "0.000001"),
            (33_000_000, "33.000000"),
            // 2^53 + 1, which a float has not.
            (9_007_199_254_740_993, "9007199254.740993"),
        ] {
            assert_eq!(serde_json::to_string(&Micros(ps)).unwrap(), text);
        }
    }

    #[test]
    fn verbs_say_what_they_did() {
        let at = |offset| GlobalAddr::new(NodeId(3), offset);
        let mut chain = Chain::new();
        chain.read(at(64), 8);
        chain.read(at(1024), 1024);
        chain.fence().cas(at(64), 5, 6);
        chain.cas(at(64), 0, 6);
        chain.faa(at(72), 1);
        chain.write_words(at(80), &[0xab]);
        let word = |slot: usize| chain.verbs()[slot].data_word();
        let (read, first, faa) = (word(0), word(2), word(4));
        chain.data_mut()[read] = 9;
        chain.data_mut()[first] = 5;
        chain.data_mut()[faa] = 41;
        let second = chain.verbs()[3].data_word();
        chain.data_mut()[second] = 6;
        assert_eq!(chain_name(&chain), "2 READ + 2 CAS + FAA + WRITE");
        let cas = |found: &str, expected: &str, swapped: bool| {
            serde_json::json!({"op": "CAS", "addr": "3:host+0x40", "bytes": 8, "expected": expected, "new": "0x6",
                "found": found, "swapped": swapped})
        };
        let mut fenced = cas("0x5", "0x5", true);
        fenced["fenced"] = true.into();
        assert_eq!(
            serde_json::to_value(ChainArgs::new(&chain)).unwrap(),
            serde_json::json!({"to": 3, "verbs": [
                {"op": "READ", "addr": "3:host+0x40", "bytes": 8, "found": "0x9"},
                {"op": "READ", "addr": "3:host+0x400", "bytes": 1024},
                fenced,
                cas("0x6", "0x0", false),
                {"op": "FAA", "addr": "3:host+0x48", "bytes": 8, "add": "0x1", "found": "0x29"},
                {"op": "WRITE", "addr": "3:host+0x50", "bytes": 8, "new": "0xab"},
            ]})
        );
    }
}
