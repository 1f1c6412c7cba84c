//! The OpenAPI document, generated from the operation table and the special pages.
//!
//! A macro library would need a second description of every endpoint. The table and the schemas of
//! its types contain everything, and OpenAPI 3.1 uses JSON Schema 2020-12.

mod headers;

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};
use svcfs_knowledge::kernel::{API_PREFIX, BodyKind, HttpMethod, OperationArea, OperationEntry, ResponseMedia, Route};

use crate::bind::is_file_input;
use crate::specials::{RoutePrefix, SPECIAL_ROUTES, SpecialRoute, VERSION};
use crate::{media, schema_patterns};

const DESCRIPTION: &str = "Read, write, search and follow a tree of markdown pages. Every write is a git commit whose author is \
    `X-Actor`. A space other than the primary one is named by `X-Svc-Space` or in the path: `/api/svc/{space}/…`.";

const KEY_DESCRIPTION: &str = "A key of `auth.api_key` or `auth.api_keys`; ignored when `auth.type` is `none`";

/// Error responses by status, with their key under `components`.
const ERRORS: [(u16, &str, &str); 14] = [
    (400, "Invalid", "The request is malformed, or a parameter is missing or unreadable"),
    (401, "Unauthenticated", "Credentials are missing or wrong, and `auth.type` requires them"),
    (
        403,
        "Forbidden",
        "The credentials do not allow the operation, the request is from a web page of a foreign origin or host, or \
         the path is read-only",
    ),
    (404, "NotFound", "The path or the space does not exist"),
    (409, "Conflict", "Conflict with another change: the page changed since it was read, or the name exists already"),
    (412, "PreconditionFailed", "`If-None-Match: *` and the path exists, or preconditions that contradict each other"),
    (413, "TooLarge", "The body is over its limit"),
    (415, "UnsupportedType", "The type of the file is not allowed (`assets.allowed_types`)"),
    (422, "Rejected", "Lint or a schema refused the content; `issues` says where"),
    (423, "Locked", "A WebDAV client has locked the path; `error` says who, and until when"),
    (429, "RateLimited", "Too many requests; `Retry-After` says when to retry"),
    (500, "Internal", "Internal error; the log has the details under `request_id`"),
    (501, "Disabled", "The feature is disabled by a setting; `error` names it"),
    (503, "Unavailable", "A component is busy or unavailable, or the disk is full; `Retry-After` says when to retry"),
];

/// The document of a catalogue, as JSON text; ends with a newline.
pub fn document(catalogue: &[OperationArea]) -> String {
    let mut writer = OpenApiWriter::new();
    let mut paths = Map::new();
    for area in catalogue {
        for entry in area.operations {
            for (index, route) in entry.http.iter().enumerate() {
                let described = writer.operation(area, entry, route, index);
                insert(&mut paths, route.full_path(), route.method, described);
            }
        }
    }
    for special in SPECIAL_ROUTES {
        let path = match special.prefix {
            RoutePrefix::Space => format!("{API_PREFIX}{}", special.path),
            RoutePrefix::Root | RoutePrefix::Unrouted => special.path.replace("{*", "{"),
        };
        insert(&mut paths, path, special.method(), describe(special));
    }
    let mut tags: Vec<Value> = catalogue.iter().map(|area| json!({ "name": area.title })).collect();
    tags.push(json!({ "name": "Server" }));
    let mut document = json!({
        "openapi": "3.1.0",
        "info": { "title": "svcfs", "version": VERSION, "description": DESCRIPTION },
        "tags": tags,
        // The key is optional: authentication may be off.
        "security": [{}, { "Key": [] }],
        "paths": paths,
        "components": {
            "parameters": headers::HEADERS.map(headers::header).into_iter().collect::<Map<_, _>>(),
            "responses": ERRORS.map(error_component).into_iter().collect::<Map<_, _>>(),
            "schemas": writer.schemas(),
            "securitySchemes": { "Key": { "type": "http", "scheme": "bearer", "description": KEY_DESCRIPTION } },
        },
    });
    join_lines(&mut document);
    format!("{document:#}\n")
}

fn insert(paths: &mut Map<String, Value>, path: String, method: HttpMethod, described: Value) {
    let methods = paths.entry(path).or_insert_with(|| json!({}));
    if let Some(methods) = methods.as_object_mut() {
        methods.insert(method.name().to_lowercase(), described);
    }
}

fn error_component((_, key, description): (u16, &str, &str)) -> (String, Value) {
    let schema = json!({ "$ref": "#/components/schemas/Error" });
    (key.to_owned(), json!({ "description": description, "content": { media::JSON: { "schema": schema } } }))
}

