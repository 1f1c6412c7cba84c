//! What a hostile or careless caller might send.

use serde_json::{Value, json};

/// Paths nobody may read or write through a network door; all of them are refused.
pub fn paths() -> Vec<String> {
    let mut paths: Vec<String> = serde_json::from_str(include_str!("../corpora/paths.json")).unwrap();
    paths.push("x".repeat(300));
    paths.push(format!("{}/a.md", "é".repeat(150)));
    paths.push("a/".repeat(3000));
    paths
}

/// The same and more, as they stand in the first line of a request.
pub fn targets() -> Vec<String> {
    serde_json::from_str(include_str!("../corpora/targets.json")).unwrap()
}

/// Texts that mean something to somebody: to a parser, a database, a shell, a terminal.
pub fn texts() -> Vec<String> {
    let mut texts: Vec<String> = [
        "",
        " ",
        "\0",
        "\r\n",
        "'",
        "\"",
        "\"unclosed",
        "'; DROP TABLE pages; --",
        "((((",
        "))))",
        "AND",
        "NOT NOT NOT",
        "OR OR",
        "a AND",
        "NEAR(a b, 99999999999)",
        "*",
        "**",
        "^",
        "$",
        "$.",
        "$[",
        "$..*",
        "$.a = ",
        "$.a = \"",
        "$.a.b.c.d = 1 AND",
        "a:b",
        "{}",
        "[]",
        "null",
        "true",
        "-1",
        "0",
        "1.5",
        "1e400",
        "NaN",
        "99999999999999999999999",
        "-9223372036854775809",
        "2026-13-45",
        "\u{202e}evil",
        "\u{feff}",
        "🦀",
        "%",
        "%zz",
        "%00",
        "${HOME}",
        "$(id)",
        "`id`",
        "<script>alert(1)</script>",
        "HEAD",
        "HEAD~1",
        "--all",
        "-",
        "@{u}",
        ":/",
        "0000000000000000000000000000000000000000",
    ]
    .map(str::to_owned)
    .to_vec();
    texts.push("a".repeat(10_000));
    texts.push("(".repeat(5_000));
    texts.push("a OR ".repeat(2_000));
    texts
}

/// JSON values that are no text.
pub fn values() -> Vec<Value> {
    let deep = (0..100).fold(json!(0), |inside, _| json!([inside]));
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e300),
        json!([]),
        json!([[], {}, null]),
        json!({}),
        json!({ "path": { "path": {} } }),
        json!({ "base64": "***" }),
        json!(["a.md", 1]),
        deep,
    ]
}

/// Bodies that are not what a JSON route reads.
pub fn bodies() -> Vec<Vec<u8>> {
    let mut bodies: Vec<Vec<u8>> = [
        "",
        "{",
        "[]",
        "null",
        "1",
        "\"text\"",
        "{\"a\":1}{\"b\":2}",
        "{\"path\":\"a.md\",\"path\":\"b.md\"}",
        "\u{feff}{}",
        "{\"\":1}",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec();
    bodies.push(b"{\"path\":\"\xff\xfe\"}".to_vec());
    bodies.push(b"\xff\xfe\x00".to_vec());
    bodies.push([b"[".repeat(100_000), b"]".repeat(100_000)].concat());
    bodies.push([b"{\"path\":".repeat(50_000), b"1".to_vec(), b"}".repeat(50_000)].concat());
    bodies
}
