//! [`Expected`]: every key that can be in memory after a run, in order, with what it can be there.

use std::fmt;
use std::iter::Peekable;

use super::history::{History, Register};

/// Values that a message shows of a key.
const SHOWN: usize = 4;

/// What a key can be after a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation<'a> {
    /// The key.
    pub key: u64,
    /// The value that it was loaded with, if it was.
    pub loaded: Option<u64>,
    /// Its acknowledged writes that can be the last one.
    pub acknowledged: Option<&'a Register>,
    /// What was being written to it, and not acknowledged, as the run ended.
    pub in_flight: Vec<u64>,
}

impl Expectation<'_> {
    /// Whether it can be `found`: a value, or absent.
    pub fn allows(&self, found: Option<u64>) -> bool {
        let unwritten = self.acknowledged.is_none() && found == self.loaded;
        unwritten || found.is_some_and(|value| self.values().any(|other| other == value))
    }

    /// What writes can have left.
    fn values(&self) -> impl Iterator<Item = u64> + '_ {
        let acknowledged = self.acknowledged.into_iter().flat_map(Register::writes);
        let in_flight = self.in_flight.iter().copied();
        acknowledged.map(|write| write.value).chain(in_flight)
    }
}

impl fmt::Display for Expectation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        match (self.acknowledged, self.loaded) {
            (Some(register), _) => parts.extend(register.writes().map(|write| {
                let (value, end) = (write.value, write.end);
                format!("{value} (acknowledged at {end} ns)")
            })),
            (None, Some(loaded)) => parts.push(format!("{loaded} (loaded)")),
            (None, None) => parts.push("no such key".to_owned()),
        }
        let in_flight = self.in_flight.iter();
        parts.extend(in_flight.map(|value| format!("{value} (in flight at the end)")));
        let more = match parts.len() {
            few if few <= SHOWN => String::new(),
            many => format!(" or {} others", many - SHOWN),
        };
        parts.truncate(SHOWN);
        write!(f, "{}{more}", parts.join(" or "))
    }
}

/// Brings the expectations of a run in the order of keys: those that were loaded and those that were written.
#[derive(Debug)]
pub struct Expected<'a, L: Iterator<Item = (u64, u64)>, R: Iterator<Item = (u64, &'a Register)>> {
    loaded: Peekable<L>,
    registers: Peekable<R>,
    /// The writes in flight by key, the last one first.
    open: Vec<(u64, u64)>,
}

impl History {
    /// What a run with this history can have left of a tree that was loaded with the (key, value) pairs `loaded`,
    /// which are in the order of keys.
    pub fn expected<'a, L: IntoIterator<Item = (u64, u64)>>(
        &'a self,
        loaded: L,
    ) -> Expected<'a, L::IntoIter, impl Iterator<Item = (u64, &'a Register)>> {
        let mut open: Vec<_> = self.open().collect();
        open.sort_unstable_by(|a, b| b.cmp(a));
        Expected {
            loaded: loaded.into_iter().peekable(),
            registers: self.registers().peekable(),
            open,
        }
    }
}

impl<'a, L, R> Iterator for Expected<'a, L, R>
where
    L: Iterator<Item = (u64, u64)>,
    R: Iterator<Item = (u64, &'a Register)>,
{
    type Item = Expectation<'a>;

    fn next(&mut self) -> Option<Expectation<'a>> {
        let loaded = self.loaded.peek().map(|(key, _)| *key);
        let register = self.registers.peek().map(|(key, _)| *key);
        let open = self.open.last().map(|(key, _)| *key);
        let key = [loaded, register, open].into_iter().flatten().min()?;
        let loaded = self.loaded.next_if(|(other, _)| *other == key);
        let register = self.registers.next_if(|(other, _)| *other == key);
        let mut in_flight = Vec::new();
        while let Some((_, value)) = self.open.pop_if(|(other, _)| *other == key) {
            in_flight.push(value);
        }
        Some(Expectation {
            key,
            loaded: loaded.map(|(_, value)| value),
            acknowledged: register.map(|(_, register)| register),
            in_flight,
        })
    }
}

#[cfg(test)]
mod tests {
    use dmtree_cluster::ClientId;

    use super::*;

    #[test]
    fn keys_come_in_order_with_all_that_they_can_be() {
        let mut history = History::new();
        // Keys 0 and 16 are loaded. Key 16 is written, 5 added; of 0, of 5 and of 9 a write is in flight.
        let writes = [(0, 16, 100, true), (1, 5, 101, true)];
        let open = [(2, 5, 102, false), (3, 9, 103, false), (4, 0, 104, false)];
        for (client, key, value, is_done) in writes.into_iter().chain(open) {
            history.begin(ClientId(client), key, value, 10);
            if is_done {
                history.acknowledge(ClientId(client), 20);
            }
        }
        let all: Vec<_> = history.expected([(0, 50), (16, 51)]).collect();
        let is = |key: u64, allowed: &[Option<u64>], text: &str| {
            let found = all.iter().find(|expectation| expectation.key == key);
            let expectation = found.expect("the key");
            for value in [None, Some(50), Some(51)]
                .into_iter()
                .chain((100..105).map(Some))
            {
                let is_allowed = allowed.contains(&value);
                assert_eq!(expectation.allows(value), is_allowed, "{key} {value:?}");
            }
            assert_eq!(expectation.to_string(), text);
        };
        assert!(all.iter().map(|one| one.key).eq([0, 5, 9, 16]));
        let in_flight = "(in flight at the end)";
        is(
            0,
            &[Some(50), Some(104)],
            &format!("50 (loaded) or 104 {in_flight}"),
        );
        is(
            5,
            &[Some(101), Some(102)],
            &format!("101 (acknowledged at 22 ns) or 102 {in_flight}"),
        );
        is(
            9,
            &[None, Some(103)],
            &format!("no such key or 103 {in_flight}"),
        );
        is(16, &[Some(100)], "100 (acknowledged at 20 ns)");
    }
}
