use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use svcfs_base::{Actor, Caller, ETag, Limit, Precondition, Protocol};
use svcfs_knowledge::kernel::{Operation, OperationContext, OperationEntry, Route};

use super::*;

/// Try every kind of parameter
#[derive(Deserialize, JsonSchema)]
#[expect(dead_code, reason = "only its schema and its arguments are looked at")]
struct Try {
    path: svcfs_base::TreePath,
    limit: Limit<5, 50>,
    threshold: Option<f64>,
    resolve_links: Option<bool>,
    tags: Option<Vec<String>>,
    levels: Option<Vec<i64>>,
    order: Option<Order>,
    content: String,
    r#where: Option<OneOrMore>,
    is_link: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is looked at")]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    Asc,
    Desc,
}

#[derive(Serialize, JsonSchema)]
struct Nothing {}

impl Operation for Try {
    const NAME: &'static str = "try";
    const ALIASES: &'static [(&'static str, &'static str)] = &[("page", "path")];
    type Output = Nothing;
    fn run(self, _: &OperationContext<'_>) -> Result<Nothing, Fault> {
        Ok(Nothing {})
    }
}

const GET: Route = Route::get("/try/{path}");
const PUT: Route = Route::put("/try").raw("content").media_flag("application/x-link", "is_link");
const POST: Route = Route::post("/try").query(&["limit"]);

fn bind(route: &Route, query: &str, content: ParsedBody) -> Result<Value, Fault> {
    arguments(route, &OperationInputs::from_entry(&OperationEntry::new::<Try>()), parse_query(query)?, content)
}

