use std::cell::Cell;
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use super::*;

const SHARD: &str = "model-00001-of-00002.safetensors";
const OTHER: &str = "model-00002-of-00002.safetensors";

/// A model of four files that came by a download, and a user.
struct Place {
    dir: tempfile::TempDir,
    folder: PathBuf,
    paths: Paths,
}

fn content(path: &str) -> Vec<u8> {
    let len = match path {
        SHARD => 9_000_001,
        OTHER => 5_000_000,
        _ => 300,
    };
    (0..len).map(|i: u32| (i.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0]).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

impl Place {
    fn new(complete: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let paths = Paths { data: state.clone(), config: state.clone(), state };
        let place = Self { folder: dir.path().join("my models/k3 è"), dir, paths };
        fs::create_dir_all(&place.folder).unwrap();
        let mut listed = Vec::new();
        for path in [SHARD, OTHER, "config.json", "README.md"] {
            let bytes = content(path);
            let digest = if Path::new(path).extension().is_some_and(|e| e == "safetensors") {
                format!("sha256:{}", hex(&Sha256::digest(&bytes)))
            } else {
                let blob = sha1::Sha1::new().chain_update(format!("blob {}\0", bytes.len()));
                format!("git:{}", hex(&blob.chain_update(&bytes).finalize()))
            };
            listed.push(serde_json::json!({ "path": path, "size": bytes.len(), "digest": digest }));
            fs::write(place.folder.join(path), bytes).unwrap();
        }
        let record = serde_json::json!({
            "repo": "o/n", "revision": "main", "commit": "a".repeat(40), "complete": complete, "files": listed,
        });
        fs::write(place.folder.join(".dormouse-download.json"), record.to_string()).unwrap();
        place
    }

    fn files(&self) -> Vec<Entry> {
        Published::of(&self.folder).unwrap().files
    }

    fn marks(&self) -> Marks {
        Marks::read(&self.paths, &self.folder)
    }

    fn deep(&self) -> Vec<(String, Verdict)> {
        let findings = deep(&self.folder, &self.files(), &mut self.marks(), &mut |_, _| true).unwrap();
        findings.into_iter().map(|finding| (finding.entry.path, finding.verdict)).collect()
    }

    /// Changes a byte and sets the time of change back, as a failing disk does.
    fn flip(&self, path: &str) {
        let path = self.folder.join(path);
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&path, bytes).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    }
}

fn verdict_of(found: &[(String, Verdict)], path: &str) -> Verdict {
    found.iter().find(|(found, _)| found == path).unwrap().1.clone()
}

#[test]
fn d08_d09_d11_every_byte_of_every_file_counts() {
    let place = Place::new(false);
    assert!(place.deep().iter().all(|(_, verdict)| *verdict == Verdict::Right));
    for path in [SHARD, OTHER, "config.json"] {
        place.flip(path);
        let found = place.deep();
        assert!(matches!(verdict_of(&found, path), Verdict::Wrong(_)), "{path}: {found:?}");
        assert_eq!(found.iter().filter(|(_, verdict)| verdict.is_bad()).count(), 1, "{path}");
        place.flip(path);
        let again = place.deep();
        assert_eq!(verdict_of(&again, path), Verdict::Right);
        let others =
            |(found, verdict): &&(String, Verdict)| found != path && *verdict == Verdict::RightBefore;
        assert_eq!(again.iter().filter(others).count(), 3, "those that were right are not read again");
    }
    assert!(place.deep().iter().all(|(_, verdict)| *verdict == Verdict::Right), "the run had ended");
}

#[test]
fn d12_d13_d26_what_is_wrong_is_named_with_file_and_bytes() {
    let place = Place::new(false);
    fs::remove_file(place.folder.join(SHARD)).unwrap();
    fs::remove_file(place.folder.join("README.md")).unwrap();
    fs::write(place.folder.join(OTHER), b"").unwrap();
    place.flip("config.json");
    let files = place.files();
    let problems =
        |findings: &[Finding]| -> Vec<String> { findings.iter().filter_map(Finding::problem).collect() };
    let found = quick(&place.folder, &files);
    assert_eq!(
        problems(&found),
        [
            format!("{SHARD} is missing (8.58 MiB)"),
            format!("{OTHER} is empty, and should be 5000000 bytes long"),
        ]
    );
    let found = deep(&place.folder, &files, &mut place.marks(), &mut |_, _| true).unwrap();
    let problems = problems(&found);
    assert_eq!(problems.len(), 3, "{problems:?}");
    let config = problems.iter().find(|problem| problem.starts_with("config.json")).unwrap();
    assert!(config.contains("bytes 0 to 300") && config.contains("published is"), "{config}");
    assert!(found.iter().any(|finding| finding.verdict == Verdict::NotNeeded), "{found:?}");
    fs::create_dir(place.folder.join("README.md")).unwrap();
    assert!(matches!(verdict_of(&place.deep(), "README.md"), Verdict::Unreadable(_)));
}

