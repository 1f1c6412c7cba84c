//! Headers that dav-server reads otherwise than the standards, or not at all: what it cannot read
//! it takes for not there, and does without a condition what was to be done under one.

use super::*;

const GOOD: &str = "# good\n";

impl Served {
    /// What a request is answered that goes over the wire as it is; none where the connection ends
    /// instead.
    fn raw(&self, method: &str, target: &str, headers: &[u8]) -> Option<u16> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let body = if method == "PUT" { "# B\n" } else { "" };
        let length = body.len();
        write!(
            stream,
            "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n"
        )
        .unwrap();
        stream.write_all(&[headers, b"\r\n\r\n", body.as_bytes()].concat()).unwrap();
        let mut answer = Vec::new();
        let _closed_early = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).get(9..12)?.parse().ok()
    }

    #[track_caller]
    fn refuses(&self, method: &str, target: &str, headers: &[u8]) {
        let status = self.raw(method, target, headers);
        assert_eq!(status, Some(400), "{method} {target} {}", String::from_utf8_lossy(headers));
    }
}

/// Numbers as if by chance, the same each time.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

/// Shows: DAV-6
#[test]
fn no_condition_is_ignored_whatever_its_form() {
    let served = Served::new();
    served.put("/a.md", GOOD);
    let mut conditions: Vec<String> = [
        "([ \"e\" ])",
        "([\"a b\"])",
        "(<abc>)",
        "<foo> ([\"e\"])",
        "(< urn:x >)",
        "(<a\"b>)",
        "(<urn:x\"b>)",
        "(<urn:x",
        "</a.md> ([\"e\"]) ([\"f\"])",
        "<urn:x> ([\"e\"])",
        "<//a.md> ([\"e\"])",
        "([W/\"e\"])",
        "([\"\"])",
        "([\"])",
        "(urn:x)",
    ]
    .map(str::to_owned)
    .to_vec();
    // None of these holds, whatever they come to.
    let pieces = [
        "(",
        ")",
        "(",
        ")",
        "<",
        ">",
        "[\"",
        "\"]",
        "\"",
        " ",
        "\t",
        "W/",
        "e",
        ":",
        "urn:x",
        "/a.md",
        "http://h/",
        "]",
    ];
    let mut chance = Chance(1);
    for _ in 0..1500 {
        let length = 1 + chance.below(9);
        conditions.push((0..length).map(|_| pieces[chance.below(pieces.len())]).collect());
    }
    let lists = [
        "([\"e\"])",
        "(<urn:x>)",
        "([ \"e f\" ]<urn:y>)",
        "( < urn:z > )",
        "<http://h/a.md>",
        "</a.md>",
        "<urn:x>",
        " ",
    ];
    for _ in 0..500 {
        let length = 1 + chance.below(4);
        conditions.push((0..length).map(|_| lists[chance.below(lists.len())]).collect());
    }
    let mut held = 0;
    for condition in conditions {
        let status = served.raw("PUT", "/a.md", format!("If: {condition}").as_bytes());
        assert!(matches!(status, Some(400 | 412)), "If: {condition}: {status:?}");
        held += usize::from(status == Some(412));
    }
    assert!(held > 100, "{held} were read");
    assert_eq!(served.text("a.md").as_deref(), Some(GOOD));
}

/// Shows: DAV-6
#[test]
fn no_list_of_tags_is_ignored_whatever_its_form() {
    let served = Served::new();
    served.put("/a.md", GOOD);
    let mut chance = Chance(2);
    for name in ["If-Match", "If-None-Match"] {
        for _ in 0..300 {
            let pieces = ["\"", "\"", "e", "W/", ",", " ", "\"e\"", "*"];
            let length = 1 + chance.below(6);
            let tags: String = (0..length).map(|_| pieces[chance.below(pieces.len())]).collect();
            let status = served.raw("PUT", "/a.md", format!("{name}: {tags}").as_bytes());
            let parts: Vec<&str> = tags.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
            let expected = match (name, parts.contains(&"*")) {
                ("If-Match", _) if parts == ["*"] => Some(204),
                ("If-Match", _) => Some(412),
                // It is in quotes, or it is never taken for none.
                (_, true) if tags.contains('"') => status.filter(|status| matches!(status, 204 | 412)),
                (_, has_any) => Some(if has_any { 412 } else { 204 }),
            };
            assert!(status.is_some() && status == expected, "{name}: {tags}: {status:?}");
            served.put("/a.md", GOOD);
        }
    }
}

