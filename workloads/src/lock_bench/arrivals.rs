//! [`Arrivals`]: requests at given times instead of a closed loop.
//!
//! A file has a line for each request: its time from the beginning of the run, the node and the thread of the client,
//! and the lock's number (0 where it is left away):
//!
//! ```text
//! # time  node thread lock
//! 0       0    0
//! 5.5us   1    3      2
//! ```
//!
//! The requests of one client are made in the order of their times. One whose time comes while the client's last one has
//! not ended begins when that has.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::error::{Failure, Result};
use crate::settings::quantity::Time;
use crate::settings::value::Place;

/// Requests, as typed.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// `burst:LOCAL,REMOTE`: so many local clients ask for lock 0 at once, and so many remote ones a gap later, one
    /// request each. Figure 9 of the FARLock paper is `burst:12,12` with two nodes.
    Burst {
        /// Local requests.
        local: u32,
        /// Remote requests.
        remote: u32,
    },
    /// The requests of a file.
    File(Place),
}

/// Why a text says no requests.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error(
    "{0:?} is neither a file's name nor burst:LOCAL,REMOTE with the requests of either, for example burst:12,12"
)]
pub struct ArrivalsError(String);

impl FromStr for Arrivals {
    type Err = ArrivalsError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let error = || ArrivalsError(text.to_owned());
        let Some(counts) = text.strip_prefix("burst:") else {
            return text.parse().map(Self::File).map_err(|_| error());
        };
        let (local, remote) = counts.split_once(',').ok_or_else(error)?;
        let count = |text: &str| text.trim().parse::<u32>().map_err(|_| error());
        let (local, remote) = (count(local)?, count(remote)?);
        if local == 0 && remote == 0 {
            return Err(error());
        }
        Ok(Self::Burst { local, remote })
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Burst { local, remote } => write!(f, "burst:{local},{remote}"),
            Self::File(place) => place.fmt(f),
        }
    }
}

/// One request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When, in nanoseconds from the beginning of the run.
    pub at_ns: u64,
    /// For which lock.
    pub lock: u32,
}

/// The cluster that requests are made in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cluster {
    pub(super) nodes: u16,
    pub(super) threads: u16,
    /// The fewest of any run.
    pub(super) locks: u32,
}

/// The requests of each client, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    clients: Vec<Vec<Arrival>>,
}

impl Script {
    /// Of `arrivals` in `cluster`; `gap` is between the two parts of a burst.
    pub(super) fn of(arrivals: &Arrivals, gap: Time, cluster: Cluster) -> Result<Self> {
        let clients = usize::from(cluster.nodes) * usize::from(cluster.threads);
        let mut script = Self {
            clients: vec![Vec::new(); clients],
        };
        match arrivals {
            Arrivals::Burst { local, remote } => script.burst(*local, *remote, gap, cluster)?,
            Arrivals::File(place) => script.read(place.path(), cluster)?,
        }
        for requests in &mut script.clients {
            // Stable: requests of one time stay as they were written.
            requests.sort_by_key(|request| request.at_ns);
        }
        Ok(script)
    }

    fn burst(&mut self, local: u32, remote: u32, gap: Time, cluster: Cluster) -> Result<()> {
        let Cluster { nodes, threads, .. } = cluster;
        let refused = |asked: u32, whose: &str, has: u32, more: &str| {
            Failure::Usage(format!(
                "--arrivals burst:{local},{remote}: {asked} {whose} clients make a request each, and there are {has}: \
                 raise {more}"
            ))
        };
        let others = u32::from(nodes - 1);
        let remotes = others * u32::from(threads);
        if local > u32::from(threads) {
            return Err(refused(local, "local", threads.into(), "--threads"));
        }
        if remote > remotes {
            return Err(refused(remote, "remote", remotes, "--threads or --nodes"));
        }
        let locals = (0..local).map(|thread| (0, thread, 0));
        // Node by node in turn, so that few requests are not all of one node.
        let remotes = (0..remote).map(|number| (1 + number % others, number / others, gap.ns));
        for (node, thread, at_ns) in locals.chain(remotes) {
            let client = node * u32::from(threads) + thread;
            self.clients[client as usize].push(Arrival { at_ns, lock: 0 });
        }
        Ok(())
    }

