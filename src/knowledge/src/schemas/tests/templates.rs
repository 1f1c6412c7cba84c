//! The schemas that templates contain.

use serde_json::{Value, json};
use svcfs_config::templates::TEMPLATES;

use crate::spaces::test_space::TestSpace;

#[test]
fn the_pages_of_every_template_fit_its_schemas() {
    let mut schemas = 0;
    for template in TEMPLATES {
        let files: Vec<(&str, &str)> = template
            .files()
            .filter(|file| file.path != ".svc/config.toml")
            .map(|file| (file.path, file.content))
            .collect();
        let space = TestSpace::with("", &files);
        for name in space.get("schemas_list", json!({})).as_array().unwrap() {
            let violating = space.get("schemas_get", json!({ "type": name, "violations": true }));
            assert_eq!(violating, json!({ "pages": [], "total": 0 }), "{} {name}", template.id);
            let schema = space.get("schemas_get", json!({ "type": name }))["schema"].as_str().unwrap().to_owned();
            let schema: Value = serde_json::from_str(&schema).unwrap();
            let page = format!("---\ntype: {}\n---\n", name.as_str().unwrap());
            assert!(schema["title"].is_string(), "{name}");
            space.get("write", json!({ "path": "empty.md", "content": page }));
            let violating = space.get("schemas_get", json!({ "type": name, "violations": true }));
            assert_eq!(violating["total"], 1, "{} {name} checks something", template.id);
            schemas += 1;
        }
        if template.id == "tasks" {
            let fields = json!({ "title": "New", "priority": 1, "blocked_by": ["tasks/example-task.md"] });
            let task = space.get("task_create", fields);
            let page = space.text(task["path"].as_str().unwrap());
            for status in ["todo", "done", "failed", "blocked"] {
                let page = page.replace("status: todo", &format!("status: {status}"));
                space.get("write", json!({ "path": "tasks/new.md", "content": page }));
                let violating = space.get("schemas_get", json!({ "type": "task", "violations": true }));
                assert_eq!(violating["total"], 1, "{status}: {page}");
            }
        }
    }
    assert_eq!(schemas, 4);
}
