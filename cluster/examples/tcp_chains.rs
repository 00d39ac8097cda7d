//! How many READs of 8 bytes a second one server executes, in chains of 32 from one connection: `.ci/redis` runs it beside
//! redis-server with pipelines of 32.
//!
//!     tcp_chains serve DIRECTORY      serves until standard input ends; what clients need is in DIRECTORY
//!     tcp_chains ask DIRECTORY        asks for five seconds, with 50 clients of one thread

use std::cell::Cell;
use std::error::Error;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dmtree_cluster::region::Regions;
use dmtree_cluster::tcp::{ClientThread, Cluster, Key, Server, ServerConfig, ThreadConfig};
use dmtree_cluster::{Chain, ClientId, Endpoint, GlobalAddr, MemoryKind, MemoryMap, NodeId};

const WORDS: u64 = 1 << 16;
const VERBS: u64 = 32;
const CLIENTS: u32 = 50;
const TIME: Duration = Duration::from_secs(5);

fn regions() -> Result<(Arc<Regions>, GlobalAddr), Box<dyn Error>> {
    let mut map = MemoryMap::new(1);
    let at = map.reserve(NodeId(0), MemoryKind::Host, WORDS * 8, 64);
    Ok((Arc::new(Regions::zeroed(NodeId(0), &map)?), at))
}

fn serve(directory: &Path) -> Result<(), Box<dyn Error>> {
    let key = Key::generate()?;
    key.write_new(&directory.join("key"))?;
    let (regions, _) = regions()?;
    let config = ServerConfig::new(key, Cluster::new("chains", 1));
    let server = Server::start(config, regions)?;
    // Under another name first: who sees the file sees all of it.
    std::fs::write(directory.join("new"), server.addr().to_string())?;
    std::fs::rename(directory.join("new"), directory.join("address"))?;
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    Ok(())
}

fn ask(directory: &Path) -> Result<(), Box<dyn Error>> {
    let address = std::fs::read_to_string(directory.join("address"))?.parse()?;
    let key = Key::read(&directory.join("key"))?;
    let (regions, at) = regions()?;
    let config = ThreadConfig::new(vec![Some(address)], key, Cluster::new("chains", 1));
    let mut thread = ClientThread::connect(config, regions)?;
    let done = Rc::new(Cell::new(0));
    let begun = Instant::now();
    for client in 0..CLIENTS {
        let ep = thread.endpoint(ClientId(client));
        let done = Rc::clone(&done);
        thread.spawn(&ep.clone(), async move {
            let mut chain = Chain::new();
            while begun.elapsed() < TIME {
                chain.clear();
                for _ in 0..VERBS {
                    chain.read(at.word(ep.random() % WORDS), 8);
                }
                if let Err(error) = ep.execute(&mut chain).await {
                    eprintln!("{error}");
                    return;
                }
                done.set(done.get() + VERBS);
            }
        });
    }
    thread.run()?;
    println!("{:.0}", done.get() as f64 / begun.elapsed().as_secs_f64());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1..) {
        Some([what, directory]) if what == "serve" => serve(Path::new(directory)),
        Some([what, directory]) if what == "ask" => ask(Path::new(directory)),
        _ => Err("tcp_chains serve|ask DIRECTORY".into()),
    }
}
