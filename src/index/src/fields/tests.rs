use crate::dql::tests::asking;
use crate::tests::{Space, page};
use crate::{CustomFields, DqlQuery, IndexEntry, IndexError, QueryLimits};

/// More pages than a query looks at without wishing for an index.
const PAGES: usize = 1_100;

fn text(number: usize) -> String {
    let status = if number.is_multiple_of(100) { "rare" } else { "common" };
    format!(
        "---\nstatus: {status}\nnumber: {number}\nday: 2026-01-{:02}\ntags: [t{}, all]\n---\n",
        number % 28 + 1,
        number % 50
    )
}

fn space() -> Space {
    let space = Space::new();
    let entries: Vec<IndexEntry> = (0..PAGES).map(|number| page(&format!("p{number:04}.md"), &text(number))).collect();
    space.index.ingest(&entries, space.index.cursor().unwrap().next()).unwrap();
    space
}

fn hot(space: &Space) -> Vec<String> {
    let known = space.index.readers.read(|connection| super::hot_fields(connection)).unwrap();
    known.into_iter().map(|(_, name)| name).collect()
}

/// How many pages are looked at when there are more than may be.
fn looked_at(space: &Space, query: &str, asking: &QueryLimits<'_>) -> Option<usize> {
    space.index.query(&DqlQuery::parse(query).unwrap(), asking).unwrap().scanned_rows
}

fn total(space: &Space, query: &str, asking: &QueryLimits<'_>) -> Result<usize, IndexError> {
    space.index.query(&DqlQuery::parse(query)?, asking).map(|answer| answer.total)
}

