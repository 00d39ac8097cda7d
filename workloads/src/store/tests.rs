use super::*;
use crate::Progress;
use crate::jobs::Job;
use crate::run::{RunPlan, runs_of};
use crate::settings::Options;
use crate::sweep::run_all;

const PROGRAM: &str = "this one";

fn settings(text: &str) -> Settings {
    let options: Options = toml::from_str(text).unwrap();
    Settings::of(options).unwrap()
}

const SMALL: &str = "nodes = 3\nthreads = 2\nkeys = 5000\nseconds = \"1ms\"\nwarmup = \"500us\"\nverify = true\n\
    mix = \"update:80,insert:20\"\n";

fn run(settings: &Settings) -> RunOutcome {
    let done = run_all(&runs_of(settings)[..1], 1, |spec, abandon| {
        RunPlan::new(settings, spec)?.execute(&Progress::hidden(), abandon)
    });
    done.unwrap().remove(0)
}

fn store(directory: &Path) -> Store {
    Store::with_program(&Place::from(directory.to_owned()), PROGRAM.to_owned())
}

/// A store that has a run of `settings`, that run, and its file.
fn with_a_run(directory: &Path, settings: &Settings) -> (Store, RunOutcome, PathBuf) {
    let store = store(directory);
    drop(store.take().unwrap());
    let outcome = run(settings);
    store.keep(settings, &outcome).unwrap();
    let mut files = runs_in(&store);
    assert_eq!(files.len(), 1, "{files:?}");
    (store, outcome, files.remove(0))
}

fn runs_in(store: &Store) -> Vec<PathBuf> {
    fs::read_dir(store.directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "run"))
        .collect()
}

/// Why what there is of the first run of `settings` is not trusted; its file is named.
#[track_caller]
fn why_not(store: &Store, settings: &Settings, file: &Path) -> String {
    match store.find(settings, &runs_of(settings)[0]).unwrap() {
        Found::Unusable(why) => why
            .strip_prefix(&format!("{}: ", file.display()))
            .unwrap_or_else(|| panic!("{why} does not name {}", file.display()))
            .to_owned(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_same(one: &RunOutcome, other: &RunOutcome) {
    for (one, other) in [(&one.local, &other.local), (&one.remote, &other.remote)] {
        assert_eq!(one.histogram(), other.histogram());
        assert_eq!(one.sum_ns(), other.sum_ns());
        assert_eq!(
            crate::hgrm::percentile_text(one),
            crate::hgrm::percentile_text(other)
        );
    }
    assert_eq!(one.spec, other.spec);
    assert_eq!(one.growth, other.growth);
    let counts = |run: &RunOutcome| (run.events, run.folded, run.verbs);
    assert_eq!(counts(one), counts(other));
    assert_eq!((one.event_loop, one.load), (other.event_loop, other.load));
    assert_eq!(one.verified, other.verified);
}

#[test]
fn a_kept_run_is_found_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(SMALL);
    let (store, outcome, _) = with_a_run(directory.path(), &settings);
    assert!(outcome.growth.added > 0 && outcome.verified.is_some());
    let Found::Run(mut found) = store.find(&settings, &outcome.spec).unwrap() else {
        panic!("not found");
    };
    assert_same(&found, &outcome);
    // Like one that was never in a file it grows when it has to.
    let mut long = outcome.local.clone();
    long.record(600_000_000_000);
    found.local.merge(&long);
    found.local.record(u64::MAX / 4);
    let mut kept = outcome.clone();
    kept.local = found.local.clone();
    store.keep(&settings, &kept).unwrap();
    let Found::Run(found) = store.find(&settings, &outcome.spec).unwrap() else {
        panic!("not found");
    };
    assert_same(&found, &kept);
}

#[test]
fn a_damaged_file_is_never_trusted() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(SMALL);
    let (store, outcome, file) = with_a_run(directory.path(), &settings);
    let whole = fs::read(&file).unwrap();
    let beginning = b"dmtree run 1, SHA-256 of the rest: ".len();
    for length in [
        0,
        5,
        beginning,
        beginning + 30,
        200,
        whole.len() / 2,
        whole.len() - 1,
    ] {
        fs::write(&file, &whole[..length]).unwrap();
        let why = why_not(&store, &settings, &file);
        let expected = if length < beginning {
            "not a run"
        } else {
            "damaged"
        };
        assert!(why.contains(expected), "{length}: {why}");
    }
    for at in (0..whole.len()).step_by(whole.len() / 97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&file, &bytes).unwrap();
        why_not(&store, &settings, &file);
    }
    let longer = [&whole[..], b" "].concat();
    fs::write(&file, longer).unwrap();
    assert!(why_not(&store, &settings, &file).contains("damaged"));
    fs::write(&file, vec![b'x'; MOST_BYTES as usize + 1]).unwrap();
    assert!(why_not(&store, &settings, &file).contains("too large"));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(why_not(&store, &settings, &file).contains("no file"));
    fs::remove_dir(&file).unwrap();
    assert!(matches!(
        store.find(&settings, &outcome.spec),
        Ok(Found::Nothing)
    ));
    fs::write(&file, &whole).unwrap();
    assert!(matches!(
        store.find(&settings, &outcome.spec),
        Ok(Found::Run(_))
    ));
}

