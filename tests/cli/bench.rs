//! `dormouse bench`, and what a plan makes of it.

use std::fs;

use crate::nano::nano;
use crate::support::{User, object, stderr, stdout};

#[test]
fn a_disk_is_measured_and_the_plan_knows() {
    let user = User::new();
    // Beside the build, since a folder of temporary files may lie in memory.
    let target = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let arguments = "bench disk --size 64MiB --seconds 1 --json --target";
    let output = user.command(arguments).arg(target.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = object(&output);
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len() as u64 + report["skipped"].as_u64().unwrap(), 60);
    assert!(points.len() > 10, "{report}");
    for point in points {
        let rate = point["bytes"].as_f64().unwrap() / point["seconds"].as_f64().unwrap();
        assert!((point["bytes_per_s"].as_f64().unwrap() / rate - 1.0).abs() < 1e-6);
        // Distinct offsets: no point reads more than there is.
        assert!(point["bytes"].as_u64().unwrap() <= 64 << 20, "{point}");
    }
    assert!(report["best"]["bytes_per_s"].as_f64().unwrap() > 0.0);
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0, "the file is deleted again");

    // A model in that folder has this disk.
    for entry in fs::read_dir(nano()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), target.path().join(entry.file_name())).unwrap();
    }
    for (reader, best) in
        [("buffered", "best_buffered"), ("mmap", "best_buffered"), ("direct", "best_direct")]
    {
        let mut command = user.command(&format!("plan --json --reader {reader} --model"));
        let plan = object(&command.arg(target.path()).output().unwrap());
        let (disk, best) = (&plan["token"]["disk"], &report[best]);
        assert_eq!(disk["measured"], !best.is_null(), "{reader}");
        if !best.is_null() {
            let (known, measured) =
                (disk["bytes_per_s"].as_f64().unwrap(), best["bytes_per_s"].as_f64().unwrap());
            assert!((known - measured).abs() <= 1.0, "{reader}: {known} {measured}");
        }
    }
    let text = stdout(&user.command("plan --model").arg(target.path()).output().unwrap());
    assert!(text.contains(", measured on 20"), "{text}");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let user = User::new();
    let output = user.command("bench disk").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--target"), "{}", stderr(&output));
    let output = user.command("bench disk --model").arg(nano()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("64.0 MiB at least"), "{}", stderr(&output));
    let output = user.command("bench disk --size 64MiB --target").arg(user.path("none")).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    for arguments in ["bench", "bench disk --seconds 0", "bench disk --size 1GiB", "bench decode --tokens 0"]
    {
        assert_eq!(user.command(arguments).output().unwrap().status.code(), Some(2), "{arguments}");
    }
}

#[test]
fn decoding_is_timed_token_by_token() {
    let user = User::new();
    let run = |arguments: &str| {
        let output = user.command(&format!("bench decode {arguments} --model")).arg(nano()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        output
    };
    // More than one turn of this model, which stops by itself before long.
    let report = object(&run("--tokens 60 --memory 60MiB --json"));
    let seconds: Vec<f64> =
        report["decode_s"].as_array().unwrap().iter().map(|seconds| seconds.as_f64().unwrap()).collect();
    assert_eq!(seconds.len(), 60);
    let (least, median, most) = (
        report["least_s"].as_f64().unwrap(),
        report["median_s"].as_f64().unwrap(),
        report["most_s"].as_f64().unwrap(),
    );
    assert!(0.0 < least && least <= median && median <= most);
    assert_eq!(report["budget"], 60 << 20);
    assert!(report["peak_rss"].as_u64().unwrap() > 1 << 20);
    assert!(report["bytes_per_token"]["experts"].as_f64().unwrap() >= 0.0);
    assert!((0.0..=1.0).contains(&report["waited_share"].as_f64().unwrap()), "{report}");
    assert!(report["disk"].is_null());
    assert_eq!(report["plan"]["budget"], 60 << 20);
    let text = stdout(&run("--tokens 3"));
    for name in ["prompt", "a token", "median of 3", "from the disk", "waited for it", "memory"] {
        assert!(text.contains(name), "{name} is not in\n{text}");
    }
    let output = user.command("bench decode --tokens 50 --context 40 --model").arg(nano()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
}

#[test]
fn the_arithmetic_is_measured_beside_memory() {
    let user = User::new();
    let output = user.command("bench kernels --repeats 1 --json").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = object(&output);
    let lines = report["kernels"].as_array().unwrap();
    // The limit comes first, on one thread first; shares are of what was read in the same moments.
    assert_eq!((lines[0]["kernel"].as_str(), lines[0]["threads"].as_u64()), (Some("read limit"), Some(1)));
    for line in lines {
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        let (rate, limit) = (number(&line["gb_s"]["median"]), number(&line["read_limit_gb_s"]));
        assert!(rate > 0.0 && rate.is_finite() && limit > 0.0, "{line}");
        assert!((number(&line["of_read_limit"]) - rate / limit).abs() < 1e-6, "{line}");
    }
    assert_eq!(user.command("bench kernels --repeats 0").output().unwrap().status.code(), Some(2));
}