#[test]
fn a_repeatedly_queried_field_gets_an_index_used_by_sqlite() {
    let (space, custom) = (space(), CustomFields::default());
    let asking = asking(&custom);
    let rare = "LIST WHERE status = \"rare\" AND number > 5";
    let plan = |query: &str| DqlQuery::parse(query).unwrap().plan(&space.index, &asking);
    assert!(plan(rare).iter().all(|step| !step.contains("field_values")), "{:?}", plan(rare));
    for asked in 1..=3 {
        assert_eq!(hot(&space), [""; 0], "before question {asked}");
        assert_eq!(total(&space, rare, &asking).unwrap(), 10);
    }
    assert_eq!(hot(&space), [r#"["status"]"#, r#"["number"]"#]);
    assert_eq!(total(&space, rare, &asking).unwrap(), 10);
    for (query, search) in [
        (rare, "SEARCH field_values USING PRIMARY KEY (field=? AND kind=? AND value=?)"),
        ("LIST WHERE number > 1000", "SEARCH field_values USING PRIMARY KEY (field=? AND kind=? AND value>?)"),
        (
            "LIST WHERE number BETWEEN 5 AND 10",
            "SEARCH field_values USING PRIMARY KEY (field=? AND kind=? AND value>? AND value<?)",
        ),
    ] {
        let plan = plan(query);
        assert!(
            plan.iter().any(|step| step == "SEARCH pages USING INTEGER PRIMARY KEY (rowid=?)"),
            "{query}: {plan:?}"
        );
        assert!(plan.iter().any(|step| step == search), "{query}: {plan:?}");
    }
}

#[test]
fn a_query_over_too_many_pages_gets_its_index_immediately() {
    let (space, custom) = (space(), CustomFields::default());
    let asking = QueryLimits { max_scan_rows: 100, ..asking(&custom) };
    for (query, found) in [
        ("COUNT WHERE status = \"rare\"", 11),
        ("COUNT WHERE number < 50", 50),
        ("COUNT WHERE 1050 <= number", 50),
        ("COUNT WHERE number IN (1, 2, 9999)", 2),
        ("COUNT WHERE day = 2026-01-05", 40),
        ("COUNT WHERE contains(tags, \"t7\")", 22),
        ("COUNT FROM #t7", 22),
        ("COUNT FROM \"p0007\" AND #t7", 1),
    ] {
        assert_eq!(total(&space, query, &asking).unwrap(), found, "{query}");
    }
    assert_eq!(hot(&space).len(), 4);
    for query in [
        "COUNT WHERE contains(status, \"common\")",
        "COUNT WHERE length(status) = 4",
        "COUNT WHERE status != \"common\"",
    ] {
        assert_eq!(looked_at(&space, query, &asking), Some(100), "{query}");
    }
    // What the index counts exactly is not looked at.
    assert_eq!(looked_at(&space, "LIST WHERE status = \"common\" LIMIT 5", &asking), None);
}

#[test]
fn no_more_fields_are_indexed_than_may_be() {
    let (space, custom) = (space(), CustomFields::default());
    let asking = QueryLimits { max_scan_rows: 100, max_auto_indexes: 1, ..asking(&custom) };
    assert_eq!(total(&space, "COUNT WHERE status = \"rare\"", &asking).unwrap(), 11);
    assert_eq!(looked_at(&space, "COUNT WHERE number < 50", &asking), Some(100));
    assert_eq!(hot(&space), [r#"["status"]"#]);
    let none = QueryLimits { max_auto_indexes: 0, max_scan_rows: 100, ..asking };
    assert_eq!(looked_at(&space, "COUNT WHERE day = 2026-01-05", &none), Some(100));
}

/// Shows: QRY-4
#[test]
fn a_field_index_follows_writes_and_survives_a_restart() {
    let (space, custom) = (space(), CustomFields::default());
    let asking = QueryLimits { max_scan_rows: 100, ..asking(&custom) };
    let rare = |space: &Space| total(space, "COUNT WHERE status = \"rare\"", &asking).unwrap();
    assert_eq!(rare(&space), 11);
    space.put(&[("p0001.md", &text(100)), ("new.md", &text(200)), ("p0000.md", &text(1))]);
    space.remove("p0100.md");
    assert_eq!(rare(&space), 11);
    let before = space.index.fingerprint().unwrap();
    let all: Vec<IndexEntry> = space
        .index
        .paths(&svcfs_base::TreePath::root())
        .unwrap()
        .into_iter()
        .map(|path| {
            let number = match path.as_str() {
                "p0001.md" => 100,
                "new.md" => 200,
                "p0000.md" => 1,
                other => other[1..5].parse().unwrap(),
            };
            page(path.as_str(), &text(number))
        })
        .collect();
    let cursor = space.index.cursor().unwrap();
    let mut all = all.into_iter().map(Ok::<_, IndexError>);
    // A field that becomes hot in the middle of a rebuild is in the new tables, too.
    let first: Vec<_> = all.by_ref().take(600).collect();
    let rest = all.inspect({
        let mut is_asked = false;
        let index = &space.index;
        move |_| {
            if !is_asked {
                is_asked = true;
                assert!(index.add_field_index(r#"["number"]"#, 20).unwrap());
            }
        }
    });
    space.index.rebuild(first.into_iter().chain(rest), cursor, |_| {}).unwrap();
    assert_eq!(rare(&space), 11);
    assert_eq!(total(&space, "COUNT WHERE number < 50", &asking).unwrap(), 49);
    let after = space.index.fingerprint().unwrap();
    assert_eq!((before.pages, before.links), (after.pages, after.links));
    assert_eq!(hot(&space), [r#"["status"]"#, r#"["number"]"#]);
    let space = space.reopen();
    assert_eq!(rare(&space), 11);
}

#[test]
fn unused_field_indexes_release_their_slots() {
    let (space, custom) = (space(), CustomFields::default());
    let asking = QueryLimits { max_auto_indexes: 2, max_scan_rows: 1_000, ..asking(&custom) };
    for misspelt in ["statis", "nunber", "dya"] {
        assert_eq!(total(&space, &format!("LIST WHERE {misspelt} = 1"), &asking).unwrap(), 0);
    }
    assert_eq!(total(&space, "LIST WHERE status = \"rare\"", &asking).unwrap(), 11);
    assert_eq!(total(&space, "LIST WHERE number = 7", &asking).unwrap(), 1);
    assert_eq!(hot(&space), [r#"["status"]"#, r#"["number"]"#]);
    // Both are in use.
    assert_eq!(looked_at(&space, "LIST WHERE day = date(\"2026-01-03\")", &asking), Some(1_000));
    let known = space.index.readers.read(|connection| super::hot_fields(connection)).unwrap();
    let now = std::time::Instant::now();
    assert_eq!(space.index.field_usage.least_recently_used(&known, now - super::UNUSED_TIMEOUT), None);
    space.index.field_usage.mark_used(vec![known[0].1.clone()]);
    assert_eq!(
        space.index.field_usage.least_recently_used(&known, now + super::UNUSED_TIMEOUT),
        Some(&known[1]),
        "the one that was asked for longest ago"
    );
    // Whoever opened the index again and did not ask for them does not need them.
    let space = space.reopen();
    let known = space.index.readers.read(|connection| super::hot_fields(connection)).unwrap();
    assert!(space.index.field_usage.least_recently_used(&known, now).is_some());
}

#[test]
fn a_field_has_an_index_from_its_first_page_on() {
    let custom = CustomFields::default();
    let asking = QueryLimits { max_scan_rows: 100, ..asking(&custom) };
    let space = Space::new().with_auto_indexes(3);
    let prose = "word ".repeat(30);
    space.put(&[("long.md", &format!("---\nsummary: {prose}\nnested: {{ a: 1 }}\nStatus: x\n---\n"))]);
    // Of another spelling: the words of the index do not tell them apart.
    assert_eq!(hot(&space), [r#"["Status"]"#]);
    let entries: Vec<IndexEntry> = (0..PAGES).map(|number| page(&format!("p{number:04}.md"), &text(number))).collect();
    for entries in entries.chunks(100) {
        space.index.ingest(entries, space.index.cursor().unwrap().next()).unwrap();
    }
    assert_eq!(hot(&space), [r#"["Status"]"#, r#"["number"]"#, r#"["day"]"#]);
    for (query, found) in [("COUNT WHERE number < 50", 50), ("LIST WHERE day = 2026-01-05", 40)] {
        let answer = space.index.query(&DqlQuery::parse(query).unwrap(), &asking).unwrap();
        assert_eq!((answer.total, answer.scanned_rows), (found, None), "{query}");
    }
    // One that pages have already gets none with a page: only a scan of all of them could.
    let space = space.reopen().with_auto_indexes(10);
    space.put(&[("new.md", "---\nsummary: short\nstatus: y\nfresh: 1\n---\n")]);
    assert_eq!(hot(&space), [r#"["Status"]"#, r#"["number"]"#, r#"["day"]"#, r#"["fresh"]"#]);
}
