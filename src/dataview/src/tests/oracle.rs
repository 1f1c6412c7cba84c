use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde_json::Value as Json;

use super::vault::{MemoryVault, VaultFile};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/dataview")
}

fn json(path: &Path) -> Json {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn vault() -> MemoryVault {
    let files = json(&folder().join("files.json"));
    let time = |value: &Json| value.as_str().unwrap().parse::<Timestamp>().unwrap();
    let file = |(path, times): (&String, &Json)| -> VaultFile {
        let text = std::fs::read_to_string(folder().join("vault").join(path)).unwrap();
        (path.clone(), text, time(&times["ctime"]), time(&times["mtime"]))
    };
    MemoryVault::new(time(&files["now"]), files["files"].as_object().unwrap().iter().map(file).collect())
}

/// Numbers may differ in the last digits.
fn is_same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= 1e-9 * a.abs().max(1.0)
        }
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| is_same(a, b)))
        }
        (a, b) => a == b,
    }
}

#[test]
fn queries_give_what_the_independent_evaluator_gives() {
    let vault = vault();
    let (mut count, mut failures) = (0, Vec::new());
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(folder().join("queries")).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    for name in names {
        let expected = json(&folder().join("expected").join(name.file_name().unwrap()));
        for query in json(&name).as_array().unwrap() {
            let (id, text) = (query["id"].as_str().unwrap(), query["query"].as_str().unwrap());
            let wanted = &expected[id];
            let result = vault.run(query["page"].as_str(), text);
            let is_right = match &result {
                Ok(result) => is_same(&result.to_tagged_json(&|path| vault.resolve_path(path)), wanted),
                Err(_) => wanted["error"] == Json::Bool(true),
            };
            count += 1;
            if !is_right {
                let result = match result {
                    Ok(result) => result.to_tagged_json(&|path| vault.resolve_path(path)).to_string(),
                    Err(error) => error.to_string(),
                };
                failures.push(format!("{id}: {text}\n  expected {wanted}\n  result   {result}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} differ:\n{}", failures.len(), failures.join("\n"));
    assert!(count > 400, "{count} queries");
}
