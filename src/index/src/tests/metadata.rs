//! Metadata in the text of pages: inline fields, tags, states of tasks.

use serde_json::{Value, json};

use super::{Space, at};
use crate::dql::tests::asking;
use crate::{CustomFields, DqlQuery, MetaCondition, MetaQuery};

fn rows(space: &Space, query: &str) -> Value {
    let custom = CustomFields::default();
    let query = DqlQuery::parse(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    json!(space.index.query(&query, &asking(&custom)).unwrap().rows)
}

fn metadata(space: &Space, condition: &str) -> Vec<(String, Value)> {
    let conditions = vec![MetaCondition::parse(condition).unwrap()];
    let pages = space.index.query_metadata(&MetaQuery { conditions, ..MetaQuery::default() }).unwrap();
    pages.into_iter().map(|page| (page.path.to_string(), page.metadata)).collect()
}

fn vault() -> Space {
    Space::of(&[
        (
            "film.md",
            "---\nyear: 1979\n---\n# Film\n\nRating:: 4\n\n**Seen With**:: [[Ann]]\n\nyear:: 1\n\nA #Sea/Tide film.\n",
        ),
        ("book.md", "# Book\n\n- [rating:: 2] and (rating:: 5)\n- [ ] read [rating:: 9] #sea\n"),
        ("own.md", "---\ntags: ['#SEA', sea, land]\nrating: 3\n---\n\ntext\n"),
        ("text.md", "---\ntags: a, b\n---\n\n`rating:: 1` %% #sea %% #1234\n"),
        ("plain.md", "---\ntags: seaside\n---\nplain\n"),
    ])
}

#[test]
fn inline_fields_are_queried_as_frontmatter_is() {
    let space = vault();
    for (query, expected) in [
        ("TABLE rating WHERE rating SORT rating", json!([["own.md", 3], ["film.md", 4], ["book.md", [2, 5]]])),
        ("TABLE year, `seen-with` WHERE year", json!([["film.md", 1979, "[[Ann]]"]])),
        ("LIST WHERE rating >= 4", json!([["film.md"]])),
        ("LIST WHERE contains(rating, 5)", json!([["book.md"]])),
        ("TABLE rating FLATTEN rating WHERE rating > 3", json!([["book.md", 5], ["film.md", 4]])),
        ("TABLE count(rating)", json!([[4]])),
        ("LIST WHERE _has_frontmatter", json!([["film.md"], ["own.md"], ["plain.md"], ["text.md"]])),
    ] {
        assert_eq!(rows(&space, query), expected, "{query}");
    }
    for (condition, expected) in [
        (
            "$.rating=4",
            json!([["film.md", { "year": 1979, "rating": 4, "seen-with": "[[Ann]]", "tags": ["Sea/Tide"] }]]),
        ),
        ("$.rating[*]=5", json!([["book.md", { "rating": [2, 5], "tags": ["sea"] }]])),
        ("$.tags[*]=land", json!([["own.md", { "tags": ["SEA", "land"], "rating": 3 }]])),
        ("$.tags[*]=b", json!([["text.md", { "tags": ["a", "b"] }]])),
        ("$.tags=seaside", json!([["plain.md", { "tags": "seaside" }]])),
    ] {
        assert_eq!(json!(metadata(&space, condition)), expected, "{condition}");
    }
    assert_eq!(space.found("rating:4"), ["film.md"]);
    let own = space.index.page(&at("film.md")).unwrap().unwrap().frontmatter;
    assert_eq!(Value::Object(own), json!({ "year": 1979 }));
}

#[test]
fn a_tag_is_found_in_any_case_with_the_tags_nested_in_it() {
    let space = vault();
    let with_index = vault_with_tag_index();
    for (query, expected) in [
        ("LIST FROM #sea", json!([["book.md"], ["film.md"], ["own.md"]])),
        ("LIST FROM #SEA/tide", json!([["film.md"]])),
        ("LIST FROM #sea AND -#land", json!([["book.md"], ["film.md"]])),
        ("LIST FROM #1234", json!([])),
        ("COUNT FROM #a", json!([[1]])),
    ] {
        assert_eq!(rows(&space, query), expected, "{query}");
        assert_eq!(rows(&with_index, query), expected, "{query}");
    }
    for (tag, expected) in [
        ("sea", vec!["book.md", "film.md", "own.md"]),
        ("Sea/Tide", vec!["film.md"]),
        ("seaside", vec!["plain.md"]),
        ("tide", vec![]),
        ("\"; DROP", vec![]),
    ] {
        let pages = space.index.pages_with_tag(tag).unwrap();
        assert_eq!(pages.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), expected, "{tag}");
    }
    let mut found = space.found("tag:sea");
    found.sort_unstable();
    assert_eq!(found, ["book.md", "film.md", "own.md"]);
    assert_eq!(space.index.tags().unwrap(), ["SEA", "Sea/Tide", "a", "b", "land", "seaside"]);
    let graph = space.index.graph().unwrap();
    let tags = |path: &str| graph.page(graph.node(&at(path)).unwrap()).tags.clone();
    assert_eq!((&*tags("film.md")[0], tags("own.md").len()), ("Sea/Tide", 2));
}

/// The same pages in an index that has rows for the field `tags`.
fn vault_with_tag_index() -> Space {
    let space = Space::new().with_auto_indexes(8);
    for page in [
        ("film.md", "# Film\n\nA #Sea/Tide film.\n"),
        ("book.md", "# Book\n\n- [ ] read #sea\n"),
        ("own.md", "---\ntags: ['#SEA', sea, land]\n---\n"),
        ("text.md", "---\ntags: a, b\n---\n\n%% #sea %%\n"),
        ("plain.md", "---\ntags: seaside\n---\nplain\n"),
    ] {
        space.put(&[page]);
    }
    space
}

#[test]
fn tasks_have_states_dates_and_links() {
    let space = Space::of(&[(
        "t.md",
        "---\nx: y\n---\n- [ ] open 📅 2026-01-02 ⏫\n- [/] half [who:: [[Ann]]] (points:: 3)\n- [-] gone #Sea/x\n- [X] done ✅ 2026-01-01\n",
    )]);
    for (query, expected) in [
        (
            "TASK",
            json!([
                ["t.md", "open", false, 4, [], "2026-01-02"],
                ["t.md", "half", false, 5, [], null],
                ["t.md", "gone #Sea/x", false, 6, ["Sea/x"], null],
                ["t.md", "done", true, 7, [], null]
            ]),
        ),
        ("TASK WHERE meta.status = \"/\" AND meta.who = \"[[Ann]]\"", json!([["t.md", "half", false, 5, [], null]])),
        ("TASK WHERE meta.points > 2", json!([["t.md", "half", false, 5, [], null]])),
        ("TASK WHERE due < date(\"2026-02-01\")", json!([["t.md", "open", false, 4, [], "2026-01-02"]])),
        ("TASK WHERE meta.priority = \"high\"", json!([["t.md", "open", false, 4, [], "2026-01-02"]])),
        ("TASK WHERE meta.completion", json!([["t.md", "done", true, 7, [], null]])),
    ] {
        assert_eq!(rows(&space, query), expected, "{query}");
    }
}