    fn read(&mut self, path: &Path, cluster: Cluster) -> Result<()> {
        let name = path.display();
        let refused = |why: String| Failure::Usage(format!("--arrivals {name}{why}"));
        let text = std::fs::read_to_string(path).map_err(|error| {
            refused(format!(
                ": cannot be read: {error}; it is a file's name, or burst:LOCAL,REMOTE"
            ))
        })?;
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let (client, request) =
                request(line, cluster).map_err(|why| refused(format!(":{}: {why}", index + 1)))?;
            self.clients[client].push(request);
        }
        if self.requests() == 0 {
            return Err(refused(
                ": it has no request; write TIME NODE THREAD [LOCK] a line, for example 5us 1 0"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// The requests of client `client`, in the order of their times.
    pub fn of_client(&self, client: usize) -> &[Arrival] {
        self.clients.get(client).map_or(&[], Vec::as_slice)
    }

    /// How many there are.
    pub fn requests(&self) -> usize {
        self.clients.iter().map(Vec::len).sum()
    }

    /// When the last one is made at the earliest, in nanoseconds.
    pub fn last_ns(&self) -> u64 {
        let requests = self.clients.iter().flatten();
        requests.map(|request| request.at_ns).max().unwrap_or(0)
    }
}

/// A line's client and what it asks for.
fn request(line: &str, cluster: Cluster) -> std::result::Result<(usize, Arrival), String> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (time, node, thread, lock) = match *fields.as_slice() {
        [time, node, thread] => (time, node, thread, "0"),
        [time, node, thread, lock] => (time, node, thread, lock),
        _ => {
            return Err(format!(
                "{line:?} is no request; write TIME NODE THREAD [LOCK], for example 5us 1 0"
            ));
        }
    };
    let time: Time = time
        .parse()
        .map_err(|error| format!("{time:?} is no time of a request: {error}"))?;
    let below = |what: &str, text: &str, end: u32, flag: &str| match text.parse::<u32>() {
        Ok(number) if number < end => Ok(number),
        _ => Err(format!(
            "{what} {text:?} does not exist: they are from 0 to {}, see {flag}",
            end - 1
        )),
    };
    let node = below("node", node, cluster.nodes.into(), "--nodes")?;
    let thread = below("thread", thread, cluster.threads.into(), "--threads")?;
    let lock = below("lock", lock, cluster.locks, "--lock-count")?;
    let client = node as usize * usize::from(cluster.threads) + thread as usize;
    let at_ns = time.ns;
    Ok((client, Arrival { at_ns, lock }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Cluster = Cluster {
        nodes: 3,
        threads: 2,
        locks: 4,
    };

    fn script(text: &str, gap_ns: u64) -> Result<Script> {
        let arrivals: Arrivals = text.parse().expect("arrivals");
        Script::of(&arrivals, Time::from_ns(gap_ns), SMALL)
    }

    #[test]
    fn a_burst_is_local_then_remote_node_by_node() {
        let script = script("burst:2,3", 700).unwrap();
        let times = |client| -> Vec<u64> {
            let requests = script.of_client(client).iter();
            requests.map(|request| request.at_ns).collect()
        };
        assert_eq!(
            (0..6).map(times).collect::<Vec<_>>(),
            [vec![0], vec![0], vec![700], vec![700], vec![700], vec![]]
        );
        assert_eq!((script.requests(), script.last_ns()), (5, 700));
    }

    #[test]
    fn too_few_clients_are_told() {
        for (text, words) in [
            ("burst:3,0", &["3 local", "2", "--threads"][..]),
            ("burst:0,5", &["5 remote", "4", "--nodes"]),
        ] {
            let error = script(text, 0).unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{word} is not in {error}");
            }
        }
        for bad in [
            "",
            "burst:",
            "burst:1",
            "burst:0,0",
            "burst:a,b",
            "burst:-1,2",
        ] {
            assert!(bad.parse::<Arrivals>().is_err(), "{bad}");
        }
    }

    #[test]
    fn files_are_read_in_the_order_of_time_and_bad_lines_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("requests");
        let of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            script(&path.display().to_string(), 0)
        };
        let script = of("# a comment\n2us 1 1 3\n\n0 1 1 # first\n").unwrap();
        let requests = script.of_client(3);
        assert_eq!(requests.len(), 2);
        assert_eq!(requests[0], Arrival { at_ns: 0, lock: 0 });
        assert_eq!(
            requests[1],
            Arrival {
                at_ns: 2_000,
                lock: 3
            }
        );
        for (text, words) in [
            ("0 0 0\n1us 0\n", &[":2:", "TIME NODE THREAD [LOCK]"][..]),
            ("now 0 0\n", &[":1:", "now", "2us"]),
            ("\n0 3 0\n", &[":2:", "node \"3\"", "0 to 2", "--nodes"]),
            ("0 0 2\n", &["thread \"2\"", "--threads"]),
            ("0 0 0 4\n", &["lock \"4\"", "--lock-count"]),
            ("0 0 0 x\n", &["lock \"x\"", "--lock-count"]),
            ("# none\n", &["no request"]),
        ] {
            let error = of(text).unwrap_err().to_string();
            for word in words {
                assert!(error.contains(word), "{text:?}: {word} is not in {error}");
            }
        }
    }
}