/// Shows: COND-3
#[test]
fn tags_that_are_none_match_nothing_and_end_no_connection() {
    let served = Served::new();
    for tags in [
        &b"\""[..],
        b"W/\"",
        b"W/",
        b"nope",
        b"\"a",
        b"\"\xe9\"",
        b"\"a\", \"",
        b"\"a\" \"b\"",
        b"",
        b",",
        b"1700000000000",
    ] {
        for method in ["PUT", "DELETE", "GET", "HEAD", "PROPFIND", "MKCOL", "LOCK"] {
            served.put("/a.md", GOOD);
            let (target, body_free) = if method == "MKCOL" { ("/new", 201) } else { ("/a.md", 0) };
            let held = served.raw(method, target, &[b"Depth: 0\r\nIf-None-Match: ", tags].concat());
            let expected = match method {
                "MKCOL" => body_free,
                "GET" | "HEAD" => 200,
                "PROPFIND" => 207,
                // It has no body, which is the renewal of a lock: refused for that.
                "LOCK" => 400,
                _ => 204,
            };
            assert_eq!(held, Some(expected), "{method} {}", String::from_utf8_lossy(tags));
            served.send("DELETE", "/new", &[], "");
        }
        served.put("/a.md", GOOD);
        for method in ["PUT", "DELETE", "GET"] {
            let refused = served.raw(method, "/a.md", &[b"If-Match: ", tags].concat());
            assert_eq!(refused, Some(412), "{method} {}", String::from_utf8_lossy(tags));
        }
        assert_eq!(served.text("a.md").as_deref(), Some(GOOD));
    }
    assert_eq!(served.raw("PUT", "/a.md", b"If-None-Match: *, nope"), Some(412), "it was to be created only");
    served.refuses("PUT", "/a.md", b"If: (<urn:x>)\r\nIf: (<urn:x>)");
    served.refuses("PUT", "/a.md", b"If: ([\"\xe9\"])");
    assert_eq!(served.text("a.md").as_deref(), Some(GOOD));
    let tag = ETag::from_content(GOOD.as_bytes());
    // A comma ends no tag; in the longer way of several headers; weak, which is good enough for
    // this one (RFC 9110 13.1.2).
    let with = |headers: &str| served.raw("PUT", "/a.md", headers.as_bytes());
    assert_eq!(with("If-Match: \"a,\", \"b\""), Some(412));
    assert_eq!(with(&format!("If-None-Match: \"a\"\r\nIf-None-Match: W/\"{tag}\"")), Some(412));
    assert_eq!(with(&format!("If-Match: W/\"{tag}\"")), Some(412));
    assert_eq!(with(&format!("If-Match: , \"a,\" ,\"{tag}\"")), Some(204));
    // What says nothing of which part is wanted is answered with all of it.
    for odd in ["\"", "W/\"", "nope", "\"a\"b\""] {
        let reply = served.send("GET", "/a.md", &[("range", "bytes=0-1"), ("if-range", odd)], "");
        assert_eq!((reply.status, reply.text().as_str()), (200, "# B\n"), "{odd}");
    }
    let tag = format!("\"{}\"", ETag::from_content(b"# B\n"));
    assert_eq!(served.send("GET", "/a.md", &[("range", "bytes=0-1"), ("if-range", &tag)], "").text(), "# ");
}