/// Describes a special page: its responses, and the parameters in its path.
fn describe(special: &SpecialRoute) -> Value {
    let mut responses = Map::new();
    for (status, mime) in special.responses {
        let reason = http::StatusCode::from_u16(*status).ok().and_then(|status| status.canonical_reason());
        // One status may have several media types, selected by `Accept`.
        let response = responses.entry(status.to_string());
        let response = response.or_insert_with(|| json!({ "description": reason.unwrap_or_default() }));
        if !mime.is_empty() {
            response["content"][*mime] = json!({});
        }
    }
    for (status, name, _) in ERRORS.iter().filter(|(status, ..)| special.may_refuse(*status)) {
        let reference = || json!({ "$ref": format!("#/components/responses/{name}") });
        responses.entry(status.to_string()).or_insert_with(reference);
    }
    let parameters: Vec<Value> = in_path(special.path)
        .map(|name| {
            let name = name.trim_start_matches('*');
            let mut schema = json!({ "type": "string" });
            if special.path.contains("{*path}") {
                schema["format"] = schema_patterns::PATH.into();
                schema_patterns::add_constraints(&mut schema, true);
            }
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect();
    json!({
        "operationId": special.name,
        "summary": special.summary,
        "tags": ["Server"],
        "parameters": parameters,
        "responses": responses,
    })
}

fn in_path(path: &str) -> impl Iterator<Item = &str> {
    path.split(['{', '}']).skip(1).step_by(2)
}

/// Describes operations and collects the types that they refer to.
struct OpenApiWriter {
    inputs: SchemaGenerator,
    outputs: SchemaGenerator,
}

impl OpenApiWriter {
    fn new() -> Self {
        let settings = || {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = "/components/schemas".into();
                settings.meta_schema = None;
            })
        };
        Self {
            inputs: settings().for_deserialize().into_generator(),
            outputs: settings().for_serialize().into_generator(),
        }
    }

    /// Describes one route of an operation. The id of the second and further routes has a number.
    fn operation(&mut self, area: &OperationArea, entry: &OperationEntry, route: &Route, index: usize) -> Value {
        let schema = (entry.input)(&mut self.inputs);
        let manual = manual(schema.as_value());
        let (summary, description) = manual.split_once('\n').unwrap_or((&manual, ""));
        let id = if index == 0 { entry.name.to_owned() } else { format!("{}_{}", entry.name, index + 1) };
        let mut described = json!({
            "operationId": id,
            "summary": summary,
            "description": description.trim(),
            "tags": [area.title],
            "parameters": parameters(entry, route, schema.as_value()),
            "responses": self.responses(entry, route),
        });
        if let Some(body) = body(route, schema.as_value()) {
            described["requestBody"] = body;
        }
        described
    }

    fn responses(&mut self, entry: &OperationEntry, route: &Route) -> Value {
        let mut success = json!({ "description": "Done" });
        if route.success_status != 204 {
            success["content"] = match route.text_field {
                None => {
                    let mime = route.json_media_type.map_or(media::JSON, media::without_parameters);
                    json!({ mime: { "schema": self.json_body(entry, route) } })
                }
                Some((field, kind)) => {
                    let text = json!({ "schema": { "type": "string" } });
                    let mut content = match kind {
                        // Text in JSON is any value.
                        ResponseMedia::Fixed(media::JSON) => json!({ media::JSON: {} }),
                        ResponseMedia::Fixed(mime) => json!({ media::without_parameters(mime): text }),
                        ResponseMedia::FromPath => {
                            json!({ media::without_parameters(media::MARKDOWN): text, "*/*": {} })
                        }
                    };
                    if let Some(schema) = self.json_alternative(entry, route, field) {
                        content[media::JSON] = json!({ "schema": schema });
                    }
                    content
                }
            };
        }
        let headers = self.headers(entry, route);
        if !headers.is_empty() {
            success["headers"] = headers.into();
        }
        let mut responses = Map::new();
        responses.insert(route.success_status.to_string(), success);
        if route.has_etag && route.is_read_only {
            responses.insert("304".to_owned(), json!({ "description": "The cached copy is still current" }));
        }
        for (status, name, _) in ERRORS {
            if may_fail(route, status) {
                responses.insert(status.to_string(), json!({ "$ref": format!("#/components/responses/{name}") }));
            }
        }
        responses.into()
    }

    /// The schema of a JSON response: of the output, or of its field that is the body.
    fn json_body(&mut self, entry: &OperationEntry, route: &Route) -> Value {
        let schema = (entry.output)(&mut self.outputs);
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next());
        let definition = name.and_then(|name| self.outputs.definitions().get(name));
        let body = route.json_fallback.and_then(|field| definition?.pointer(&format!("/properties/{field}")));
        body.cloned().unwrap_or_else(|| schema.into())
    }

    /// The JSON schema of a response without the text field; `None` when the field is always
    /// present.
    fn json_alternative(&mut self, entry: &OperationEntry, route: &Route, field: &str) -> Option<Value> {
        let schema = (entry.output)(&mut self.outputs);
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next());
        let definition = name.and_then(|name| self.outputs.definitions().get(name))?;
        let required = definition.get("required").and_then(Value::as_array);
        if required.is_some_and(|required| required.iter().any(|name| name == field)) {
            return None;
        }
        let fallback_schema = route.json_fallback.and_then(|field| definition.pointer(&format!("/properties/{field}")));
        let schema = Value::from(schema.clone());
        Some(match fallback_schema {
            Some(fallback) => json!({ "anyOf": [schema, fallback] }),
            None => schema,
        })
    }

    /// The headers of a success, with the descriptions of the output fields that they repeat.
    fn headers(&mut self, entry: &OperationEntry, route: &Route) -> Map<String, Value> {
        let schema = (entry.output)(&mut self.outputs);
        let name = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.rsplit('/').next());
        let definition = name.and_then(|name| self.outputs.definitions().get(name));
        let described = |field: &str| definition?.pointer(&format!("/properties/{field}/description")).cloned();
        let header = |description: Value| json!({ "description": description, "schema": { "type": "string" } });
        let mut headers = Map::new();
        if route.has_etag {
            headers.insert("ETag".to_owned(), header("Quoted git blob hash of the stored content".into()));
            if let Some(description) = described("modified") {
                headers.insert("Last-Modified".to_owned(), header(description));
            }
        }
        for (field, name) in route.headers {
            headers.insert((*name).to_owned(), header(described(field).unwrap_or_default()));
        }
        headers
    }

    /// All types that were referred to.
    fn schemas(mut self) -> Map<String, Value> {
        let mut schemas = self.outputs.take_definitions(true);
        for (name, mut schema) in self.inputs.take_definitions(true) {
            schema_patterns::add_constraints(&mut schema, true);
            schemas.entry(name).or_insert(schema);
        }
        let error = json!({
            "type": "object",
            "description": "An error; some have further members, such as `issues` or `etag`",
            "properties": { "error": { "type": "string", "description": "What went wrong, and what to do" } },
            "required": ["error"],
        });
        schemas.insert("Error".to_owned(), error);
        schemas
    }
}

