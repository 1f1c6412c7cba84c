use serde_json::json;

use super::*;
use crate::Page;

/// The tasks of a page: line, status, text, tags, fields and emoji fields.
fn tasks(text: &str) -> Vec<String> {
    let page = Page::parse("p.md", text);
    let metadata = &page.metadata;
    let describe = |item: &ListItem| {
        let tags: Vec<&str> = item.tags.iter().map(|tag| metadata.tags[*tag].name.as_str()).collect();
        let mut details = Map::new();
        for (name, value) in &item.emoji_fields {
            details.insert((*name).to_owned(), json!(value));
        }
        for field in item.fields.iter().map(|field| &metadata.fields[*field]) {
            details.insert(field.key.clone(), field.value().to_json());
        }
        let status = item.status.unwrap_or_default();
        format!("{} [{status}] {:?} {tags:?} {}", item.line, item.text, Value::Object(details))
    };
    metadata.items.iter().filter(|item| item.is_task()).map(describe).collect()
}

#[test]
fn items_with_boxes_are_tasks_and_nothing_else_is() {
    let page = "---\ntitle: T\n---\n# Work\n\n- [ ] write *it* with `code`\n- [x] done\n- plain\n\nNot [ ] one.\n\n```\n- [ ] code\n```\n";
    assert_eq!(tasks(page), [r#"6 [ ] "write it with code" [] {}"#, r#"7 [x] "done" [] {}"#]);
}

#[test]
fn what_a_computed_page_answers_are_no_tasks_of_its_own() {
    let page = "- [ ] mine\n\n<!-- svc:auto -->\n\n- [ ] of another #t [k:: v]\n- [x] too\n\n<!-- /svc-view -->\n\n- [ ] mine, too\n";
    assert_eq!(tasks(page), [r#"1 [ ] "mine" [] {}"#, r#"10 [ ] "mine, too" [] {}"#]);
    let page = Page::parse("p.md", page);
    assert!(page.metadata.tags.is_empty() && page.metadata.fields.is_empty());
}

#[test]
fn a_task_inside_a_task_is_one_of_its_own() {
    let page = "1. [ ] outer\n   continued\n   - [x] inner\n\n   more\n";
    assert_eq!(tasks(page), [r#"1 [ ] "outer continued more" [] {}"#, r#"3 [x] "inner" [] {}"#]);
}

#[test]
fn tags_and_details_are_taken_out_of_the_words() {
    let page = "- [ ] call #home/phone, ask [due:: 2026-01-31] [who::Ann] a::b #1 #y1\n";
    assert_eq!(
        tasks(page),
        [r##"1 [ ] "call #home/phone, ask a::b #1 #y1" ["home/phone", "y1"] {"due":"2026-01-31","who":"Ann"}"##]
    );
}

#[test]
fn a_task_has_any_state_and_the_fields_of_the_tasks_plugin() {
    for (item, expected) in [
        ("- [/] half", r#"1 [/] "half" [] {}"#),
        ("* [-] no", r#"1 [-] "no" [] {}"#),
        ("+ [>] later", r#"1 [>] "later" [] {}"#),
        ("1) [X] done", r#"1 [X] "done" [] {}"#),
        ("> - [?] why *so*", r#"1 [?] "why so" [] {}"#),
        ("- [ ] a 📅 2026-01-31 ⏫", r#"1 [ ] "a" [] {"due":"2026-01-31","priority":"high"}"#),
        ("- [ ] a 🗓️ 2026-01-31 b", r#"1 [ ] "a b" [] {"due":"2026-01-31"}"#),
        (
            "- [x] a 🔁 every 2 weeks 🛫 2026-01-01 ⏳ 2026-01-02 ➕ 2025-12-31 ✅ 2026-01-03",
            r#"1 [x] "a" [] {"recurrence":"every 2 weeks","start":"2026-01-01","scheduled":"2026-01-02","created":"2025-12-31","completion":"2026-01-03"}"#,
        ),
        (
            "- [-] a ❌ 2026-01-03 🆔 ab1 ⛔ c2",
            r#"1 [-] "a" [] {"cancelled":"2026-01-03","id":"ab1","dependsOn":"c2"}"#,
        ),
        ("- [ ] tick ✅ the box", r#"1 [ ] "tick ✅ the box" [] {}"#),
        ("- [ ] a [due:: 2026-02-01] 📅 2026-01-31", r#"1 [ ] "a" [] {"due":"2026-02-01"}"#),
        ("- [ ] for [who:: [[Ann]]] (points:: 3) ^b1", r#"1 [ ] "for" [] {"who":"[[Ann]]","points":3}"#),
        ("- [1] note", r#"1 [1] "note" [] {}"#),
    ] {
        assert_eq!(tasks(item), [expected], "{item}");
    }
}

#[test]
fn items_know_their_place_in_the_page() {
    let text = "---\na: b\n---\n- before\n\n# One\n\n- top [[x]] #t\n  cont [k:: v]\n  - child ^id1\n    - grand\n\n  after #u\n\n%% \n- hidden\n%%\n\n## Two\n\n- [ ] last\n";
    let page = Page::parse("p.md", text);
    let items: Vec<_> = page
        .metadata
        .items
        .iter()
        .map(|item| (item.line, item.markdown(text), item.parent, item.children.clone(), item.section))
        .collect();
    let row = |line: usize, text: &str, parent, children: &[usize], section| {
        (line, text.to_owned(), parent, children.to_vec(), section)
    };
    assert_eq!(
        items,
        [
            row(4, "before", None, &[], None),
            row(8, "top [[x]] #t\ncont [k:: v]", None, &[2], Some(0)),
            row(10, "child", Some(1), &[3], Some(0)),
            row(11, "grand", Some(2), &[], Some(0)),
            row(21, "last", None, &[], Some(1)),
        ]
    );
    let top = &page.metadata.items[1];
    assert_eq!((&top.links, &top.tags, &top.fields), (&vec![0], &vec![0, 1], &vec![0]));
    assert_eq!(page.metadata.fields[0].item, Some(1));
    assert_eq!(page.metadata.items[2].block_id.as_deref(), Some("id1"));
    let split = crate::frontmatter::split(text);
    let body = scan_body(split.body, split.first_body_line);
    let lines: Vec<usize> = body.metadata.items.iter().map(|item| item.line).collect();
    assert_eq!(lines, [4, 8, 10, 11, 21]);
    assert_eq!(body.metadata.items[1].markdown(split.body), "top [[x]] #t\ncont [k:: v]");
    assert_eq!((body.headings[1].line, body.links[0].line, body.metadata.fields[0].line), (19, 8, 9));
}

#[test]
fn nothing_in_code_comments_formulas_and_links_is_metadata() {
    let text = "`#a` `b:: c`\n\n```\n#d\ne:: f\n```\n\n%% #g h:: i [[j]] [k](l.md) %%\n\n$$ #m [[n]] $$ and $[[o]]$\n\n\
                <!-- #p -->\n\n<span title=\"#q\">x</span> [r #s](t.md#u) [[v#w|#x]] [[#y]] [z](#z) <https://a.b/#c>\n\n\
                # real #tag\n\nreal:: [[link]]\n\n    #code\n";
    let page = Page::parse("p.md", text);
    let tags: Vec<&str> = page.metadata.tag_names().collect();
    assert_eq!(tags, ["tag"]);
    let fields: Vec<&str> = page.metadata.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(fields, ["real"]);
    let targets: Vec<&str> = page.links.iter().map(|link| link.target.as_str()).collect();
    assert_eq!(targets, ["t.md", "v", "link"]);
}

#[test]
fn fields_and_tags_join_the_frontmatter() {
    for (text, expected) in [
        ("text", None),
        ("a:: 1", Some(json!({ "a": 1 }))),
        ("a:: 1\n\n[a:: [[b]]]\n\n(A:: 2, 3)", Some(json!({ "a": [1, "[[b]]", 2, 3] }))),
        ("---\nA: x\nb: y\n---\na:: 1\n\nc:: 2", Some(json!({ "A": "x", "b": "y", "c": 2 }))),
        ("- [ ] t [due:: 2026-01-01]", None),
        ("- item [due:: 2026-01-01]", Some(json!({ "due": "2026-01-01" }))),
    ] {
        let page = Page::parse("p.md", text);
        assert_eq!(page.metadata.merge_into(&page.frontmatter, None).map(Value::Object), expected, "{text}");
    }
    let page = Page::parse("p.md", "a #Sea #sea #b");
    assert_eq!(page.metadata.tag_names().collect::<Vec<_>>(), ["Sea", "b"]);
}

#[test]
fn a_hostile_page_takes_no_long_time() {
    for text in [
        format!("- [ ] {}\n", "[a::".repeat(5_000)),
        format!("{}\n", "[a:: (".repeat(5_000)),
        "- [ ] x [k:: v]\n".repeat(3_000),
        "$a ".repeat(20_000),
        "%%$".repeat(20_000),
        "$$\n\na".repeat(10_000),
        "#a".repeat(20_000),
        "a:: b ".repeat(10_000),
        format!("- [ ] {}", "🔁 ".repeat(20_000)),
        (0..2_000).map(|depth| format!("{}- #a [b:: c]\n", " ".repeat(depth % 200))).collect(),
    ] {
        let start = std::time::Instant::now();
        drop(Page::parse("p.md", &text));
        assert!(start.elapsed().as_secs() < 5, "{}", &text[..20]);
    }
}
