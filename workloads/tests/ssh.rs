//! Nodes that are begun over OpenSSH: against a server of this machine that the test itself starts.
//!
//! It takes OpenSSH's client, server and `ssh-keygen`, and the right to start a server. Where that is missing, the test
//! says so on standard error and does nothing.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.
#![cfg(unix)]

mod common;

use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::cluster::{Bed, PATIENCE, has_all, report, rows};
use common::{dmtree, stderr};

/// An OpenSSH server of loopback with keys of its own.
struct SshServer {
    child: Child,
    port: u16,
}

impl Drop for SshServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(program: &str, args: &[&str], directory: &Path) -> Result<(), String> {
    let output = Command::new(program)
        .args(args)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(format!("{program} {}: {why}", args.join(" ")))
    }
}

impl SshServer {
    /// Its keys, those of its clients too, are in `directory`.
    fn start(directory: &Path) -> Result<Self, String> {
        let key = ["-q", "-t", "ed25519", "-N", "", "-f"];
        run("ssh-keygen", &[&key[..], &["host"]].concat(), directory)?;
        run("ssh-keygen", &[&key[..], &["client"]].concat(), directory)?;
        fs::copy(directory.join("client.pub"), directory.join("authorized")).unwrap();
        // Where Debian's server wants to be empty and there.
        let _ = fs::create_dir_all("/run/sshd");
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {0}/host\nAuthorizedKeysFile {0}/authorized\nPidFile none\n\
             StrictModes no\nUsePAM no\nPasswordAuthentication no\n",
            directory.display()
        );
        fs::write(directory.join("sshd.conf"), config).unwrap();
        let child = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(directory.join("sshd.conf"))
            .stdin(Stdio::null())
            .stderr(fs::File::create(directory.join("sshd.err")).unwrap())
            .spawn()
            .map_err(|error| format!("sshd: {error}"))?;
        let mut server = Self { child, port };
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if server.child.try_wait().unwrap().is_some() || begun.elapsed() > PATIENCE {
                let why = fs::read_to_string(directory.join("sshd.err")).unwrap_or_default();
                return Err(format!("sshd does not start: {}", why.trim()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        run("ssh", &server.probe(directory), directory)?;
        Ok(server)
    }

    fn options(&self, directory: &Path) -> Vec<String> {
        let directory = directory.display();
        vec![
            "-F".to_owned(),
            "none".to_owned(),
            "-p".to_owned(),
            self.port.to_string(),
            "-i".to_owned(),
            format!("{directory}/client"),
            "-o".to_owned(),
            "StrictHostKeyChecking=accept-new".to_owned(),
            "-o".to_owned(),
            format!("UserKnownHostsFile={directory}/known"),
        ]
    }

    fn probe(&self, directory: &Path) -> Vec<&'static str> {
        let mut args = self.options(directory);
        args.extend(["-o", "BatchMode=yes", "127.0.0.1", "true"].map(str::to_owned));
        // A handful of words for as long as the test runs.
        args.into_iter().map(|arg| &*arg.leak()).collect()
    }
}

#[test]
fn nodes_are_begun_over_ssh_from_the_config_file() {
    let bed = Bed::new(
        2,
        "\"memory\", \"compute\"",
        "threads = 1\nkeys = \"20k\"\nseconds = \"200ms\"\nwarmup = \"100ms\"\nlock = \"mcs,farlock\"\n",
    );
    let server = match SshServer::start(bed.path()) {
        Ok(server) => server,
        Err(why) => {
            // Not by a macro, whose output is shown of tests that fail only.
            let notice = format!(
                "\n*** NOT TESTED: nodes over ssh, as no server can be started here: {why}\n\n"
            );
            std::io::stderr().write_all(notice.as_bytes()).unwrap();
            return;
        }
    };
    let options: Vec<String> = server
        .options(bed.path())
        .iter()
        .map(|option| format!("{option:?}"))
        .collect();
    let config = bed.path().join("cluster.toml");
    let text = fs::read_to_string(&config).unwrap();
    let ssh = format!(
        "[cluster]\nssh-options = [{}]\nprogram = {:?}\n",
        options.join(", "),
        env!("CARGO_BIN_EXE_dmtree")
    );
    fs::write(&config, text.replace("[cluster]\n", &ssh)).unwrap();
    let args = [
        "cluster",
        "--ssh",
        "--config",
        "cluster.toml",
        "--json",
        "r.json",
    ];
    let output = dmtree(bed.path(), &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let report = report(&bed);
    assert_eq!(rows(&report, "all").count(), 2);
    for class in ["local", "remote"] {
        assert!(rows(&report, class).all(|row| row["ops"].as_u64() > Some(0)));
    }

    // A machine that cannot be reached: told at once, and the other node's process ends.
    let text = fs::read_to_string(&config).unwrap();
    let last = text.rfind("roles").unwrap();
    let text = format!(
        "{}ssh = \"127.0.0.1.invalid\"\n{}",
        &text[..last],
        &text[last..]
    );
    fs::write(&config, text).unwrap();
    let begun = Instant::now();
    let output = dmtree(
        bed.path(),
        &[&args[..], &["--lock", "mcs", "--patience", "2s"]].concat(),
    );
    assert_eq!(output.status.code(), Some(1));
    has_all(
        &stderr(&output),
        &["node 1", "missing", "127.0.0.1.invalid"],
    );
    assert!(begun.elapsed() < PATIENCE);
}
