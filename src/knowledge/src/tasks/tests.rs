use serde_json::{Value, json};

use crate::spaces::test_space::TestSpace;

fn eligible(space: &TestSpace, arguments: Value) -> Vec<String> {
    let answer = space.get("eligible", arguments);
    answer["tasks"].as_array().unwrap().iter().map(|task| task["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn tasks_to_be_done_come_most_urgent_first() {
    let space = TestSpace::new();
    for (path, fields) in [
        ("tasks/usual.md", "status: todo"),
        ("tasks/second.md", "status: ToDo\npriority: 2\ntitle: Second"),
        ("tasks/soon.md", "status: todo\npriority: medium\ndue: 2026-03-01"),
        ("tasks/later.md", "status: todo\npriority: \"3\"\ndue_date: 2026-04-01"),
        ("tasks/low.md", "status: todo\npriority: low"),
        ("urgent.md", "status: todo\npriority: Urgent"),
        ("strange.md", "status: todo\npriority: [1]"),
        ("done.md", "status: done\npriority: 1"),
        ("number.md", "status: 7"),
        ("none.md", "title: todo"),
    ] {
        space.put(path, &format!("---\n{fields}\n---\n\n# Text\n"));
    }
    assert_eq!(
        eligible(&space, json!({})),
        [
            "urgent.md",
            "tasks/second.md",
            "tasks/soon.md",
            "tasks/later.md",
            "strange.md",
            "tasks/usual.md",
            "tasks/low.md"
        ]
    );
    assert_eq!(eligible(&space, json!({ "path_prefix": "tasks", "limit": 2 })), ["tasks/second.md", "tasks/soon.md"]);
    assert_eq!(eligible(&space, json!({ "path_prefix": "task" })), [""; 0]);
    assert_eq!(
        space.get("eligible", json!({ "path_prefix": "tasks/second.md" })),
        json!({ "tasks": [{ "path": "tasks/second.md", "title": "Second", "status": "ToDo", "priority": 2 }] })
    );
    let usual = space.get("eligible", json!({ "path_prefix": "tasks/usual.md" }));
    assert_eq!(usual["tasks"][0]["priority"], json!(null));
}

#[test]
fn a_task_waits_until_what_it_depends_on_is_finished() {
    let space = TestSpace::new();
    space.put("t/base.md", "---\nstatus: doing\n---\n");
    space.put("t/board.md", "---\nstate: Review\n---\n");
    for (name, before) in [
        ("link", "depends_on: [\"[[base]]\"]"),
        ("bare", "depends_on: [[base]]"),
        ("path", "blocked_by: t/base.md"),
        ("markdown", "blocked_by: \"[x](base.md#part)\""),
        ("several", "depends_on: [gone, t/board]"),
        ("nowhere", "depends_on: [gone, 3, null]"),
    ] {
        space.put(&format!("t/{name}.md"), &format!("---\nstatus: todo\n{before}\n---\n"));
    }
    assert_eq!(eligible(&space, json!({})), ["t/nowhere.md"]);
    space.put("t/base.md", "---\nstatus: Done\n---\n");
    assert_eq!(eligible(&space, json!({})), ["t/bare.md", "t/link.md", "t/markdown.md", "t/nowhere.md", "t/path.md"]);
    space.put("t/board.md", "---\nstate: completed\n---\n");
    assert_eq!(eligible(&space, json!({})).len(), 6);
}

#[test]
fn bad_questions_about_tasks_are_refused() {
    let space = TestSpace::new();
    for (arguments, why) in [
        (json!({ "limit": 0 }), "`limit`: 0 is too small; 1 to 200 is allowed"),
        (json!({ "path_prefix": "a/../b" }), "path denied: `..` in `..`"),
        (json!({ "path_prefix": 7 }), "`path_prefix`: invalid type: integer `7`, expected a string"),
    ] {
        assert_eq!(space.refusal("eligible", arguments), (400, why.to_owned()));
    }
    assert_eq!(eligible(&space, json!({ "limit": u64::MAX >> 1, "path_prefix": "' OR 1=1 --" })), [""; 0]);
}

mod queue;
