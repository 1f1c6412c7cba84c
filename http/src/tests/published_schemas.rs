//! What is published of the table: the OpenAPI document and the tool list.

use std::collections::BTreeSet;

use serde_json::Value;
use svcfs_knowledge::CATALOGUE;

use super::server::TestServer;
use crate::{mcp, openapi};

fn document() -> Value {
    serde_json::from_str(&openapi::document(CATALOGUE)).unwrap()
}

fn tools() -> Vec<Value> {
    serde_json::from_str(&mcp::tools()).unwrap()
}

/// Every reference in a document.
fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(target)) = members.get("$ref") {
                found.insert(target.clone());
            }
            members.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn every_reference_of_the_openapi_document_leads_somewhere() {
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(!found.is_empty());
    for target in found {
        let pointer = target.strip_prefix('#').unwrap_or_else(|| panic!("{target} leaves the document"));
        assert!(document.pointer(pointer).is_some(), "{target} leads nowhere");
    }
}

#[test]
fn every_route_of_the_table_is_in_the_openapi_document_once() {
    let document = document();
    let mut ids = BTreeSet::new();
    for methods in document["paths"].as_object().unwrap().values() {
        for operation in methods.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(ids.insert(id.to_owned()), "operationId `{id}` comes twice");
            let summary = operation["summary"].as_str().unwrap();
            assert!(!summary.is_empty() && !summary.ends_with('.'), "{id}: `{summary}`");
        }
    }
    for entry in CATALOGUE.iter().flat_map(|area| area.operations) {
        for route in entry.http {
            let operation = &document["paths"][route.full_path()][route.method.name().to_lowercase()];
            assert!(operation.is_object(), "{} {}", route.method.name(), route.path);
            assert!(operation["responses"][route.success_status.to_string()].is_object());
        }
    }
    for special in crate::SPECIAL_ROUTES {
        assert!(ids.contains(special.name), "{}", special.name);
    }
}

#[test]
fn parameters_are_in_query_or_body_and_required_by_type() {
    let document = document();
    let put = &document["paths"]["/api/svc/file"]["put"];
    let named = |name: &str| {
        let parameters = put["parameters"].as_array().unwrap();
        parameters.iter().find(|parameter| parameter["name"] == name).cloned()
    };
    let path = named("path").unwrap();
    assert_eq!((&path["in"], &path["required"]), (&Value::from("query"), &Value::from(true)));
    assert!(named("content").is_none() && put["requestBody"]["content"]["text/markdown"].is_object());
    let rename = &document["paths"]["/api/svc/rename"]["post"];
    let schema = &rename["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(schema["required"], serde_json::json!(["from", "to"]));
}

#[test]
fn every_tool_takes_and_gives_objects() {
    let tools = tools();
    assert!(!tools.is_empty());
    for tool in &tools {
        let name = tool["name"].as_str().unwrap();
        assert!(name.starts_with("svc_"), "{name}");
        assert!(tool["description"].as_str().is_some_and(|text| !text.is_empty()), "{name}");
        for schema in ["inputSchema", "outputSchema"].into_iter().filter(|schema| tool.get(schema).is_some()) {
            assert_eq!(tool[schema]["type"], "object", "{name}: {schema}");
            let mut found = BTreeSet::new();
            references(&tool[schema], &mut found);
            for target in found {
                assert!(tool[schema].pointer(&target[1..]).is_some(), "{name}: {target} leads nowhere");
            }
        }
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{name}");
        let writes = tool["annotations"]["readOnlyHint"] == false;
        let has_actor = tool["inputSchema"]["properties"].get("actor").is_some();
        assert!(!writes || has_actor, "{name} writes and takes no actor");
    }
}

#[test]
fn agents_see_known_names_and_conditions_only_where_they_apply() {
    let schema = |name: &str| tools().into_iter().find(|tool| tool["name"] == name).unwrap()["inputSchema"].clone();
    let search = schema("svc_search");
    assert_eq!(search["required"], serde_json::json!(["query"]));
    assert!(search["properties"]["query"].is_object() && search["properties"].get("q").is_none(), "{search}");
    assert!(schema("svc_write")["properties"].get("if_match").is_some());
    assert!(schema("svc_bulk_write")["properties"].get("if_match").is_none());
}

#[test]
fn parameters_required_by_rest_are_optional_for_agents() {
    let tool = tools().into_iter().find(|tool| tool["name"] == "svc_aggregate").unwrap();
    assert_eq!(tool["inputSchema"]["required"], serde_json::json!(["group_by"]));
    assert_eq!(tool["inputSchema"]["properties"]["calculate"]["default"], serde_json::json!(["count"]));
    let document = document();
    let parameters = document["paths"]["/api/svc/query/aggregate"]["get"]["parameters"].as_array().unwrap();
    let calc = parameters.iter().find(|parameter| parameter["name"] == "calc").unwrap();
    assert_eq!((&calc["required"], &calc["explode"]), (&true.into(), &false.into()), "a list with commas: {calc}");
}

#[test]
fn headers_are_documented_where_they_are_sent() {
    let document = document();
    let file = &document["paths"]["/api/svc/file"];
    let sent = |method: &str| -> Vec<String> {
        file[method]["responses"]["200"]["headers"].as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(sent("get"), ["ETag", "Last-Modified", "X-Permalink", "X-File-Type", "X-As-Of"]);
    assert_eq!(sent("put"), ["ETag"]);
    assert!(file["put"]["requestBody"]["content"]["application/x-symlink"].is_object());
    let asked = |path: &str| document["paths"][path]["post"]["parameters"].to_string();
    assert!(asked("/api/svc/rename").contains("IfMatch") && !asked("/api/svc/bulk").contains("IfMatch"));
}

#[test]
fn annotations_follow_from_the_method() {
    let hint = |name: &str| {
        let tools = tools();
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap().clone();
        let annotations = &tool["annotations"];
        (annotations["readOnlyHint"].clone(), annotations["destructiveHint"].clone())
    };
    assert_eq!(hint("svc_read"), (true.into(), false.into()));
    assert_eq!(hint("svc_write"), (false.into(), false.into()));
    assert_eq!(hint("svc_delete"), (false.into(), true.into()));
}

/// Every way to ask an endpoint of the document: nothing filled in, and everything filled in with
/// what cannot be.
fn lines(path: &str, method: &str, operation: &Value) -> [String; 2] {
    let mut filled = path.to_owned();
    let mut query = Vec::new();
    for parameter in operation["parameters"].as_array().unwrap() {
        let Some(name) = parameter["name"].as_str() else { continue };
        if parameter["in"] == "path" {
            filled = filled.replace(&format!("{{{name}}}"), "x");
        } else {
            query.push(format!("{name}=x"));
        }
    }
    let method = method.to_uppercase();
    [format!("{method} {filled}"), format!("{method} {filled}?{}", query.join("&"))]
}

#[tokio::test]
async fn every_endpoint_answers_with_a_documented_status_and_type() {
    let server = TestServer::new();
    let document = document();
    let mut asked = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if path == mcp::PATH {
                continue;
            }
            for line in lines(path, method, operation) {
                let answer = server.send(&line, &[], "").await;
                let documented = &operation["responses"][answer.status().as_str()];
                assert!(documented.is_object(), "{line}: {} is not documented", answer.status());
                let documented = match documented["$ref"].as_str() {
                    Some(target) => document.pointer(&target[1..]).unwrap(),
                    None => documented,
                };
                let given = answer.headers().get("content-type").map_or("", |mime| mime.to_str().unwrap());
                let given = given.split(';').next().unwrap();
                let content = documented["content"].as_object();
                let is_known =
                    content.is_some_and(|content| content.contains_key(given) || content.contains_key("*/*"));
                assert!(is_known || (content.is_none() && given.is_empty()), "{line}: {given} is not documented");
                asked += 1;
            }
        }
    }
    assert!(asked > 60, "only {asked} requests");
}