/// A checksum shows accidents; what it does not show must not be read wrongly or end in a panic.
#[test]
fn a_whole_file_with_other_contents_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(SMALL);
    let (store, _, file) = with_a_run(directory.path(), &settings);
    let text = fs::read_to_string(&file).unwrap();
    let body = text.lines().nth(1).unwrap();
    let histogram_at = body.find("\"histogram\":\"").unwrap() + "\"histogram\":\"".len();
    let damaged_histogram = format!("{}AAAA{}", &body[..histogram_at], &body[histogram_at + 4..]);
    for (body, expected) in [
        ("{}".to_owned(), "has not what a run has"),
        (body.replace("\"events\":", "\"event\":"), "has not what"),
        (
            body.replace("\"found\":{", "\"found\":{\"more\":1,"),
            "has not what",
        ),
        (damaged_histogram, "histogram"),
        (body.replace(PROGRAM, "that one"), "another build"),
        (body.replace("\"nodes\":3", "\"nodes\":4"), "other settings"),
    ] {
        let checksum = record::hex(&<sha2::Sha256 as sha2::Digest>::digest(&body));
        let forged = format!("dmtree run 1, SHA-256 of the rest: {checksum}\n{body}");
        fs::write(&file, forged).unwrap();
        let why = why_not(&store, &settings, &file);
        assert!(why.contains(expected), "{expected}: {why}");
    }
}

#[test]
fn another_program_or_other_settings_find_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mine = settings(SMALL);
    let (store, outcome, file) = with_a_run(directory.path(), &mine);
    let place = Place::from(directory.path().to_owned());
    let other = Store::with_program(&place, "another one".to_owned());
    assert!(why_not(&other, &mine, &file).contains("another build"));
    let mut names = vec![file.clone()];
    for change in [
        "seed = 2\n",
        "jitter = \"1ns\"\n",
        "hostile = true\n",
        "set = [\"wire_ns=500\"]\n",
        "handover-limit = 5\n",
        "stagger = \"100us\"\n",
        "profile = \"cx5-100g\"\n",
        "lock = \"farlock-g\"\n",
        "data-path = \"cpu\"\n",
    ] {
        let other = settings(&format!("{SMALL}{change}"));
        let spec = runs_of(&other).remove(0);
        assert!(
            matches!(store.find(&other, &spec), Ok(Found::Nothing)),
            "{change}"
        );
        // Under the other's name it is not taken for it either.
        let path = store.path(&spec, &settings_of(&other, &spec).unwrap());
        fs::copy(&file, &path).unwrap();
        assert!(
            why_not(&store, &other, &path).contains("other settings"),
            "{change}"
        );
        names.push(path);
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 10, "each has a name of its own");
    // What else the command runs, and where its results go, makes no difference.
    let more = settings(&format!(
        "{SMALL}lock = \"sherman,farlock\"\ndistribution = \"zipf:0.99,uniform\"\ndata-path = \"both\"\nseeds = 2\n\
         json = \"x.json\"\nout = \"elsewhere\"\nresume = true\n"
    ));
    let found: Vec<RunSpec> = runs_of(&more)
        .into_iter()
        .filter(|spec| matches!(store.find(&more, spec), Ok(Found::Run(_))))
        .collect();
    assert_eq!(found, [outcome.spec]);
}

#[test]
fn a_store_has_one_command_at_a_time_and_no_leftovers() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let runs = store.directory().to_owned();
    fs::create_dir_all(&runs).unwrap();
    let leftover = runs.join(".sherman.run.4242.part");
    let others = [".lock", ".x.part", "x.1.part", ".x.1.parts"].map(|name| runs.join(name));
    for path in others.iter().chain([&leftover]) {
        fs::write(path, "half").unwrap();
    }
    let taken = store.take().unwrap();
    assert!(!leftover.exists());
    assert!(others.iter().all(|path| path.exists()));
    assert_eq!(fs::read_dir(&runs).unwrap().count(), others.len());
    let error = store.take().unwrap_err().to_string();
    assert!(error.contains("another dmtree"), "{error}");
    assert!(error.contains(&runs.display().to_string()), "{error}");
    drop(taken);
    store.take().unwrap();
    // Where a file is in the way.
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let error = self::store(&file).take().unwrap_err();
    assert!(
        matches!(&error, Failure::Usage(text) if text.contains("--resume on") && text.contains("file/runs")),
        "{error}"
    );
}

#[test]
fn what_was_done_is_put_where_it_belongs() {
    let directory = tempfile::tempdir().unwrap();
    let settings = settings(&format!(
        "{SMALL}lock = \"sherman,farlock,alock\"\nseeds = 2\n"
    ));
    let runs = runs_of(&settings);
    let all = run_all(&runs, 2, |spec, abandon| {
        RunPlan::new(&settings, spec)?.execute(&Progress::hidden(), abandon)
    })
    .unwrap();
    let store = store(directory.path());
    drop(store.take().unwrap());
    for done in [1, 4, 5] {
        store.keep(&settings, &all[done]).unwrap();
    }
    let jobs: Vec<Job<'_>> = Job::all_of("", &settings).collect();
    let resume = Resume::from(Some(store), &jobs).unwrap();
    assert!(resume.text().starts_with("3 of 6 runs are taken from "));
    let left: Vec<_> = resume.left(&jobs).into_iter().map(|job| job.spec).collect();
    assert_eq!(left, [0, 2, 3].map(|at| runs[at].clone()));
    let new: Vec<RunOutcome> = [0, 2, 3].map(|at| all[at].clone()).into();
    let complete = resume.complete(new);
    assert_eq!(complete.len(), 6);
    for (one, other) in complete.iter().zip(&all) {
        assert_same(one, other);
    }
}
