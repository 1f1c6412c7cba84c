//! The specification's rows, typed in, against the operation table. What does not exist yet stands
//! in `pending.txt`, a list that may only shrink: a test fails when a row is missing and not
//! pending, and when a pending one exists.

use std::collections::BTreeSet;

use schemars::generate::SchemaGenerator;
use serde_json::{Value, json};
use svcfs_config::UNSUPPORTED_KEYS;
use svcfs_knowledge::CATALOGUE;
use svcfs_knowledge::kernel::OperationEntry;

use super::served;
use crate::space::TestSpace;

/// What is served beside the contract, each with its reason.
const BEYOND: [&str; 23] = [
    // D40: the HTML of a page, and of text.
    "GET /api/svc/render",
    "POST /api/svc/render",
    "GET /p",  // leads to the index
    "GET /p/", // what is published, for people and for search engines
    "GET /sitemap.xml",
    "GET /robots.txt",
    "GET /api/docs/", // the page itself, to which /api/docs leads, so that its parts are found beside it
    "GET /api/docs/{}",
    "POST /api/svc/tasks", // workers use the task queue over REST as agents do
    "POST /api/svc/tasks/next",
    "POST /api/svc/tasks/renew",
    "POST /api/svc/tasks/progress",
    "POST /api/svc/tasks/done",
    "GET /api/svc/webhooks/{}/deliveries", // issue 39: the log of a webhook, and a test of its receiver
    "POST /api/svc/webhooks/{}/test",
    "POST /api/svc/revert", // undo, and what it needs beside it
    "POST /api/svc/restore",
    "GET /api/svc/trash",
    "POST /api/svc/recall",                      // issue 40: excerpts within a budget of tokens
    "POST /api/svc/backup",                      // a backup now, as `svcfs backup` asks a server for it
    "DELETE /api/svc/schemas/{}",                // a schema that is saved can be removed
    "GET /.well-known/oauth-protected-resource", // RFC 9728: MCP clients find the identity provider
    "GET /.well-known/oauth-protected-resource/mcp",
];

/// Tools beside the contract, each with its reason.
const BEYOND_TOOLS: [&str; 9] = [
    "svc_version", // agents read, compare and attribute versions, as callers of REST do
    "svc_diff",
    "svc_blame",
    "svc_task_next", // the queue: eligible and claim in one step, so that no task is taken twice
    "svc_task_done",
    "svc_recall",      // excerpts with citations within a budget of tokens
    "svc_undo",        // agents undo their own mistakes
    "svc_edit",        // parts of a page are changed without sending all of it
    "svc_tool_search", // issue 41: finds the tools that a short list does not have
];

/// The rows of a table below its heading, split into columns.
fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().skip(1).map(|line| line.split('\t').collect())
}

/// A method and path without the names of its parameters, which are ours to choose.
fn nameless(method: &str, path: &str) -> String {
    let mut out = format!("{method} ");
    for (number, part) in path.split(['{', '}']).enumerate() {
        out.push_str(if number % 2 == 0 { part } else { "{}" });
    }
    out
}

fn endpoints() -> Vec<String> {
    rows(include_str!("endpoints.tsv")).map(|row| nameless(row[0], row[1])).collect()
}

/// An entry by method and full path.
fn entry_at(place: &str) -> Option<&'static OperationEntry> {
    let entries = CATALOGUE.iter().flat_map(|area| area.operations);
    let is_there = |entry: &&OperationEntry| {
        entry.http.iter().any(|route| format!("{} {}", route.method.name(), route.full_path()) == place)
    };
    entries.into_iter().find(is_there)
}

/// The schema of one input of what is at a place: of an operation, or of the configuration.
fn input(place: &str, name: &str) -> Option<Value> {
    if place == "config" {
        let schema: Value = serde_json::from_str(&svcfs_config::schema()).unwrap();
        return schema.pointer(&format!("/properties/{}", name.replace('.', "/properties/"))).cloned();
    }
    let schema = (entry_at(place)?.input)(&mut SchemaGenerator::default());
    schema.pointer(&format!("/properties/{name}")).cloned()
}

