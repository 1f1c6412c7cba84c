//! Answers of tools as clients read them.
//!
//! Invariant: the text alone is enough, and so is the structure: some clients drop one of them, and
//! all show only the text of a failure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rmcp::ErrorData;
use rmcp::model::{CallToolResponse, CallToolResult, ContentBlock, ResourceContents};
use serde_json::{Value, json};
use svcfs_base::{Fault, McpError, TreePath};
use svcfs_knowledge::kernel::{OperationAnswer, ResponseMeta};

use super::next_call::NextCall;
use super::resources;
use super::tools::ToolEntry;
use crate::app::log;
use crate::{active_request, media, reply};

/// The member of a structure with the notes of an answer.
const NOTES: &str = "notes";

/// An answer for agents. Either the text is the full answer, or the structure is and the text
/// repeats it. Notes are in both.
pub(super) fn to_tool_result(tool: &ToolEntry, answer: OperationAnswer, meta: &ResponseMeta) -> CallToolResult {
    let OperationAnswer { output, text } = answer;
    let notes: Vec<String> = meta.lines().collect();
    let mut result = if tool.entry.is_text_only {
        CallToolResult::success(match text {
            Some(text) => vec![ContentBlock::text(text)],
            None => binary_content(&output),
        })
    } else {
        let mut structure = tool.to_structured(output);
        if let Some(members) = structure.as_object_mut().filter(|_| !notes.is_empty()) {
            members.entry(NOTES).or_insert_with(|| notes.clone().into());
        }
        let text = text.unwrap_or_else(|| structure.to_string());
        let mut result = CallToolResult::structured(structure);
        result.content = vec![ContentBlock::text(text)];
        result
    };
    mark_replayed(&mut result, meta);
    result.content.extend(notes.into_iter().map(ContentBlock::text));
    result
}

/// Marks the answer to an earlier request with the same id.
pub(super) fn mark_replayed(result: &mut CallToolResult, meta: &ResponseMeta) {
    if let Some(members) = result.structured_content.as_mut().and_then(Value::as_object_mut)
        && meta.is_replayed
    {
        members.insert("replayed".to_owned(), true.into());
    }
}

/// Binary content: a description, and the bytes in a form that clients can show.
fn binary_content(output: &Value) -> Vec<ContentBlock> {
    let text = |name: &str| output[name].as_str().unwrap_or_default();
    let encoded = output.pointer("/content/base64").and_then(Value::as_str);
    let (Some(encoded), Ok(path)) = (encoded, TreePath::parse(text("path"))) else {
        return vec![ContentBlock::text(output.to_string())];
    };
    let mime = media::of(&path, &STANDARD.decode(encoded).unwrap_or_default());
    let mime = media::without_parameters(&mime).to_owned();
    let etag = if text("etag").is_empty() { String::new() } else { format!("[etag: {}]\n\n", text("etag")) };
    let description = ContentBlock::text(format!("{etag}{path} is not text but {mime}; its bytes follow"));
    let content = match mime.split('/').next() {
        Some("image") => ContentBlock::image(encoded, mime),
        Some("audio") => ContentBlock::audio(encoded, mime),
        _ => {
            let contents = ResourceContents::blob(encoded, resources::file_uri(&path)).with_mime_type(mime);
            ContentBlock::resource(contents)
        }
    };
    vec![description, content]
}

/// A fault for an agent: a tool result that it can read and act on, except for internal errors. The
/// last line is a call that succeeds when it is sent unchanged.
pub(super) fn failure(fault: &Fault, tool: &str, next: Option<NextCall>) -> Result<CallToolResponse, ErrorData> {
    let id = active_request::new_id();
    log(fault, tool, &id);
    let is_generic = reply::is_generic(fault.kind());
    let mut text = if is_generic { reply::generic(&id) } else { fault.message().to_owned() };
    match fault.kind().mcp() {
        McpError::Internal => Err(ErrorData::internal_error(text, None)),
        McpError::Tool => {
            if !is_generic && !fault.detail().is_empty() {
                text.push_str(&format!("\n{}", details(fault)));
            }
            if let Some(next) = next {
                text.push_str(&format!("\n{next}"));
            }
            Ok(CallToolResult::error(vec![ContentBlock::text(text)]).into())
        }
    }
}

/// The details of a fault; the ETag is named by what it is.
fn details(fault: &Fault) -> Value {
    let rename = |(name, value): (&String, &Value)| {
        let name = if name == "etag" { "current_etag" } else { name };
        (name.to_owned(), value.clone())
    };
    json!(fault.detail().iter().map(rename).collect::<serde_json::Map<_, _>>())
}
