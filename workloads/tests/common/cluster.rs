//! A cluster of `dmtree` processes.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{dmtree, stderr};

/// Far longer than anything here takes; what hangs fails by it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// For what is broken in the middle.
pub(crate) const LONG: &str =
    "threads = 1\nkeys = \"20k\"\nseconds = \"300s\"\nwarmup = \"100ms\"\n";

/// A directory with a cluster's key and config file.
pub(crate) struct Bed {
    directory: TempDir,
    nodes: u16,
}

/// A node's process.
pub(crate) struct Process {
    pub(crate) child: Child,
    name: String,
    directory: PathBuf,
}

impl Bed {
    /// Node 0 has the roles `first`, all others are compute servers.
    pub(crate) fn new(nodes: u16, first: &str, options: &str) -> Self {
        let ports: Vec<TcpListener> = (0..nodes)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let addresses = ports.iter().map(|port| port.local_addr().unwrap());
        Self::at(addresses, first, options)
    }

    /// The same at given addresses.
    pub(crate) fn at(
        addresses: impl IntoIterator<Item: std::fmt::Display>,
        first: &str,
        options: &str,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let made = dmtree(directory.path(), &["key", "cluster.key"]);
        assert!(made.status.success(), "{}", stderr(&made));
        let mut nodes = 0;
        let mut text = format!("{options}\n[cluster]\nkey = \"cluster.key\"\n");
        for (node, address) in addresses.into_iter().enumerate() {
            nodes += 1;
            let roles = if node == 0 { first } else { "\"compute\"" };
            text += &format!("[[cluster.nodes]]\naddress = \"{address}\"\nroles = [{roles}]\n");
        }
        fs::write(directory.path().join("cluster.toml"), text).unwrap();
        Self { directory, nodes }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Begins `dmtree ROLE --node NODE` with more arguments.
    pub(crate) fn begin(&self, role: &str, node: u16, args: &[&str]) -> Process {
        let program = Command::new(env!("CARGO_BIN_EXE_dmtree"));
        self.begin_by(program, role, node, args)
    }

    /// The same by a program that runs others, as `ip netns exec NAME dmtree`.
    pub(crate) fn begin_by(
        &self,
        mut program: Command,
        role: &str,
        node: u16,
        args: &[&str],
    ) -> Process {
        let name = format!("{role}-{node}");
        let output = |kind: &str| File::create(self.path().join(format!("{name}.{kind}"))).unwrap();
        let child = program
            .args([
                role,
                "--config",
                "cluster.toml",
                "--node",
                &node.to_string(),
            ])
            .args(args)
            .current_dir(self.path())
            .env("RUST_LOG", "info")
            .stdin(Stdio::null())
            .stdout(output("out"))
            .stderr(output("err"))
            .spawn()
            .unwrap();
        Process {
            child,
            name,
            directory: self.path().to_owned(),
        }
    }

    /// All of them by `dmtree node`, with the same arguments.
    pub(crate) fn begin_all(&self, args: &[&str]) -> Vec<Process> {
        (0..self.nodes)
            .map(|node| self.begin("node", node, args))
            .collect()
    }
}

impl Process {
    pub(crate) fn text(&self, kind: &str) -> String {
        fs::read_to_string(self.directory.join(format!("{}.{kind}", self.name))).unwrap()
    }

    /// Its exit status and standard error, once it has ended.
    #[track_caller]
    pub(crate) fn end(&mut self) -> (Option<i32>, String) {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status.code(), self.text("err"));
            }
            if begun.elapsed() > PATIENCE {
                let _ = self.child.kill();
                panic!("{} hangs: {}", self.name, self.text("err"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Until it has said `words`.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, words: &str) {
        let begun = Instant::now();
        while !self.text("err").contains(words) {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && begun.elapsed() < PATIENCE,
                "{} does not say {words:?}: {}",
                self.name,
                self.text("err")
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Until its clients have worked for a while.
    #[track_caller]
    pub(crate) fn work(&mut self) {
        self.wait_for("their clients begin");
        std::thread::sleep(Duration::from_millis(500));
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal(process: u32, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &process.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

pub(crate) fn report(bed: &Bed) -> Value {
    serde_json::from_str(&fs::read_to_string(bed.path().join("r.json")).unwrap()).unwrap()
}

/// The rows of a class.
pub(crate) fn rows<'a>(report: &'a Value, class: &'a str) -> impl Iterator<Item = &'a Value> {
    let rows = report["runs"].as_array().unwrap().iter();
    rows.filter(move |row| row["class"] == class)
}

#[track_caller]
pub(crate) fn has_all(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    assert!(!text.contains("panicked"), "{text}");
}