/// Everything of the contract's lists that is not there, in the order of the lists.
fn missing() -> Vec<String> {
    let served: BTreeSet<String> = served().iter().map(|(method, path)| nameless(method, path)).collect();
    let mut missing = Vec::new();
    for row in rows(include_str!("endpoints.tsv")) {
        if !served.contains(&nameless(row[0], row[1])) {
            missing.push(format!("endpoint {} {}", row[0], row[1]));
        }
    }
    let tools = tools();
    for row in rows(include_str!("tools.tsv")) {
        if !tools.contains(row[0]) {
            missing.push(format!("tool {}", row[0]));
        }
    }
    for row in rows(include_str!("limits.tsv")) {
        if input(row[0], row[1]).is_none() {
            missing.push(format!("limit {} {}", row[0], row[1]));
        }
    }
    missing.extend(UNSUPPORTED_KEYS.iter().map(|key| format!("key {key}")));
    missing
}

fn tools() -> BTreeSet<String> {
    let tools: Vec<Value> = serde_json::from_str(&svcfs_http::mcp::tools()).unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn exactly_the_missing_contract_entries_are_pending() {
    let missing = missing();
    let pending: Vec<&str> = include_str!("pending.txt").lines().collect();
    let exists: Vec<_> = pending.iter().filter(|line| !missing.iter().any(|missing| missing == *line)).collect();
    let new: Vec<_> = missing.iter().filter(|line| !pending.contains(&line.as_str())).collect();
    assert!(
        exists.is_empty(),
        "these exist (or are no rows of the contract): delete their lines in pending.txt: {exists:#?}"
    );
    assert!(new.is_empty(), "these are gone; pending.txt may only shrink, so bring them back: {new:#?}");
    assert_eq!(pending, missing, "pending.txt keeps the order of the lists");
}

#[test]
fn nothing_is_served_beyond_the_contract_without_a_reason() {
    let contract: BTreeSet<String> = endpoints().into_iter().chain(BEYOND.map(str::to_owned)).collect();
    let served: BTreeSet<String> = served().iter().map(|(method, path)| nameless(method, path)).collect();
    assert_eq!(served.difference(&contract).collect::<Vec<_>>(), [] as [&String; 0]);
    let listed = rows(include_str!("tools.tsv")).map(|row| row[0]);
    let known: BTreeSet<String> = listed.chain(BEYOND_TOOLS).map(str::to_owned).collect();
    assert_eq!(tools().difference(&known).collect::<Vec<_>>(), [] as [&String; 0]);
}

#[test]
fn the_contract_lists_are_complete() {
    let endpoints = endpoints();
    assert_eq!(endpoints.len(), 166);
    assert_eq!(endpoints.iter().collect::<BTreeSet<_>>().len(), 166, "a row comes twice");
    let tools: BTreeSet<&str> = rows(include_str!("tools.tsv")).map(|row| row[0]).collect();
    assert_eq!(tools.len(), 68, "contract 4.21: about 68 tools");
}

#[test]
fn limits_have_the_numbers_of_the_contract() {
    let mut checked = 0;
    for row in rows(include_str!("limits.tsv")) {
        let [place, name, minimum, default, maximum] = row[..] else { panic!("{row:?} has not five columns") };
        let Some(schema) = input(place, name) else { continue };
        let number = |text: &str| text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number));
        let said = schema["description"].as_str().unwrap_or_default();
        if !default.is_empty() {
            assert_eq!(schema["default"], number(default), "{place} {name}: {schema}");
        }
        // A time has no number: the schema names it in words.
        let is_time = minimum.parse::<i64>().is_err() && said.contains(minimum);
        if !minimum.is_empty() && !is_time {
            assert_eq!(schema["minimum"], number(minimum), "{place} {name}: {schema}");
        }
        // More than the cap is lowered, not refused, so the schema names it in words or as a
        // maximum.
        if !maximum.is_empty() {
            assert!(schema["maximum"] == number(maximum) || said.contains(maximum), "{place} {name}: {schema}");
        }
        checked += 1;
    }
    assert!(checked > 0, "no limit of the contract was checked");
}

#[test]
fn agents_find_the_resources_of_the_contract() {
    let space = TestSpace::new();
    let client = space.client();
    let mut found = BTreeSet::new();
    for (method, member, name) in
        [("resources/list", "resources", "uri"), ("resources/templates/list", "resourceTemplates", "uriTemplate")]
    {
        let answer = client.agent(method, json!({})).json();
        let items = answer["result"][member].as_array().unwrap_or_else(|| panic!("{method}: {answer}")).clone();
        found.extend(items.iter().map(|item| item[name].as_str().unwrap().replace("{+", "{")));
    }
    for row in rows(include_str!("resources.tsv")) {
        assert!(found.contains(row[0]), "{} is not among {found:?}", row[0]);
    }
}