/// Whether a route can fail with this status.
fn may_fail(route: &Route, status: u16) -> bool {
    let writes = !route.is_read_only;
    match status {
        409 | 412 | 422 | 423 => writes,
        415 => route.body == BodyKind::Form,
        413 => route.body != BodyKind::Empty,
        _ => true,
    }
}

fn parameters(entry: &OperationEntry, route: &Route, schema: &Value) -> Vec<Value> {
    let required = |name: &str| {
        let names = schema.get("required").and_then(Value::as_array);
        names.is_some_and(|names| names.iter().any(|required| required == name))
    };
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let mut parameters: Vec<Value> = Vec::new();
    for (name, schema) in properties {
        let is_in_path = in_path(route.path).any(|parameter| parameter == name);
        let is_in_query = match route.body {
            BodyKind::Empty => true,
            BodyKind::Raw(field) | BodyKind::Object(field) => name != field,
            BodyKind::Json => route.query_inputs.contains(&name.as_str()),
            BodyKind::Form => !is_file_input(name),
        };
        if !is_in_path && !is_in_query {
            continue;
        }
        let mut schema = schema.clone();
        schema_patterns::add_constraints(&mut schema, required(name));
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        let example = example(&mut schema);
        let mut parameter = json!({
            "name": name,
            "in": if is_in_path { "path" } else { "query" },
            "required": is_in_path || (required(name) && route.body != BodyKind::Json),
            "schema": schema,
        });
        if let Some(description) = description {
            parameter["description"] = description;
        }
        if let Some(example) = example {
            parameter["example"] = example;
        }
        if schema_is_list(&parameter["schema"]) {
            parameter["explode"] = false.into();
        }
        parameters.push(parameter);
    }
    let headers: &[&str] = match (route.is_read_only, entry.is_conditional, route.has_etag) {
        (true, _, false) => &["Space"],
        (true, _, true) => &["Space", "IfNoneMatchRead", "IfModifiedSince"],
        (false, false, _) => &["Space", "Actor", "Provenance", "ClaimFence", "IdempotencyKey"],
        (false, true, false) => &["Space", "Actor", "Provenance", "ClaimFence", "IdempotencyKey", "IfMatch"],
        (false, true, true) => {
            &["Space", "Actor", "Provenance", "ClaimFence", "IdempotencyKey", "IfMatch", "IfNoneMatch"]
        }
    };
    parameters.extend(headers.iter().map(|name| json!({ "$ref": format!("#/components/parameters/{name}") })));
    parameters
}

