//! Verification lets sound runs pass and finds out broken ones.

use std::cell::Cell;

use dmtree_cluster::GlobalAddr;
use dmtree_index::{Survey, TreeMeta};
use dmtree_lock::AnyLock;

use super::tree::SimTree;
use super::*;
use crate::settings::Options;
use crate::sweep::run_all;

/// Of an options' text, flag by flag, over a small cluster with tiny pages, few locks and verification.
fn settings(more: &[(&str, &str)]) -> Settings {
    let small = [
        ("nodes", "3"),
        ("threads", "2"),
        ("keys", "200"),
        ("page-bytes", "128"),
        ("lock-count", "4"),
        ("seconds", "300us"),
        ("warmup", "50us"),
        ("verify", "on"),
    ];
    let mut table = toml::Table::new();
    for (name, value) in small.iter().chain(more) {
        table.insert((*name).to_owned(), toml::Value::from(*value));
    }
    let options: Options = table.try_into().expect("options");
    Settings::of(options).expect("settings")
}

/// The outcomes of all runs of `settings`, or the first failure.
fn run(settings: &Settings, tampering: &(impl Tampering + Sync)) -> Result<Vec<RunOutcome>> {
    run_all(&runs_of(settings), 1, |spec, abandon| {
        RunPlan::new(settings, spec)?.execute_with(tampering, &Progress::hidden(), abandon)
    })
}

const LOCKS: &str = "sherman,tas,ticket,mcs,mcs:cas-release,alock,alock:20,5,alock:3,2:cas-release,farlock,farlock-g";

/// All locks and both data paths, for each seed.
#[test]
fn hundreds_of_sound_runs_pass() {
    let mixes = [
        "update",
        "insert",
        "update:40,insert:40,get:20",
        "update:90,get:10",
    ];
    let mut runs = 0;
    for seed in 0..40usize {
        let jitter = format!("{}ns", seed * 617 % 5001);
        let on_off = |on: bool| if on { "on" } else { "off" };
        // Reads in Sherman's format may be torn where the fabric takes its freedoms.
        let published = seed / 8 % 4 == 3;
        let mix = mixes[seed % 4];
        let fewest = if mix == "insert" { "0" } else { "1" };
        let settings = settings(&[
            ("lock", LOCKS),
            ("data-path", "both"),
            ("seed", &seed.to_string()),
            ("mix", mix),
            ("jitter", &jitter),
            ("hostile", on_off(seed % 2 == 1 && !published)),
            ("swap", ["cas", "native"][seed / 2 % 2]),
            ("distribution", ["uniform", "zipf:0.99"][seed / 4 % 2]),
            ("page-bytes", ["128", "192", "1024"][seed % 3]),
            (
                "page-format",
                if published { "sherman" } else { "sequence" },
            ),
            ("cache-budget", ["0", "3000", "500M"][seed / 3 % 3]),
            ("prefill-cache", on_off(seed % 5 > 0)),
            ("keys", [fewest, "60", "2000"][seed / 5 % 3]),
            ("profile", ["cx3-fdr", "cx6-200g"][seed / 7 % 2]),
        ]);
        for outcome in run(&settings, &Untouched).expect("sound") {
            let verified = outcome.verified.expect("verified");
            assert_eq!(verified.keys, settings.keys + outcome.growth.added);
            assert!(verified.written > 0 && verified.pages > 0, "{verified:?}");
            runs += 1;
        }
    }
    assert_eq!(runs, 40 * 20);
}

/// Does something to the leaf with the key in the middle, if it has one.
struct Damage<F>(F);

/// A leaf in memory: its address, its words, the word of the key's value.
type AtLeaf<'a> = (GlobalAddr, &'a mut [u64], usize);

const KEY: u64 = 10 << 24;

impl<F: Fn(AtLeaf<'_>)> Tampering for Damage<F> {
    fn memory(&self, sim: &mut Sim, meta: &TreeMeta) {
        let mut words = sim.host_words(SERVER);
        let at = |addr: GlobalAddr| addr.offset() as usize / 8;
        let page = Cell::new(GlobalAddr::NULL);
        let read = |addr: GlobalAddr, to: &mut [u64]| {
            to.copy_from_slice(&words[at(addr)..][..to.len()]);
            Ok(())
        };
        Survey::of(meta, read, |leaf| {
            if leaf.entries.iter().any(|(key, _)| *key == KEY) {
                page.set(leaf.page);
            }
        })
        .expect("memory")
        .expect("a sound tree");
        let leaf = &mut words[at(page.get())..][..meta.layout().words()];
        // Behind the header, where a fence may be the same number.
        let slot = leaf[6..].iter().position(|word| *word == KEY);
        let value = 6 + slot.expect("the key") + 1;
        (self.0)((page.get(), leaf, value));
    }
}