fn members(value: Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

#[test]
fn query_texts_become_what_the_schema_says() {
    let query = "path=a+b%2Fc.md&limit=7&threshold=0.5&resolve-links=true&tags=x,%20y,,z&levels=1,2&order=desc";
    let object = bind(&GET, query, ParsedBody::NoBody).unwrap();
    let expected = json!({
        "path": "a b/c.md", "limit": 7, "threshold": 0.5, "resolve_links": true,
        "tags": ["x", "y", "z"], "levels": [1, 2], "order": "desc",
    });
    assert_eq!(object, expected);
    let object = bind(&GET, "resolveLinks=0&path", ParsedBody::NoBody).unwrap();
    assert_eq!(object, json!({ "resolve_links": false, "path": "" }));
}

#[test]
fn a_list_may_be_given_in_several_parameters() {
    for (query, object) in [
        ("where=a,b", json!({ "where": "a,b" })),
        ("where=a,b&where=c", json!({ "where": ["a,b", "c"] })),
        ("where=a&where=b&where=c", json!({ "where": ["a", "b", "c"] })),
        ("tags=x,y&tags=z", json!({ "tags": ["x", "y", "z"] })),
    ] {
        assert_eq!(bind(&GET, query, ParsedBody::NoBody).unwrap(), object, "{query}");
    }
}

#[test]
fn an_input_is_known_under_its_other_name_too() {
    assert_eq!(bind(&GET, "page=a.md", ParsedBody::NoBody).unwrap(), json!({ "path": "a.md" }));
    let fault = bind(&GET, "page=a.md&path=b.md", ParsedBody::NoBody).unwrap_err();
    assert_eq!(fault.message(), "`path`: is given twice");
    let body = ParsedBody::Json(members(json!({ "page": "a.md" })));
    assert_eq!(bind(&POST, "", body).unwrap(), json!({ "page": "a.md" }), "the operation knows the name");
    let inputs = OperationInputs::from_entry(&OperationEntry::new::<Try>());
    let fault = inputs.check_names(&members(json!({ "actr": "me" })), &["actor"]).unwrap_err();
    assert_eq!(fault.message(), "unknown parameter `actr`; did you mean `actor`?");
}

#[test]
fn the_type_of_a_body_may_say_what_it_is() {
    for (mime, is_link) in [
        ("application/x-link", true),
        ("Application/X-Link; charset=utf-8", true),
        ("application/x-links", false),
        ("text/markdown", false),
        ("", false),
    ] {
        let found = media_flag(&PUT, &headers(&[("Content-Type", mime.as_bytes())]));
        assert_eq!(found, is_link.then(|| ("is_link".to_owned(), "true".to_owned())), "{mime}");
    }
    assert_eq!(media_flag(&PUT, &HeaderMap::new()), None);
    assert_eq!(media_flag(&POST, &headers(&[("Content-Type", b"application/x-link")])), None);
}

#[test]
fn a_text_that_cannot_be_read_is_refused_by_name() {
    for (query, message) in [
        ("limit=many", "`limit`: `many` is not an integer"),
        ("limit=", "`limit`: `` is not an integer"),
        ("limit=1.5", "`limit`: `1.5` is not an integer"),
        ("threshold=NaN", "`threshold`: `NaN` is not a number"),
        ("threshold=1e999", "`threshold`: `1e999` is not a number"),
        ("resolve_links=yes", "`resolve_links`: `yes` is not `true` or `false`"),
        ("levels=1,b", "`levels`: `1,b` is not an integer"),
        ("limit=1&limit=2", "`limit`: is given twice"),
        ("resolve_links=1&resolve-links=1", "`resolve_links`: is given twice"),
        ("pth=a.md", "unknown parameter `pth`; did you mean `path`?"),
        ("content=x&zz=1", "unknown parameter `zz`; valid parameters:"),
        ("path=%ff", "`%ff` is not valid UTF-8 once percent-decoded"),
        ("limit=\u{1b}[31m", "`limit`: `\\u{1b}[31m` is not an integer"),
    ] {
        let fault = bind(&GET, query, ParsedBody::NoBody).unwrap_err();
        assert_eq!(fault.kind(), Kind::Invalid);
        assert!(fault.message().starts_with(message), "{query}: {fault}");
    }
}

#[test]
fn a_raw_body_becomes_its_field_and_only_from_the_body() {
    let object = bind(&PUT, "path=a.md", ParsedBody::Raw("# é".into())).unwrap();
    assert_eq!(object, json!({ "path": "a.md", "content": "# é" }));
    let fault = bind(&PUT, "path=a.md&content=x", ParsedBody::Raw("y".into())).unwrap_err();
    assert_eq!(fault.message(), "`content`: belongs in the body, not in the query");
    let fault = bind(&PUT, "path=a.md", ParsedBody::Raw(Bytes::from_static(b"ab\xff"))).unwrap_err();
    assert_eq!(fault.message(), "the body is not valid UTF-8 at byte 2; text is needed here");
}

#[test]
fn bytes_go_into_an_input_that_takes_them() {
    assert_eq!(raw_value(Bytes::from_static(b"\xff\x00"), true).unwrap(), json!({ "base64": "/wA=" }));
    assert_eq!(raw_value(Bytes::from_static(b"text"), true).unwrap(), json!("text"));
}

#[test]
fn a_json_body_and_the_query_become_one_object() {
    let body = || ParsedBody::Json(members(json!({ "path": "a.md", "content": "x" })));
    let object = bind(&POST, "limit=3", body()).unwrap();
    assert_eq!(object, json!({ "limit": 3, "path": "a.md", "content": "x" }));
    for (query, body, message) in [
        ("path=a.md", json!({}), "`path`: belongs in the body, not in the query"),
        ("limit=3", json!({ "limit": 4 }), "`limit`: is given twice"),
        ("", json!({ "contents": "x" }), "unknown parameter `contents`; did you mean `content`?"),
    ] {
        let fault = bind(&POST, query, ParsedBody::Json(members(body))).unwrap_err();
        assert_eq!(fault.message(), message);
    }
}

#[test]
fn a_json_body_is_an_object_or_nothing() {
    assert_eq!(json_object(b" \n").unwrap(), Map::new());
    for (body, message) in [
        (&b"[1]"[..], "the body must be a JSON object"),
        (b"{\"a\":", "the body is not valid JSON: "),
        (b"\xff", "the body is not valid JSON: "),
    ] {
        let fault = json_object(body).unwrap_err();
        assert!(fault.kind() == Kind::Invalid && fault.message().starts_with(message), "{fault}");
    }
    let deep = "[".repeat(100_000);
    assert!(json_object(deep.as_bytes()).is_err());
}

fn body_of(parts: Vec<Result<Bytes, String>>) -> UnreadBody {
    UnreadBody::new(Box::pin(stream::iter(parts)), &HeaderMap::new())
}

#[tokio::test]
async fn a_body_is_read_up_to_its_limit() {
    let parts = || vec![Ok(Bytes::from_static(b"abc")), Ok(Bytes::from_static(b"de"))];
    assert_eq!(read(body_of(parts()), 5, "file").await.unwrap(), "abcde");
    let fault = read(body_of(parts()), 4, "file").await.unwrap_err();
    assert_eq!(fault.kind(), Kind::TooLarge);
    let parts = vec![Ok(Bytes::from_static(b"abc")), Err("reset".to_owned())];
    let fault = read(body_of(parts), 5, "file").await.unwrap_err();
    assert_eq!((fault.kind(), fault.message()), (Kind::Invalid, "file broke off after 3 bytes"));
}

#[tokio::test]
async fn a_page_of_33_mib_is_refused_in_the_contracts_words() {
    let parts = vec![Ok(Bytes::from(vec![b'a'; 1 << 20])); 33];
    let fault = read_body(&PUT, &HeaderMap::new(), body_of(parts)).await.unwrap_err();
    assert_eq!((fault.kind().http(), fault.message()), (413, "file exceeds 32 MB limit"));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_arriving_is_given_up() {
    let body = UnreadBody::new(Box::pin(stream::pending()), &HeaderMap::new());
    let fault = read(body, 5, "file").await.unwrap_err();
    assert_eq!(fault.message(), "file arrived too slowly, or not at all: 0 bytes in 30 s");
}

#[tokio::test]
async fn a_client_that_asks_first_is_refused_before_it_sends() {
    let length = (33 << 20).to_string();
    let asking = headers(&[("Expect", b"100-continue"), ("Content-Length", length.as_bytes())]);
    let fault =
        read_body(&PUT, &HeaderMap::new(), UnreadBody::new(Box::pin(stream::pending()), &asking)).await.unwrap_err();
    assert_eq!(fault.kind(), Kind::TooLarge);
}

fn headers(lines: &[(&str, &[u8])]) -> HeaderMap {
    let line = |(name, value): &(&str, &[u8])| {
        let name: HeaderName = name.parse().unwrap();
        (name, HeaderValue::from_bytes(value).unwrap())
    };
    let mut headers = HeaderMap::new();
    for (name, value) in lines.iter().map(line) {
        headers.append(name, value);
    }
    headers
}

fn expectation_of(lines: &[(&str, &[u8])], is_reading: bool) -> Result<Precondition, Fault> {
    from_headers(&headers(lines), is_reading).map(|caller| caller.precondition)
}

#[test]
fn headers_tell_who_asks() {
    let given = headers(&[("X-Actor", "agent:Zoë ".as_bytes()), ("X-Provenance", b"run:249")]);
    let caller = from_headers(&given, false).unwrap();
    assert_eq!(caller.actor().as_str(), "agent:Zoë");
    assert_eq!(caller.provenance.unwrap().to_string(), "run:249");
    let caller = from_headers(&headers(&[("X-Provenance", b"nonsense")]), false).unwrap();
    assert_eq!((caller.actor().as_str(), caller.provenance), ("anonymous", None));
    let fault = from_headers(&headers(&[("X-Actor", b"\xff")]), false).unwrap_err();
    assert_eq!(fault.message(), "`X-Actor`: is not valid UTF-8");
}

#[test]
fn preconditions_are_read_strictly() {
    let etag = ETag::from_content(b"x");
    let (plain, quoted) = (etag.to_string(), format!("\"{etag}\""));
    for text in [&plain, &quoted] {
        let expect = expectation_of(&[("If-Match", text.as_bytes())], false).unwrap();
        assert_eq!(expect, Precondition::OneOf(vec![etag]));
    }
    let both = [("If-Match", plain.as_bytes()), ("If-Match", quoted.as_bytes())];
    assert_eq!(expectation_of(&both, false).unwrap(), Precondition::OneOf(vec![etag, etag]));
    assert_eq!(expectation_of(&[("If-Match", b"*")], false).unwrap(), Precondition::Present);
    assert_eq!(expectation_of(&[("If-None-Match", b"*")], false).unwrap(), Precondition::Absent);
    assert_eq!(expectation_of(&[("If-None-Match", b"\"whatever\"")], true).unwrap(), Precondition::Any);
    for other in [&b""[..], b"\"\"", b"abc", b",", b"\"abc\"", b"1700000000000", b"W/", b"\xff", b"*, \"abc\""] {
        // What is no ETag matches nothing (gaps.md D46).
        assert_eq!(
            expectation_of(&[("If-Match", other)], false).unwrap(),
            Precondition::OneOf(Vec::new()),
            "{other:?}"
        );
        let created = if other.starts_with(b"*") { Precondition::Absent } else { Precondition::Any };
        assert_eq!(expectation_of(&[("If-None-Match", other)], false).unwrap(), created, "{other:?}");
    }
    let beside = [("If-Match", &b"nope"[..]), ("If-Match", plain.as_bytes()), ("If-None-Match", b"nope")];
    assert_eq!(expectation_of(&beside, false).unwrap(), Precondition::OneOf(vec![etag]));
    let another = [("If-None-Match", plain.as_bytes())];
    assert_eq!(expectation_of(&another, false).unwrap_err().kind(), Kind::Invalid);
}

#[test]
fn conditions_that_contradict_each_other_fail_as_conditions_do() {
    for tag in [b"*".to_vec(), b"nope".to_vec(), ETag::from_content(b"x").to_string().into_bytes()] {
        let lines = [("If-Match", &tag[..]), ("If-None-Match", b"*")];
        assert_eq!(expectation_of(&lines, false).unwrap_err().kind(), Kind::PreconditionFailed);
    }
}

#[test]
fn a_tools_attribution_is_lifted_out_of_its_arguments() {
    let etag = ETag::from_content(b"x").to_string();
    let given = json!({ "path": "a.md", "actor": "agent:1", "provenance": "run:7", "if_match": etag });
    let mut arguments = members(given);
    let caller = from_arguments(&mut arguments, |_| false).unwrap();
    assert_eq!(arguments, members(json!({ "path": "a.md" })));
    assert_eq!((caller.protocol, caller.actor()), (Protocol::Mcp, Actor::new("agent:1")));
    assert_eq!(caller.precondition, Precondition::OneOf(vec![ETag::from_content(b"x")]));
    assert_eq!(Caller::new(Protocol::Mcp).actor().as_str(), "mcp-agent");
    let mut own = members(json!({ "actor": "me" }));
    assert_eq!(from_arguments(&mut own, |name| name == "actor").unwrap().actor, None);
    assert!(own.contains_key("actor"));
    let mut wrong = members(json!({ "actor": 7 }));
    assert_eq!(from_arguments(&mut wrong, |_| false).unwrap_err().message(), "`actor`: must be a text");
}