/// The description of an operation; the first line is the summary.
pub(crate) fn manual(schema: &Value) -> String {
    join_paragraphs(schema.get("description").and_then(Value::as_str).unwrap_or_default())
}

/// Removes the line breaks of doc comments from all descriptions.
pub(crate) fn join_lines(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == "description" => *text = join_paragraphs(text),
                    member => join_lines(member),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(join_lines),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Joins the lines of each paragraph; lists, tables and code stay unchanged.
fn join_paragraphs(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| match paragraph.trim_start().starts_with(['-', '|', '`']) {
        true => paragraph.to_owned(),
        false => paragraph.replace('\n', " "),
    });
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

/// Removes the first example from a schema: documentation browsers fill forms with examples beside
/// the schema.
fn example(schema: &mut Value) -> Option<Value> {
    let examples = schema.as_object_mut()?.remove("examples")?;
    examples.get(0).cloned()
}

/// Lists in a query are separated by commas.
fn schema_is_list(schema: &Value) -> bool {
    schema.get("type").is_some_and(|kind| {
        kind == "array" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "array"))
    })
}

fn body(route: &Route, schema: &Value) -> Option<Value> {
    match route.body {
        BodyKind::Empty => None,
        BodyKind::Raw(field) => {
            let mut schema = schema.pointer(&format!("/properties/{field}")).cloned().unwrap_or_default();
            let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            // No schema, because any bytes are valid.
            let mut text = json!({});
            let link = text.clone();
            if let Some(example) = example(&mut schema) {
                text["example"] = example;
            }
            let mut content =
                json!({ media::without_parameters(media::MARKDOWN): text, "application/octet-stream": {} });
            if let Some((mime, _)) = route.media_flag {
                content[mime] = link;
            }
            let mut body = json!({ "required": true, "content": content });
            if let Some(description) = description {
                body["description"] = description;
            }
            Some(body)
        }
        BodyKind::Object(field) => {
            let mut schema = schema.pointer(&format!("/properties/{field}")).cloned().unwrap_or_default();
            let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            let mut body = json!({ "required": true, "content": { media::JSON: { "schema": schema } } });
            if let Some(description) = description {
                body["description"] = description;
            }
            Some(body)
        }
        BodyKind::Form => {
            let file = json!({ "type": "string", "format": "binary", "description": "The file; its name is that of the part" });
            let form = json!({ "type": "object", "properties": { "file": file }, "required": ["file"], "additionalProperties": false });
            Some(json!({ "required": true, "content": { "multipart/form-data": { "schema": form } } }))
        }
        BodyKind::Json => {
            let mut schema = schema.clone();
            if let Some(object) = schema.as_object_mut() {
                object.remove("title");
                object.remove("description");
                // Unknown members are refused; path parameters are described separately.
                object.insert("additionalProperties".to_owned(), false.into());
            }
            schema_patterns::add_constraints(&mut schema, true);
            let mut example = example(&mut schema);
            // Query parameters are described separately: giving one twice is an error.
            for name in in_path(route.path).chain(route.query_inputs.iter().copied()) {
                let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
                properties.and_then(|properties| properties.remove(name));
                let members = example.as_mut().and_then(Value::as_object_mut);
                members.and_then(|members| members.remove(name));
                let required = schema.get_mut("required").and_then(Value::as_array_mut);
                required.into_iter().for_each(|required| required.retain(|required| required != name));
            }
            for name in in_path(route.path).filter(|_| route.path_wins) {
                schema["properties"][name] = json!({ "description": "Ignored: the path of the URL has it" });
            }
            for name in route.required_one_of {
                let property = schema.pointer_mut(&format!("/properties/{name}"));
                property.into_iter().for_each(|property| schema_patterns::add_constraints(property, true));
            }
            if !route.required_one_of.is_empty() {
                let given =
                    |name: &&str| json!({ "required": [name], "properties": { *name: { "not": { "type": "null" } } } });
                schema["anyOf"] = route.required_one_of.iter().map(given).collect();
            }
            let mut content = json!({ "schema": schema });
            if let Some(example) = example {
                content["example"] = example;
            }
            Some(json!({ "required": true, "content": { media::JSON: content } }))
        }
    }
}
