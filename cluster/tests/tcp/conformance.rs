//! The contract.

use dmtree_cluster::conformance::must_tests;

use crate::bed::{Servers, TcpBed};

fn all_hold(bed: &TcpBed) {
    let mut failed = Vec::new();
    for test in must_tests() {
        if let Err(violation) = (test.run)(bed) {
            failed.push(format!(
                "“{}” fails: {violation}\n  contract: {}",
                test.name, test.contract
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn servers_in_this_process_keep_the_contract() {
    for native_swap in [false, true] {
        all_hold(&TcpBed {
            servers: Servers::InThisProcess,
            rounds: 300,
            native_swap,
            tls: false,
        });
    }
}

#[test]
fn servers_in_processes_keep_the_contract() {
    all_hold(&TcpBed {
        servers: Servers::InProcesses,
        rounds: 200,
        native_swap: false,
        tls: false,
    });
}

#[test]
fn tls_keeps_the_contract() {
    all_hold(&TcpBed {
        servers: Servers::InThisProcess,
        rounds: 100,
        native_swap: true,
        tls: true,
    });
}
