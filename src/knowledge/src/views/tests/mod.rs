mod computed_pages;

use serde_json::json;

use crate::spaces::test_space::TestSpace;

fn space() -> TestSpace {
    let page = |frontmatter: &str| format!("---\n{frontmatter}\n---\n\n# T\n");
    let files = [
        ("tasks/a.md", page("status: open\nhours: 4\nowner: ann\ntags: [x]")),
        ("tasks/b.md", page("status: open\nhours: 12\nowner: bob\ntags: [x, y]")),
        ("tasks/c.md", page("status: done\nhours: 2\nowner: ann")),
        ("index.md", "# Index\n".to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    TestSpace::with("", &files)
}

#[test]
fn a_view_is_saved_listed_read_and_removed_with_versions() {
    let space = space();
    assert_eq!(space.get("views_list", json!({})), json!({ "views": [] }));
    let view = json!({ "name": "Open tasks", "query": "TABLE status FROM \"tasks/\"", "layout": "kanban", "group_by": "owner" });
    assert_eq!(space.get("views_save", view.clone()), view);
    assert_eq!(space.get("views_get", json!({ "name": "Open tasks" })), view);
    space.get("views_save", json!({ "name": "all", "query": "LIST" }));
    let listed = space.get("views_list", json!({}));
    assert_eq!(listed, json!({ "views": [view, { "name": "all", "query": "LIST", "layout": "table" }] }));
    let file = space.get("read", json!({ "path": ".svc/views/all.json" }))["content"].as_str().unwrap().to_owned();
    assert_eq!(file, "{\n  \"name\": \"all\",\n  \"query\": \"LIST\",\n  \"layout\": \"table\"\n}\n");
    assert_eq!(space.get("views_delete", json!({ "name": "all" })), json!({ "status": "deleted" }));
    assert_eq!(space.get("views_delete", json!({ "name": "all" })), json!({ "status": "deleted" }), "again");
    assert_eq!(space.refusal("views_get", json!({ "name": "all" })), (404, "view not found: all".to_owned()));
    assert_eq!(space.refusal("views_execute", json!({ "name": "all" })).0, 404);
    assert_eq!(space.get("versions", json!({ "path": ".svc/views/all.json" })).as_array().unwrap().len(), 2);
}

#[test]
fn filters_order_columns_formulas_and_summaries_are_applied() {
    let space = space();
    space.get(
        "views_save",
        json!({
            "name": "v", "query": "TABLE hours AS h, status FROM \"tasks/\" SORT _path",
            "columns": [
                { "property": "status", "label": "Status", "summary": "count" },
                { "property": "days", "formula": "round(h / 8, 1)", "summary": "sum" },
                { "property": "h", "summary": "max" },
                { "property": "long", "formula": "if(h > 3, \"long\", \"short\")" },
            ],
            "filters": [
                { "field": "h", "operator": ">=", "value": 2 },
                { "field": "status", "operator": "in", "value": ["open", "done"] },
                { "field": "owner", "operator": "!=", "value": null },
            ],
            "sort": [{ "field": "h", "order": "desc" }],
        }),
    );
    let answer = space.get("views_execute", json!({ "name": "v", "limit": 2 }));
    assert_eq!(
        answer,
        json!({
            "mode": "table", "headers": ["path", "Status", "days", "h", "long"],
            "rows": [["tasks/b.md", "open", 1.5, 12, "long"], ["tasks/a.md", "open", 0.5, 4, "long"]],
            "total": 3, "has_more": true, "summaries": { "Status": 3, "days": 2.3, "h": 12 },
        })
    );
    let rest = space.get("views_execute", json!({ "name": "v", "limit": 2, "offset": 2 }));
    assert_eq!(rest["rows"], json!([["tasks/c.md", "done", 0.3, 2, "short"]]));
}

#[test]
fn formulas_alone_stand_beside_the_columns_of_the_query() {
    let space = space();
    let columns = json!([
        { "property": "h", "formula": "h * 2", "summary": "sum" },
        { "property": "days", "formula": "round(h / 8, 1)", "summary": "max" },
    ]);
    let query = "TABLE hours AS h, status FROM \"tasks/\" WHERE hours > 3 SORT _path";
    space.get("views_save", json!({ "name": "v", "query": query, "columns": columns }));
    let answer = space.get("views_execute", json!({ "name": "v" }));
    assert_eq!(
        (&answer["headers"], &answer["rows"], &answer["summaries"]),
        (
            &json!(["path", "h", "status", "days"]),
            &json!([["tasks/a.md", 8, "open", 0.5], ["tasks/b.md", 24, "open", 1.5]]),
            &json!({ "h": 32, "days": 1.5 })
        )
    );
}

#[test]
fn limit_and_offset_of_a_view_apply_unless_overridden() {
    let space = space();
    space.get("views_save", json!({ "name": "few", "query": "LIST FROM \"tasks/\" SORT _path LIMIT 1 OFFSET 1" }));
    let rows = |arguments: serde_json::Value| {
        let mut asked = json!({ "name": "few" });
        asked.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        let answer = space.get("views_execute", asked);
        (answer["rows"].clone(), answer["has_more"].clone())
    };
    assert_eq!(rows(json!({})), (json!([["tasks/b.md"]]), json!(true)));
    assert_eq!(rows(json!({ "limit": 2 })), (json!([["tasks/b.md"], ["tasks/c.md"]]), json!(false)));
    assert_eq!(rows(json!({ "offset": 2 })), (json!([["tasks/c.md"]]), json!(false)));
    let many: Vec<String> = (0..60).map(|number| format!("many/{number:02}.md")).collect();
    let many: Vec<_> = many.iter().map(|path| json!({ "path": path, "content": "# M\n" })).collect();
    space.get("bulk_write", json!({ "files": many }));
    space.get("views_save", json!({ "name": "plain", "query": "LIST FROM \"many/\"" }));
    let answer = space.get("views_execute", json!({ "name": "plain" }));
    assert_eq!(answer["rows"].as_array().unwrap().len(), 50, "fifty without either");
}

#[test]
fn rows_of_a_view_are_grouped() {
    let space = space();
    let saved = json!({ "name": "g", "query": "LIST FROM \"tasks/\"", "group_by": "owner", "filters": [{ "field": "tags", "operator": "contains", "value": "x" }] });
    space.get("views_save", saved);
    let answer = space.get("views_execute", json!({ "name": "g" }));
    assert_eq!(
        answer["groups"],
        json!([
            { "key": "ann", "count": 1, "rows": [["tasks/a.md"]] },
            { "key": "bob", "count": 1, "rows": [["tasks/b.md"]] },
        ])
    );
}

#[test]
fn a_view_that_makes_no_sense_is_refused_when_it_is_saved() {
    let space = space();
    let with = |members: serde_json::Value| {
        let mut view = json!({ "name": "v", "query": "TABLE status" });
        view.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        view
    };
    let many: Vec<_> = (0..65).map(|_| json!({ "field": "a" })).collect();
    for (view, message) in [
        (json!({ "name": "v" }), "query is required"),
        (with(json!({ "query": " " })), "query is required"),
        (with(json!({ "query": "TABEL a" })), "`q`: line 1, column 1: "),
        (with(json!({ "name": "../evil" })), "`name`: `../evil` is not a valid view name"),
        (with(json!({ "name": ".hidden" })), "`name`: "),
        (with(json!({ "name": "" })), "`name`: "),
        (with(json!({ "name": "x".repeat(200) })), "`name`: "),
        (with(json!({ "layout": "circle" })), "`layout`: "),
        (
            with(json!({ "filters": [{ "field": "a", "operator": "~", "value": 1 }] })),
            "`filters`: there is no operator `~`",
        ),
        (with(json!({ "filters": [{ "field": "a b", "operator": "=", "value": 1 }] })), "`filters`: "),
        (with(json!({ "sort": [{ "field": "1" }] })), "`sort`: `1` is no field"),
        (with(json!({ "sort": many })), "`sort`: 65 are too many"),
        (with(json!({ "group_by": "'); DROP TABLE pages" })), "`group_by`: "),
        (with(json!({ "columns": [{ "property": "a", "formula": "b +" }] })), "`columns`: `b +`: line 1, column 4: "),
        (with(json!({ "columns": [{ "property": "a", "formula": "x".repeat(100_000) }] })), "`columns`: "),
        (
            with(json!({ "query": "TABLE count() AS n", "columns": [{ "property": "n", "summary": "sum" }] })),
            "`columns`: a column with aggregates",
        ),
        (
            with(
                json!({ "query": format!("TABLE {} AS a", vec!["1"; 400].join(" + ")), "columns": [{ "property": "x", "formula": vec!["a"; 400].join(" + ") }] }),
            ),
            "`columns`: an expression is too large",
        ),
    ] {
        let (status, told) = space.refusal("views_save", view);
        assert!(status == 400 && told.starts_with(message), "{told}");
    }
    assert_eq!(space.get("views_list", json!({})), json!({ "views": [] }));
    space.get("bulk_write", json!({ "files": [{ "path": ".svc/views/broken.json", "content": "{" }] }));
    assert_eq!(space.get("views_list", json!({})), json!({ "views": [] }), "a file that is no view is left out");
    let (status, told) = space.refusal("views_execute", json!({ "name": "broken" }));
    assert!(status == 400 && told.contains("`.svc/views/broken.json` is not a valid view"), "{told}");
}
