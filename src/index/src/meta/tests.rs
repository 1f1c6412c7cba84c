use crate::tests::Space;
use crate::{MetaCondition, MetaQuery, SortKey, SortOrder};

fn space() -> Space {
    let page = |frontmatter: &str| format!("---\n{frontmatter}\n---\n# T\n");
    Space::of(&[
        ("a.md", &page("priority: 3\nstatus: open\nflag: true\ntags: [x, y]\ndue: 2026-01-31")),
        ("b.md", &page("priority: 10\nstatus: done\nflag: false\ntags: y\ndue: 2026-02-01T08:00:00+02:00")),
        ("c.md", &page("priority: \"3\"\nstatus: null\nflag: \"true\"\nderived-from: [{id: run-249}, {id: 7}, other]")),
        ("d.md", &page("priority: 2.5\nnested: {deep: [{n: 1}, {n: 2}], it's: quoted}\nstatus: \"50% off\"")),
        ("e.md", "no frontmatter at all"),
    ])
}

/// The pages that fulfil a condition, by the letter of their name.
fn matching(space: &Space, condition: &str) -> String {
    let query = MetaQuery { conditions: vec![MetaCondition::parse(condition).unwrap()], ..MetaQuery::default() };
    letters(space, &query)
}

fn letters(space: &Space, query: &MetaQuery) -> String {
    space.index.query_metadata(query).unwrap().iter().map(|row| row.path.stem().to_owned()).collect()
}

#[test]
fn values_compare_as_what_they_are() {
    let space = space();
    for (condition, found) in [
        ("$.priority>3", "b"),
        ("$.priority>=3", "ab"),
        ("$.priority<3", "d"),
        ("$.priority<=2.5", "d"),
        ("$.priority=3", "ac"),
        ("$.priority=3.0", "a"),
        ("$.priority=\"3\"", "c"),
        ("$.priority!=3", "bd"),
        ("$.priority<>10", "acd"),
        ("$.flag=true", "ac"),
        ("$.flag=false", "b"),
        ("$.flag='true'", "c"),
        ("$.flag!=false", "ac"),
        ("$.status=open", "a"),
        ("$.status = 'open'", "a"),
        ("$.status!=open", "bd"),
        ("$.status=Open", ""),
        ("$.status>do", "abd".get(0..2).unwrap()),
        ("$.status=null", "ce"),
        ("$.status!=null", "abd"),
        ("$.missing=null", "abcde"),
        ("$.missing!=x", ""),
    ] {
        assert_eq!(matching(&space, condition), found, "{condition}");
    }
}

#[test]
fn dates_compare_as_moments() {
    let space = space();
    for (condition, found) in [
        ("$.due<2026-02-01", "a"),
        ("$.due=2026-02-01", "b"),
        ("$.due>=2026-01-31", "ab"),
        ("$.due=2026-02-01T06:00:00Z", "b"),
        ("$.due>\"2026-02-01T05:59:59Z\"", "b"),
        ("$.due<2026-01-31T00:00:01Z", "a"),
        ("$.due!=2026-01-31", "b"),
        ("$.status<2026-01-31", ""),
    ] {
        assert_eq!(matching(&space, condition), found, "{condition}");
    }
}

#[test]
fn elements_of_lists_and_nested_values_are_reached() {
    let space = space();
    for (condition, found) in [
        ("$.tags[*]=y", "ab"),
        ("$.tags[*]=x", "a"),
        ("$.tags[0]=x", "a"),
        ("$.tags[1]=y", "a"),
        ("$.tags=y", "b"),
        ("$.tags[*]!=y", "a"),
        ("$.derived-from[*].id=run-249", "c"),
        ("$.derived-from[*].id>6", "c"),
        ("$.derived-from[*]=other", "c"),
        ("$.nested.deep[*].n=2", "d"),
        ("$.nested.deep[1].n=2", "d"),
        ("$.nested.deep[*].n>2", ""),
        ("$.priority[*].n=1", ""),
        ("$.status.x.y=1", ""),
    ] {
        assert_eq!(matching(&space, condition), found, "{condition}");
    }
}

