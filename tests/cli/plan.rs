//! `dormouse plan`, and the settings that it shows.

use serde_json::Value;

use crate::nano::nano;
use crate::support::{User, object, stderr, stdout, tiny};

/// The plan for the small model of the repository, which must be made.
fn planned(user: &User, arguments: &str) -> Value {
    let mut command = user.command(&format!("plan --json {arguments} --model"));
    let output = command.arg(nano()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    object(&output)
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_plan_says_what_every_byte_is_for() {
    let user = User::new();
    let plan = planned(&user, "--memory 60MiB --context 2048");
    assert_eq!(plan["fits"], true);
    assert_eq!(plan["budget"], 60 << 20);
    assert_eq!(plan["context"], 2048);
    assert_eq!(plan["machine"]["has_budget"], true);
    assert!(number(&plan["machine"]["available"]) <= number(&plan["machine"]["total"]));
    let memory = plan["memory"].as_object().unwrap();
    let sum: u64 = memory.iter().filter(|(name, _)| *name != "planned").map(|(_, bytes)| number(bytes)).sum();
    assert_eq!(number(&plan["memory"]["planned"]), sum);
    assert!(sum <= 60 << 20, "{plan}");
    let experts = &plan["experts"];
    assert_eq!(number(&experts["slots"]) * number(&experts["slot_bytes"]), number(&memory["experts"]));
    let token = &plan["token"];
    assert!(token["seconds"].as_f64().unwrap() > 0.0);
    assert!(token["bound"] == "disk" || token["bound"] == "compute");
    assert_eq!(token["disk"]["measured"], false);
    assert!(number(&token["touched"]) > number(&token["bytes"]["experts"]));
    assert!(!user.path("data").exists(), "the small model is not laid out where another one is named");
}

#[test]
fn more_memory_reads_less() {
    let user = User::new();
    let smallest = number(&planned(&user, "")["smallest"]);
    let plans = [0, 4 << 20, 1 << 30].map(|more| planned(&user, &format!("--memory {}", smallest + more)));
    let read = plans.each_ref().map(|plan| {
        let bytes = &plan["token"]["bytes"];
        (number(&bytes["trunk"]), number(&bytes["experts"]))
    });
    assert!(read[0].0 > read[1].0 && read[1].0 >= read[2].0, "{read:?}");
    assert!(read[0].1 >= read[1].1 && read[1].1 > read[2].1, "{read:?}");
    assert_eq!(plans[0]["experts"]["only_buffer"], true);
    assert_eq!(plans[2]["experts"]["only_buffer"], false);
    assert_eq!(plans[2]["experts"]["slots"], plans[2]["experts"]["total"]);
}

#[test]
fn presets_are_budgets() {
    let user = User::new();
    for (name, gigabytes) in
        [("ultra", 3), ("laptop", 8), ("desktop", 32), ("workstation", 96), ("server", 128), ("max", 224)]
    {
        let plan = planned(&user, &format!("--preset {name}"));
        assert_eq!(number(&plan["budget"]), gigabytes * 1_000_000_000, "{name}");
        let has = number(&plan["machine"]["total"]) >= number(&plan["budget"]);
        assert_eq!(plan["machine"]["has_budget"], has, "{name}");
    }
    let auto = planned(&user, "--preset auto");
    assert!(number(&auto["budget"]) < number(&auto["machine"]["available"]));
    // The environment is weaker than a flag, whichever of the two words it uses.
    let mut command = user.command("plan --json --preset ultra --model");
    let output = command.arg(nano()).env("DORMOUSE_MEMORY", "1GiB").output().unwrap();
    assert_eq!(object(&output)["budget"], 3_000_000_000_u64);
    let mut command = user.command("plan --json --model");
    let output = command.arg(nano()).env("DORMOUSE_PRESET", "laptop").output().unwrap();
    assert_eq!(object(&output)["budget"], 8_000_000_000_u64);
}

#[test]
fn what_does_not_fit_is_refused_with_a_budget_that_does() {
    let user = User::new();
    let run =
        |arguments: &str| user.command(&format!("plan {arguments} --model")).arg(nano()).output().unwrap();
    for context in ["", "--context 4096"] {
        let output = run(&format!("--memory 5MiB --json {context}"));
        assert_eq!(output.status.code(), Some(4));
        let refused = object(&output);
        assert_eq!(refused["fits"], false);
        let smallest = number(&refused["smallest"]);
        assert_eq!(smallest, (5 << 20) + number(&refused["shortfall"]));
        assert!(stderr(&output).contains("the budget is 5.00 MiB"), "{}", stderr(&output));
        // That one is enough, and one byte less is not.
        let output = run(&format!("--memory {smallest} --json {context}"));
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(number(&object(&output)["smallest"]), smallest);
        let output = run(&format!("--memory {} --json {context}", smallest - 1));
        assert_eq!((output.status.code(), number(&object(&output)["shortfall"])), (Some(4), 1));
    }
    let output = run("--memory 5MiB");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(4), ""));
}

#[test]
fn the_table_names_everything() {
    let user = User::new();
    let output = user.command("plan --memory 60MiB --model").arg(tiny()).output().unwrap();
    let text = stdout(&output);
    for name in [
        "Machine",
        "Budget",
        "program",
        "state",
        "context",
        "state held",
        "copies",
        "activations",
        "vectors",
        "tile buffers",
        "pinned trunk",
        "expert slots",
        "in all",
        "A token",
        "from the disk",
        "multiplied",
        "which is assumed",
        "States on disk",
        "of a full context",
    ] {
        assert!(text.contains(name), "{name} is not in\n{text}");
    }
    let far = user.command("plan --preset max --model").arg(tiny()).output().unwrap();
    let machine =
        object(&user.command("plan --json --model").arg(tiny()).output().unwrap())["machine"]["total"]
            .clone();
    assert_eq!(stdout(&far).contains("this machine has less"), number(&machine) < 224_000_000_000);
}

#[test]
fn a_run_tells_the_plan_that_it_went_by() {
    let user = User::new();
    let report = user.json("--prompt Hello! --max-tokens 2 --memory 60MiB --context 1000 --reader buffered");
    let mut plan = planned(&user, "--memory 60MiB --context 1000");
    let mut told = report["plan"].clone();
    // What is free changes from one moment to the next.
    for plan in [&mut plan, &mut told] {
        plan["machine"]["available"] = Value::Null;
    }
    assert_eq!(told, plan);
    assert_eq!(report["reader"], "buffered");
    let mapped = user.json("--prompt Hello! --max-tokens 2 --reader mmap");
    assert_eq!(mapped["reader"], "mmap");
    // The context is a limit that holds.
    let ids = vec!["300"; 20].join(",");
    let output = user.run(&format!("--ids {ids} --context 20"));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("the prompt has 20 tokens"), "{}", stderr(&output));
}
