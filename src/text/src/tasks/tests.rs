use super::parse_tasks;

fn told(text: &str) -> Vec<String> {
    let tell = |task: super::PageTask| {
        let details = serde_json::Value::Object(task.details);
        format!("{} {} {:?} {:?} {details}", task.line, task.is_completed, task.text, task.tags)
    };
    parse_tasks(text).into_iter().map(tell).collect()
}

#[test]
fn items_with_boxes_are_tasks_and_nothing_else_is() {
    let page = "---\ntitle: T\n---\n# Work\n\n- [ ] write *it* with `code`\n- [x] done\n- plain\n\nNot [ ] one.\n\n```\n- [ ] code\n```\n";
    assert_eq!(told(page), [r#"6 false "write it with code" [] {}"#, r#"7 true "done" [] {}"#]);
}

#[test]
fn what_a_computed_page_answers_are_no_tasks_of_its_own() {
    let page =
        "- [ ] mine\n\n<!-- svc:auto -->\n\n- [ ] of another\n- [x] too\n\n<!-- /svc-view -->\n\n- [ ] mine, too\n";
    assert_eq!(told(page), [r#"1 false "mine" [] {}"#, r#"10 false "mine, too" [] {}"#]);
}

#[test]
fn a_task_inside_a_task_is_one_of_its_own() {
    let page = "1. [ ] outer\n   continued\n   - [x] inner\n\n   more\n";
    assert_eq!(told(page), [r#"1 false "outer continued more" [] {}"#, r#"3 true "inner" [] {}"#]);
}

#[test]
fn tags_and_details_are_taken_out_of_the_words() {
    let page = "- [ ] call #home/phone, ask [due:: 2026-01-31] [who::Ann] a::b #1\n";
    assert_eq!(
        told(page),
        [r##"1 false "call #home/phone, ask a::b #1" ["home/phone", "1"] {"due":"2026-01-31","who":"Ann"}"##]
    );
}

#[test]
fn a_hostile_page_takes_no_long_time() {
    let page = format!("- [ ] {}\n", "[a::".repeat(5_000));
    assert_eq!(parse_tasks(&page).len(), 1);
    let page = "- [ ] x [k:: v]\n".repeat(3_000);
    assert_eq!(parse_tasks(&page).len(), 3_000);
}