#[test]
fn like_takes_wildcards_in_text() {
    let space = space();
    for (condition, found) in [
        ("$.status like o%", "a"),
        ("$.status LIKE '%OFF'", "d"),
        ("$.status like _pen", "a"),
        ("$.status not like %n%", "d"),
        ("$.status like %", "abd"),
        ("$.tags[*] like y%", "ab"),
        ("$.tags like %x%", "a"),
        ("$.priority like 1_", "b"),
        ("$.flag like t%", "ac"),
        ("$.flag not like true", "b"),
    ] {
        assert_eq!(matching(&space, condition), found, "{condition}");
    }
}

#[test]
fn conditions_are_joined_by_and_and_alternatives_by_or() {
    let space = space();
    let read = |texts: &[&str]| texts.iter().map(|text| MetaCondition::parse(text).unwrap()).collect::<Vec<_>>();
    let query = MetaQuery {
        conditions: read(&["$.priority>2", "$.status!=null"]),
        any_of: read(&["$.status=open", "$.priority=10", "$.missing=1"]),
        ..MetaQuery::default()
    };
    assert_eq!(letters(&space, &query), "ab");
    assert_eq!(letters(&space, &MetaQuery::default()), "abcde");
    let many = MetaQuery { any_of: read(&["$.a=1"; 33]), ..MetaQuery::default() };
    assert!(space.index.query_metadata(&many).unwrap_err().to_string().starts_with("`where`: 33 conditions"));
}

#[test]
fn a_list_is_sorted_by_value_and_pages_without_one_come_last() {
    let space = space();
    let sorted = |key: &str, order| {
        letters(&space, &MetaQuery { sort: Some(SortKey::parse(key).unwrap()), order, ..MetaQuery::default() })
    };
    assert_eq!(sorted("$.priority", SortOrder::Ascending), "dabce");
    assert_eq!(sorted("$.priority", SortOrder::Descending), "cbade");
    assert_eq!(sorted("$.due", SortOrder::Descending), "bacde");
    assert_eq!(sorted("$.nested.deep[0].n", SortOrder::Ascending), "dabce");
    for key in ["priority", "$.tags[*]", "$.a b", "$.", ""] {
        let error = SortKey::parse(key).unwrap_err().to_string();
        assert!(error.starts_with("`sort`: "), "{error}");
    }
}

#[test]
fn a_list_is_paginated_in_the_key_order_of_its_author() {
    let space = space();
    let query = MetaQuery { limit: serde_json::from_value(2.into()).unwrap(), offset: 3, ..MetaQuery::default() };
    let rows = space.index.query_metadata(&query).unwrap();
    assert_eq!(rows.iter().map(|row| row.path.as_str()).collect::<Vec<_>>(), ["d.md", "e.md"]);
    assert_eq!(rows[0].title, "T");
    let keys: Vec<&String> = rows[0].metadata.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["priority", "nested", "status"]);
}

#[test]
fn fragments_of_sql_are_only_values() {
    let space = space();
    for condition in [
        "$.status=' OR 1=1 --",
        "$.status=x'); DROP TABLE pages; --",
        "$.status=\"",
        "$.status=?1",
        "$.status like '%' OR '1'='1",
    ] {
        assert_eq!(matching(&space, condition), "", "{condition}");
    }
    assert_eq!(matching(&space, "$.status=\"open\""), "a");
}

#[test]
fn frontmatter_with_hostile_keys_does_not_stop_a_query() {
    let space = Space::of(&[(
        "a.md",
        "---\n\"a\\\"b\": {id: 1}\n\"$\": [1, [2, [3]]]\n\"\": {\"\": {id: 1}}\nlist: [[{id: 1}], \"{\", \"[*]\", null]\n---\n",
    )]);
    for condition in ["$.list[*].id=1", "$.list[*][*].id=1", "$.list[*]=null", "$.list[*]=\"{\"", "$.a[*][*][*].b=1"] {
        let query = MetaQuery { conditions: vec![MetaCondition::parse(condition).unwrap()], ..MetaQuery::default() };
        assert!(space.index.query_metadata(&query).is_ok(), "{condition}");
    }
    assert_eq!(matching(&space, "$.list[*][*].id=1"), "a");
    assert_eq!(matching(&space, "$.list[*].id=1"), "");
}