/// What a run tells that ends with damage to a leaf, and where that leaf is.
fn told(mix: &str, damage: impl Fn(AtLeaf<'_>) + Sync) -> (String, String) {
    let page = std::sync::Mutex::new(GlobalAddr::NULL);
    let damage = Damage(|at: AtLeaf<'_>| {
        *page.lock().expect("alone") = at.0;
        damage(at);
    });
    let settings = settings(&[("mix", mix), ("seed", "77"), ("keys", "20")]);
    let failure = run(&settings, &damage).expect_err("damaged");
    assert!(matches!(failure, Failure::Work(_)), "exit status 1");
    let page = page.lock().expect("alone").to_string();
    (failure.to_string(), page)
}

#[test]
fn damage_after_the_run_is_told_with_seed_key_page_and_what_was_expected() {
    let key = KEY.to_string();
    let holds = |mix: &str, damage: &(dyn Fn(AtLeaf<'_>) + Sync), parts: &[&str]| {
        let (message, page) = told(mix, damage);
        for part in ["seed 77", "lock farlock", "verification"]
            .iter()
            .chain(parts)
        {
            assert!(message.contains(part), "{part:?} is not in {message}");
        }
        assert!(message.contains(&page), "{page} is not in {message}");
    };
    // A loaded value that nobody has written over, and an acknowledged one.
    let loaded: &(dyn Fn(AtLeaf<'_>) + Sync) = &|(_, words, value)| words[value] = 12345;
    holds("insert", loaded, &[&key, "12345", "10 (loaded)"]);
    holds("update", loaded, &[&key, "12345", "(acknowledged at "]);
    // The update is lost: what was loaded is there again.
    holds(
        "update",
        &|(_, words, value)| words[value] = 10,
        &[&key, "has the value 10 in", "(acknowledged at "],
    );
    // No slot is occupied any more.
    holds("update", &|(_, words, _)| words[5] = 0, &["is not there"]);
    // A key that nobody has put there, in the place of one that is expected later.
    holds(
        "update",
        &|(_, words, value)| words[value - 1] -= 1,
        &[&(KEY - 1).to_string(), "expected no such key"],
    );
    holds(
        "update",
        &|(_, words, value)| words[value - 1] += 1,
        &[&key, "is not there"],
    );
    // Fences, sibling, sequence number, level.
    for (word, damage, what) in [
        (2, 1, "low fence"),
        (3, 1, "high fence"),
        (4, 128, "right sibling"),
        (0, 1, "odd"),
        (1, 1, "entries"),
    ] {
        holds(
            "update",
            &move |(_, words, _)| words[word] += damage,
            &["the tree is not sound", what],
        );
    }
}

/// Makes every client commit a fault.
struct Broken(Option<dmtree_lock::Fault>, Option<dmtree_index::Fault>);

impl Tampering for Broken {
    fn lock(&self, lock: &AnyLock) {
        self.0.into_iter().for_each(|fault| lock.sabotage(fault));
    }

    fn tree(&self, tree: &mut SimTree) {
        self.1.into_iter().for_each(|fault| tree.sabotage(fault));
    }
}

/// In how many of 60 crowded hostile runs verification finds something, and in how many others something else does:
/// the monitor, or a client that meets the impossible.
fn caught(lock: &str, more: &[(&str, &str)], broken: &Broken) -> (u32, u32) {
    let (mut by_verification, mut otherwise) = (0, 0);
    for seed in 0..60 {
        let common = [
            ("lock", lock),
            ("lock-count", "1"),
            ("keys", "40"),
            ("hostile", "on"),
            ("nodes", "4"),
        ];
        let seed = seed.to_string();
        let settings = settings(&[&common[..], more, &[("seed", &seed)]].concat());
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(&settings, broken)));
        match ran {
            Ok(Ok(_)) => {}
            Ok(Err(failure)) if failure.to_string().contains("verification") => {
                by_verification += 1;
            }
            _ => otherwise += 1,
        }
    }
    (by_verification, otherwise)
}

/// Holders that let the next one in before their write-back is there exclude each other all the same, so that the
/// monitor sees nothing; what the next one then writes over is lost. With a page of which an update changes one word
/// that loses no update (each is concurrent with the one that it lands on), but entries that were added and splits;
/// in Sherman's format, where it changes an entry, updates too.
#[test]
fn what_a_wrong_lock_loses_is_found() {
    use dmtree_lock::Fault;
    for (lock, fault) in [
        ("farlock", Fault::FarlockOwnerBeforeWriteBack),
        ("alock", Fault::AlockHandoverBeforeWriteBack),
        ("sherman", Fault::ShermanHandoverBeforeWriteBack),
        ("tas", Fault::TasFreesBeforeWriteBack),
        ("ticket", Fault::TicketServesBeforeWriteBack),
        ("mcs", Fault::McsHandoverBeforeWriteBack),
    ] {
        for (path, mix, format, least) in [
            ("cpu", "insert", "sequence", 10),
            ("loopback", "insert", "sequence", 4),
            ("cpu", "update", "sherman", 1),
        ] {
            let more = [("data-path", path), ("mix", mix), ("page-format", format)];
            let sound = caught(lock, &more, &Broken(None, None));
            assert_eq!(sound, (0, 0), "{lock} {more:?}");
            let (found, _) = caught(lock, &more, &Broken(Some(fault), None));
            assert!(found >= least, "{lock} {more:?}: {found}");
        }
    }
}

/// Of the broken inserts, those that leave something behind. (What only readers see, while it lasts, the histories
/// in the tests of `dmtree-index` find.)
#[test]
fn what_a_wrong_insert_loses_is_found() {
    use dmtree_index::Fault;
    let growing = |keys| {
        [
            ("mix", "insert"),
            ("data-path", "cpu"),
            ("jitter", "5us"),
            ("keys", keys),
            ("lock-count", "64"),
            ("prefill-cache", "off"),
            ("cache-budget", "0"),
        ]
    };
    let broken = |keys, fault| caught("farlock", &growing(keys), &Broken(None, fault));
    assert_eq!((broken("1", None), broken("40", None)), ((0, 0), (0, 0)));
    let (found, _) = broken("1", Some(Fault::RootOverwritten));
    assert!(found > 0, "no tree with a lost root was found");
    // The run fails while it goes on: a client comes to a page that is not there.
    let (found, otherwise) = broken("40", Some(Fault::PublishedBeforeWritten));
    assert!(found + otherwise > 0, "no page that is not there was found");
}

#[test]
fn the_memory_that_verification_takes_is_counted() {
    let bytes = |more: &[(&str, &str)]| {
        let settings = settings(&[&[("keys", "1M"), ("seconds", "1")], more].concat());
        let spec = runs_of(&settings).remove(0);
        RunPlan::new(&settings, &spec).expect("a plan").bytes()
    };
    for mix in ["update", "insert"] {
        let (off, on) = (
            bytes(&[("verify", "off"), ("mix", mix)]),
            bytes(&[("mix", mix)]),
        );
        let keys = if mix == "update" {
            1_000_000
        } else {
            // More than are inserted within a second.
            20_000_000
        };
        assert!(on - off >= keys * 80, "{mix}: {off} {on}");
    }
    // Two milliseconds are not enough to write a million keys.
    let short = |verify| bytes(&[("seconds", "1us"), ("verify", verify)]);
    assert!(short("on") - short("off") < 1_000_000 * 80);
}

/// Clients that work on locks alone are watched by the same monitor.
#[test]
fn a_wrong_lock_ends_a_lock_benchmark_too() {
    use dmtree_lock::Fault;
    let ran = |lock: &str, seed: u64, fault: Option<Fault>| {
        let text = format!(
            "lock = \"{lock}\"\nlock-count = 2\nnodes = 4\nthreads = 2\nseconds = \"400us\"\nwarmup = \"50us\"\n\
             hostile = true\njitter = \"3us\"\nseed = {seed}\n"
        );
        let options: Options = toml::from_str(&text).expect("options");
        let settings = Settings::about(crate::settings::Subject::Locks, options).expect("settings");
        run(&settings, &Broken(fault, None))
    };
    for (lock, fault) in [
        ("farlock", Fault::FarlockPublishBeforeLeaving),
        ("alock", Fault::AlockNoVictimRecheck),
    ] {
        let mut found = 0;
        for seed in 0..12 {
            ran(lock, seed, None).expect("sound");
            if let Err(failure) = ran(lock, seed, Some(fault)) {
                let text = failure.to_string();
                let run = format!("the run of lock {lock}, 2 locks, seed {seed} failed");
                assert!(text.starts_with(&run), "{text}");
                found += u32::from(text.contains("invariant violated"));
            }
        }
        assert!(found > 0, "{lock}: {fault:?} is never found");
    }
}