/// Shows: DAV-6
#[test]
fn a_resource_is_meant_by_all_conditions_up_to_the_next() {
    let served = Served::new();
    served.put("/a.md", GOOD);
    served.put("/b.md", "# other\n");
    let [this, other] = [GOOD, "# other\n"].map(|text| format!("([\"{}\"])", ETag::from_content(text.as_bytes())));
    let put = |condition: String| served.send("PUT", "/a.md", &[("if", &condition)], GOOD).status;
    assert_eq!(put(format!("</b.md> ([\"x\"]) {this}")), 412);
    assert_eq!(put(format!("</b.md> ([\"x\"]) {other}")), 204);
    assert_eq!(put(format!("</b.md> ([\"x\"]) {other} </a.md> {other}")), 204);
    assert_eq!(put(format!("</b.md> {this} <http://h/a.md>{other}{this}")), 204);
    assert_eq!(put(format!("(NOT <DAV:no-lock> [ {} ])", this.trim_matches(['(', '[', ']', ')']))), 204);
}

/// Shows: DAV-6
#[test]
fn overwrite_protection_works_in_every_spelling() {
    let served = Served::new();
    for method in ["COPY", "MOVE"] {
        served.put("/a.md", "# A\n");
        served.put("/b.md", "# B\n");
        for (said, status) in [("F", 412), ("f", 412), ("F\r\nOverwrite: T", 400), ("no", 400), ("", 400), ("T,F", 400)]
        {
            let told = served.raw(method, "/a.md", format!("Destination: /b.md\r\nOverwrite: {said}").as_bytes());
            assert_eq!(told, Some(status), "{method} {said}");
            assert_eq!(
                (served.text("a.md").as_deref(), served.text("b.md").as_deref()),
                (Some("# A\n"), Some("# B\n"))
            );
        }
        served.refuses(method, "/a.md", b"Destination: /c.md\r\nDestination: /d.md");
        assert_eq!(served.raw(method, "/a.md", b"Destination: /b.md\r\nOverwrite: t"), Some(204));
    }
}

/// Shows: DAV-6
#[test]
fn depths_and_times_are_read_as_the_standard_writes_them() {
    let served = Served::new();
    served.send("MKCOL", "/d", &[], "");
    served.put("/d/a.md", "# A\n");
    for (said, status) in
        [("INFINITY", 201), ("Infinity", 204), ("0", 204), ("1", 400), ("2", 400), ("0\r\nDepth: infinity", 400)]
    {
        let told = served.raw("COPY", "/d", format!("Destination: /e\r\nDepth: {said}").as_bytes());
        assert_eq!(told, Some(status), "{said}");
    }
    for said in ["many", "0, infinity", ""] {
        served.refuses("DELETE", "/d", format!("Depth: {said}").as_bytes());
        served.refuses("LOCK", "/d", format!("Depth: {said}").as_bytes());
    }
    let left = |said: &str| {
        let reply = served.send("LOCK", "/d/a.md", &[("timeout", said)], LOCK);
        assert_eq!(reply.status, 200, "{said}: {}", reply.text());
        let token = reply.header("lock-token").to_owned();
        assert_eq!(served.send("UNLOCK", "/d/a.md", &[("lock-token", &token)], "").status, 204);
        let text = reply.text();
        let (_, rest) = text.split_once("Second-").unwrap();
        rest.split('<').next().unwrap().parse::<u64>().unwrap()
    };
    for (said, most) in [
        ("Second-60", 60),
        ("second-60", 60),
        ("Infinite, Second-60", 600),
        ("Second-60, Infinite", 60),
        ("Extend, Second-60", 60),
        ("Second-4100000000", 600),
        ("Second-99999999999999", 600),
        ("soon", 600),
    ] {
        let seconds = left(said);
        assert!(seconds <= most && seconds + 5 > most, "{said}: {seconds}");
    }
    served.refuses("UNLOCK", "/d/a.md", b"Lock-Token: <urn:x>\r\nLock-Token: <urn:y>");
}

const LOCK: &str = "<lockinfo xmlns='DAV:'><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>";