#[test]
fn examples_of_bodies_have_only_members_of_their_schemas() {
    let document = document();
    let operations =
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap().values());
    let mut examples = 0;
    for operation in operations {
        let body = &operation["requestBody"]["content"]["application/json"];
        for name in body["example"].as_object().into_iter().flatten().map(|(name, _)| name) {
            assert!(body["schema"]["properties"].get(name).is_some(), "{}: {name}", operation["operationId"]);
            examples += 1;
        }
    }
    assert!(examples > 10, "{examples}");
}

#[test]
fn the_description_defines_formats_and_one_place_per_input() {
    let document = document();
    let at = |pointer: &str| document.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is not there"));
    let parameter = |path: &str, name: &str| {
        let parameters = document["paths"][path]["get"]["parameters"].as_array().unwrap();
        parameters.iter().find(|parameter| parameter["name"] == name).unwrap()["schema"].clone()
    };
    let (page, folder) = (parameter("/api/svc/toc", "path"), parameter("/api/svc/tree", "path"));
    let (page, folder) = (page["pattern"].as_str().unwrap(), folder["pattern"].as_str().unwrap());
    assert_ne!(page, folder, "the root is a folder and no page");
    assert_eq!(parameter("/api/svc/search", "limit")["maximum"], i64::MAX);
    assert!(at("/components/schemas/BulkFile/properties/content/anyOf/1/properties/base64/pattern").is_string());
    assert_eq!(at("/components/parameters/IfNoneMatch/schema/examples")[0], "*");
    let renames = at("/paths/~1api~1svc~1rename/post/requestBody/content/application~1json/schema/properties");
    assert!(renames.get("from").is_some() && renames.get("update_links").is_none(), "{renames}");
    let lint = at("/paths/~1api~1svc~1lint/post/requestBody/content/application~1json/schema/anyOf");
    assert_eq!(lint[1]["required"][0], "content");
    for tool in tools() {
        assert!(!tool["inputSchema"].to_string().contains("(?!"), "agents need no patterns of paths: {tool}");
        assert!(tool["inputSchema"].get("anyOf").is_none(), "{tool}");
    }
}
