//! `dormouse verify`, and what a manifest means for a run.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::nano::{copy_of, nano};
use crate::support::{User, object, stderr, stdout, tiny};

const MANIFEST: &str = "dormouse.manifest";
const SHARD: &str = "model-00002-of-00004.safetensors";

fn verify(user: &User, model: &Path, arguments: &str) -> Output {
    user.command(&format!("verify {arguments} --model")).arg(model).output().unwrap()
}

fn run(user: &User, model: &Path) -> (Option<i32>, Value) {
    let arguments = "run --ids 2051,262 --temperature 0 --max-tokens 4 --json --model";
    let output = user.command(arguments).arg(model).output().unwrap();
    (output.status.code(), object(&output))
}

/// Changes the last byte of a shard, which is a weight, and sets the time of change back.
fn flip(shard: &Path) {
    let file = fs::File::options().read(true).write(true).open(shard).unwrap();
    let metadata = file.metadata().unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, metadata.len() - 1).unwrap();
    file.write_all_at(&[byte[0] ^ 1], metadata.len() - 1).unwrap();
    file.set_modified(metadata.modified().unwrap()).unwrap();
}

#[test]
fn a_seal_covers_all_and_changes_nothing() {
    let user = User::new();
    for folder in [nano(), tiny()] {
        let model = copy_of(&folder);
        let output = verify(&user, model.path(), "");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains("not looked at"), "{}", stdout(&output));
        let sealed = object(&verify(&user, model.path(), "--seal --json"));
        assert_eq!((&sealed["content"], &sealed["read"]), (&Value::from("sealed"), &sealed["bytes"]));
        assert!(model.path().join(MANIFEST).exists());
        let output = verify(&user, model.path(), "--json");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let checked = object(&output);
        assert_eq!((&checked["content"], &checked["read"]), (&Value::from("checked"), &sealed["bytes"]));
        assert_eq!(checked["bad"], 0);
        for reader in ["direct", "buffered", "mmap"] {
            let output = verify(&user, model.path(), &format!("--reader {reader}"));
            // A file system of temporary files may have no direct reads.
            if reader != "direct" || output.status.code() == Some(0) {
                assert!(stdout(&output).contains("as it was sealed"), "{reader}: {}", stderr(&output));
            }
        }
    }
    let (model, bare) = (copy_of(&nano()), copy_of(&nano()));
    verify(&user, model.path(), "--seal");
    let (sealed, unsealed) = (run(&user, model.path()), run(&user, bare.path()));
    assert_eq!((sealed.0, unsealed.0), (Some(0), Some(0)));
    assert_eq!((&sealed.1["checked"], &unsealed.1["checked"]), (&Value::from(true), &Value::from(false)));
    assert_eq!(sealed.1["ids"], unsealed.1["ids"]);
}

#[test]
fn a_flipped_byte_is_found_by_a_check_and_ends_a_run() {
    let user = User::new();
    let model = copy_of(&nano());
    verify(&user, model.path(), "--seal");
    flip(&model.path().join(SHARD));
    let output = verify(&user, model.path(), "--json");
    assert_eq!(output.status.code(), Some(1));
    let report = object(&output);
    assert_eq!(report["bad"], 1);
    let first = &report["first"][0];
    assert_eq!(first["shard"], SHARD);
    let end = first["offset"].as_u64().unwrap() + first["len"].as_u64().unwrap();
    assert_eq!(end, fs::metadata(model.path().join(SHARD)).unwrap().len());
    let what = first["what"].as_str().unwrap();
    let message = stderr(&output);
    assert!(message.contains(what) && message.contains("have changed since"), "{message}");
    // Found in an order that does not depend on threads.
    assert_eq!(object(&verify(&user, model.path(), "--json"))["first"], report["first"]);

    // Whatever the byte belongs to: with every expert and every row flipped, a run meets one of them.
    for shard in 1..=4 {
        flip(&model.path().join(format!("model-0000{shard}-of-00004.safetensors")));
    }
    let damaged = model.path().join("model-00004-of-00004.safetensors");
    let bytes = fs::read(&damaged).unwrap();
    let header = 8 + usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    let changed = fs::metadata(&damaged).unwrap().modified().unwrap();
    let mut other = bytes.clone();
    other[header..].iter_mut().step_by(64).for_each(|byte| *byte ^= 1);
    fs::write(&damaged, &other).unwrap();
    fs::File::options().write(true).open(&damaged).unwrap().set_modified(changed).unwrap();
    let (code, report) = run(&user, model.path());
    assert_eq!(code, Some(3), "{report}");
    let detail = report["error"]["detail"].as_str().unwrap();
    assert!(detail.contains("have changed since") && detail.contains("offset"), "{detail}");
    assert_eq!(report["ids"], serde_json::json!([]), "no token is made of it");
}

#[test]
fn a_manifest_of_other_files_or_a_damaged_one_is_refused_with_the_way_out() {
    let user = User::new();
    let model = copy_of(&tiny());
    verify(&user, model.path(), "--seal");
    let manifest = model.path().join(MANIFEST);
    let refused = |why: &str| {
        let runs = user.command("run --ids 1 --max-tokens 1 --model").arg(model.path()).output().unwrap();
        for output in [verify(&user, model.path(), ""), runs] {
            let message = stderr(&output);
            assert_eq!(output.status.code(), Some(3), "{message}");
            assert!(message.contains(why) && message.contains("verify --seal"), "{message}");
        }
    };
    let whole = fs::read(&manifest).unwrap();
    fs::write(&manifest, &whole[..100]).unwrap();
    refused("found 100 bytes");
    fs::write(&manifest, whole.iter().map(|byte| byte ^ 0x55).collect::<Vec<_>>()).unwrap();
    refused("damaged");
    fs::write(&manifest, &whole).unwrap();
    let config = model.path().join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{text}\n")).unwrap();
    refused("files that have changed since");
    // The way out is one.
    assert_eq!(verify(&user, model.path(), "--seal").status.code(), Some(0));
    assert_eq!(verify(&user, model.path(), "").status.code(), Some(0));
}

#[test]
fn a_model_that_is_not_whole_cannot_be_sealed() {
    let user = User::new();
    let model = copy_of(&nano());
    fs::remove_file(model.path().join(SHARD)).unwrap();
    let output = verify(&user, model.path(), "--seal");
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("missing"), "{}", stderr(&output));
    assert!(!model.path().join(MANIFEST).exists());
}

#[test]
fn a_repair_of_the_small_model_outlives_its_seal() {
    let user = User::new();
    let seal = || user.command("verify --seal").output().unwrap();
    assert_eq!(seal().status.code(), Some(0));
    flip(&user.bundled().join(SHARD));
    let output = user.command("run --ids 2051 --max-tokens 1 --json").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(object(&output)["checked"], false, "the seal was of other files");
    assert_eq!(seal().status.code(), Some(0));
}