#[test]
fn a_check_that_was_stopped_goes_on_and_one_that_ended_begins_anew() {
    let place = Place::new(false);
    let files = place.files();
    let total: u64 = files.iter().map(|entry| entry.size).sum();
    // Stopped once the first file was found right.
    let seen = Cell::new(0);
    let stopped = deep(&place.folder, &files, &mut place.marks(), &mut |done, all| {
        assert!(done >= seen.replace(done) && done <= all && all == total);
        place.marks().kept() == 0
    });
    assert!(matches!(stopped, Err(Error::Stopped)));
    let kept = place.marks().kept();
    assert!(kept > 0);
    // A file that has changed meanwhile is read again, whatever was found before.
    let mut marks = place.marks();
    let before = deep(&place.folder, &files, &mut marks, &mut |_, _| true).unwrap();
    let again = before.iter().filter(|finding| finding.verdict == Verdict::RightBefore).count();
    assert_eq!(again, kept);
    assert!(before.iter().all(|finding| !finding.verdict.is_bad()));
    assert!(place.deep().iter().all(|(_, verdict)| *verdict == Verdict::Right), "a new run reads all");
}

#[test]
fn a_mark_is_for_one_state_of_a_file_and_one_digest() {
    let place = Place::new(false);
    let files = place.files();
    let mut marks = place.marks();
    marks.begin();
    for entry in &files {
        marks.mark(entry, &Stamp::of(&place.folder.join(&entry.path)));
    }
    let has = |entry: &Entry| place.marks().has_in_run(entry, &Stamp::of(&place.folder.join(&entry.path)));
    assert!(files.iter().all(has));
    let other = Entry { digest: Digest::Unknown, ..files[0].clone() };
    assert!(!has(&other));
    fs::File::options()
        .write(true)
        .open(place.folder.join(SHARD))
        .unwrap()
        .set_modified(SystemTime::now() + Duration::from_secs(1))
        .unwrap();
    assert_eq!(files.iter().filter(|entry| has(entry)).count(), files.len() - 1);
    marks.end();
    assert_eq!(place.marks().kept(), 0);
    // Cut anywhere, what is left of it is good.
    let file = fs::read_dir(place.paths.verified()).unwrap().next().unwrap().unwrap().path();
    let text = fs::read(&file).unwrap();
    let mut most = 0;
    for cut in (0..text.len()).step_by(7) {
        fs::write(&file, &text[..cut]).unwrap();
        let kept = place.marks().kept();
        assert!(kept >= most && kept <= files.len(), "{cut}");
        most = kept;
    }
    assert_eq!(most, files.len());
    fs::write(&file, b"\xff\n{").unwrap();
    assert_eq!(place.marks().kept(), 0);
}

#[test]
fn d10_d26_a_folder_is_verified_only_when_every_file_was_looked_at() {
    let place = Place::new(false);
    let standing = || standing(&place.paths, &place.folder);
    assert_eq!(standing(), Standing::Unverified { files: 3, of: 3 });
    place.deep();
    assert_eq!(standing(), Standing::Verified);
    let shard = place.folder.join(SHARD);
    let bytes = fs::read(&shard).unwrap();
    fs::write(&shard, &bytes).unwrap();
    assert_eq!(standing(), Standing::Unverified { files: 1, of: 3 }, "it was written since");
    fs::remove_file(place.folder.join(".dormouse-download.json")).unwrap();
    assert_eq!(standing(), Standing::Unpublished);
    // A download that came to its end has looked at all of them.
    let place = Place::new(true);
    let standing = || super::standing(&place.paths, &place.folder);
    assert_eq!(standing(), Standing::Verified);
    fs::File::options()
        .write(true)
        .open(place.folder.join(OTHER))
        .unwrap()
        .set_modified(SystemTime::now() + Duration::from_secs(5))
        .unwrap();
    assert_eq!(standing(), Standing::Unverified { files: 1, of: 3 });
}

#[test]
fn that_a_model_was_never_verified_is_said_once() {
    let place = Place::new(false);
    let said = first_warning(&place.paths, &place.folder).unwrap();
    assert!(said.contains("never verified: dormouse verify --deep --model"), "{said}");
    assert_eq!(first_warning(&place.paths, &place.folder), None);
    assert!(place.dir.path().join("state/verified").exists());
    let by_hand = place.dir.path().join("by hand");
    fs::create_dir(&by_hand).unwrap();
    let said = first_warning(&place.paths, &by_hand).unwrap();
    assert!(said.contains("never verified: dormouse verify --repair --model"), "{said}");
    // A check does not forget it, and it does not forget a check.
    place.deep();
    assert_eq!(standing(&place.paths, &place.folder), Standing::Verified);
    let whole = Place::new(true);
    assert_eq!(first_warning(&whole.paths, &whole.folder), None);
}
