use serde_json::{Map, Value, json};

use super::Inputs;
use crate::manual;

/// What an operation reads from these arguments, or why not.
fn read(operation: &str, pairs: &[&str]) -> Result<Value, String> {
    let pairs: Vec<String> = pairs.iter().map(|pair| (*pair).to_owned()).collect();
    let inputs = Inputs::of(manual::find(operation).unwrap());
    inputs.read(Map::new(), &pairs).map(Value::from).map_err(|failure| failure.told(false))
}

#[test]
fn the_schema_says_what_a_text_is() {
    let arguments = ["q=5", "limit=5", "suggest-threshold=0.5", "pathPrefix=notes"];
    let expected = json!({ "q": "5", "limit": 5, "suggest_threshold": 0.5, "path_prefix": "notes" });
    assert_eq!(read("search", &arguments).unwrap(), expected);
    assert_eq!(read("rename", &["update_links=false"]).unwrap(), json!({ "update_links": false }));
    assert_eq!(read("write", &["content="]).unwrap(), json!({ "content": "" }));
    assert_eq!(read("write", &["content=a=b"]).unwrap(), json!({ "content": "a=b" }));
}

#[test]
fn a_list_is_written_with_commas_or_as_json() {
    let files = json!([{ "path": "a.md", "content": "x, y" }]);
    assert_eq!(read("bulk_write", &[&format!("files={files}")]).unwrap(), json!({ "files": files }));
    assert_eq!(read("resolve_links", &["links=a, b,,c"]).unwrap(), json!({ "links": ["a", "b", "c"] }));
    assert_eq!(read("resolve_links", &["links=[\"a, b\"]"]).unwrap(), json!({ "links": ["a, b"] }));
}

#[test]
fn what_cannot_be_read_is_named() {
    for (operation, pair, why) in [
        ("search", "limit=1.5", "`limit`: `1.5` is not an integer"),
        ("search", "limit=", "`limit`: `` is not an integer"),
        ("search", "suggest_threshold=NaN", "`suggest_threshold`: `NaN` is not a number"),
        ("rename", "update_links=yes", "`update_links`: `yes` is not `true` or `false`"),
        ("bulk_write", "files=[", "`files`: `[` is not a JSON list"),
        ("search", "limit", "`limit` is no argument; write it like `name=value`"),
        ("search", "=5", "the operation has no argument ``"),
        ("search", "limits=5", "the operation has no argument `limits`; did you mean `limit`?"),
        ("toc", "zzz=5", "the operation has no argument `zzz`; it takes `path`"),
    ] {
        let told = read(operation, &[pair]).unwrap_err();
        assert!(told.contains(why), "{pair}: {told}");
    }
    assert!(read("toc", &["path=a", "path=b"]).unwrap_err().contains("`path` is given twice"));
}
