use serde_json::json;

use super::*;
use crate::manual;

/// What an operation reads from these arguments beside `q`, or why not.
fn read_search(pairs: &[&str]) -> Result<Value, CommandFailure> {
    let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
    let given = Map::from_iter([("q".to_owned(), json!("given"))]);
    read(&OperationInputs::from_entry(manual::find("search").unwrap()), given, &pairs).map(Value::from)
}

#[test]
fn pairs_are_added_to_what_is_given() {
    let expected = json!({ "q": "given", "limit": 5, "path_prefix": "a=b" });
    assert_eq!(read_search(&["limit=5", "path-prefix=a=b"]).unwrap(), expected);
    assert_eq!(read_search(&["path-prefix="]).unwrap(), json!({ "q": "given", "path_prefix": "" }));
}

#[test]
fn what_cannot_be_read_is_a_wrong_command_line() {
    for (pair, why) in [
        ("limit", "unexpected argument `limit`; use name=value"),
        ("limit=1.5", "`limit`: `1.5` is not an integer"),
        ("=5", "unknown parameter ``"),
        ("limits=5", "unknown parameter `limits`; did you mean `limit`?"),
        ("query=b", "`q`: is given twice"),
    ] {
        let failure = read_search(&[pair]).unwrap_err();
        assert_eq!(failure.exit(), ExitStatus::Usage, "{pair}");
        assert!(failure.message(false).starts_with(&format!("svcfs: {why}")), "{pair}: {}", failure.message(false));
    }
}
