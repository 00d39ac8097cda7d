//! Nodes on hosts of their own, whose link is cut: nobody closes any connection, nothing is answered any more.
//!
//! The hosts are network namespaces, which takes the right to make some and the `ip` of iproute2. Where that is missing,
//! the test says so on standard error and does nothing.

#![allow(clippy::unwrap_used)] // A panic is how a test fails.
#![cfg(target_os = "linux")]

mod common;

use std::io::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use common::cluster::{Bed, LONG, has_all, report, rows};

/// Two hosts with a link between them, which go with it.
struct Hosts {
    names: [String; 2],
}

fn ip(args: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(args).output();
    let output = output.map_err(|error| format!("ip: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        let why = String::from_utf8_lossy(&output.stderr);
        Err(format!("ip {}: {}", args.join(" "), why.trim()))
    }
}

impl Hosts {
    fn make() -> Result<Self, String> {
        let process = std::process::id();
        let hosts = Self {
            names: [0, 1].map(|host| format!("dmtree-{process}-{host}")),
        };
        let [one, other] = &hosts.names;
        ip(&["netns", "add", one])?;
        ip(&["netns", "add", other])?;
        let link = ["link", "add", "cut", "netns", one, "type", "veth"];
        ip(&[&link[..], &["peer", "name", "cut", "netns", other]].concat())?;
        for (host, name) in hosts.names.iter().enumerate() {
            let address = format!("10.77.0.{}/24", host + 1);
            ip(&["-n", name, "addr", "add", &address, "dev", "cut"])?;
            ip(&["-n", name, "link", "set", "cut", "up"])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
        }
        Ok(hosts)
    }

    fn on(&self, host: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[host]]);
        command.arg(env!("CARGO_BIN_EXE_dmtree"));
        command
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in &self.names {
            drop(ip(&["netns", "delete", name]));
        }
    }
}

#[test]
fn a_link_that_is_cut_ends_the_run_on_both_sides() {
    let hosts = match Hosts::make() {
        Ok(hosts) => hosts,
        Err(why) => {
            // Not by a macro, whose output is shown of tests that fail only.
            let notice = format!(
                "\n*** NOT TESTED: a partition between two hosts, as network namespaces cannot be made here: {why}\n\n"
            );
            std::io::stderr().write_all(notice.as_bytes()).unwrap();
            return;
        }
    };
    let addresses = ["10.77.0.1:7100", "10.77.0.2:7100"];
    let bed = Bed::at(addresses, "\"memory\", \"compute\"", LONG);
    let args = ["--peer-limit", "2s", "--json", "r.json"];
    let mut processes = [0, 1].map(|host| bed.begin_by(hosts.on(host), "node", host as u16, &args));
    processes[0].work();
    ip(&["-n", &hosts.names[0], "link", "set", "cut", "down"]).unwrap();
    let begun = Instant::now();
    for (node, process) in processes.iter_mut().enumerate() {
        let (code, error) = process.end();
        assert_eq!(code, Some(1), "{error}");
        has_all(&error, &[&format!("node {} is gone", 1 - node)]);
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
    has_all(&processes[1].text("err"), &["it has not answered for 2s"]);
    let report = report(&bed);
    for class in ["local", "all"] {
        for row in rows(&report, class) {
            has_all(row["partial"].as_str().unwrap(), &["node 1 is gone"]);
            assert!(row["ops"].as_u64() > Some(0), "{row}");
        }
    }
}
