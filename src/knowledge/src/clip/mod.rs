//! Web pages as pages of the tree.
//!
//! Invariant: everything in a document is data of a stranger. Only its text becomes part of the
//! page; the frontmatter is ours and says `trust: external`.

mod article;
mod operations;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde_json::{Map, Value, json};
use svcfs_base::{Change, ChangeSet, Fault, Kind, Precondition, TreePath};
use svcfs_index::{MetaCondition, MetaQuery};
use svcfs_net::{AddressPolicy, NetError, OutgoingClient, OutgoingLimits, with_ascii_host};
use svcfs_text::{frontmatter, headings};

use crate::files;
use crate::kernel::OperationContext;
use article::Article;
pub use operations::AREA;

/// Author of changes of callers without a name.
const DEFAULT_ACTOR: &str = "clipper";

/// Folder of pages for which the caller names none.
const DEFAULT_FOLDER: &str = "clips";

/// Title of a document without one.
const DEFAULT_TITLE: &str = "Untitled Clip";

const LIMITS: OutgoingLimits = OutgoingLimits {
    timeout: Duration::from_secs(30),
    max_bytes: 10 << 20,
    max_redirects: 5,
    requires_tls: false,
    max_idle_connections: 0,
};

/// Limit of the characters of a file name, without the extension …
const MAX_NAME_CHARS: usize = 100;

/// … and of its bytes: file systems allow 255.
const MAX_NAME_BYTES: usize = 200;

/// Limit of the characters of a title.
const MAX_TITLE_CHARS: usize = 500;

/// Attempts to find a free name for a page.
const MAX_NAMES: usize = 1_000;

/// What a caller wants to have.
#[derive(Debug)]
struct ClipRequest {
    url: String,
    title: Option<String>,
    tags: Vec<String>,
    folder: Option<TreePath>,
}

/// A stored page.
#[derive(Debug)]
struct ClippedPage {
    path: TreePath,
    title: String,
    excerpt: String,
}

/// Fetches a document and stores it as a page: as a new version of the page that has the same
/// source, if there is one in the folder.
fn clip(cx: &OperationContext<'_>, request: ClipRequest) -> Result<ClippedPage, Fault> {
    let url = normalized_url(&request.url)?;
    let folder = request.folder.map_or_else(|| TreePath::parse(DEFAULT_FOLDER), Ok)?;
    cx.space.check_path_access(&cx.caller.permissions, cx.caller.protocol, &folder)?;
    if folder.is_hidden() {
        return Err(Fault::invalid("folder", format_args!("`{folder}` is hidden; choose another folder")));
    }
    let net = &cx.settings().net;
    let client = OutgoingClient::new(AddressPolicy::new(&net.hosts, &net.networks), LIMITS);
    let document = client.get(&url).map_err(to_fault)?;
    let article = article::read(document)?;
    let title = [request.title, article.title.clone()].into_iter().flatten().map(|title| one_line(&title));
    let title = title.into_iter().find(|title| !title.is_empty()).unwrap_or_else(|| DEFAULT_TITLE.to_owned());

    let existing = existing_page(cx, &folder, &url)?;
    let path = match &existing {
        Some(path) => path.clone(),
        None => free_path(cx, &folder, &title)?,
    };
    let stored = match &existing {
        Some(path) => Some(files::read_file(cx, path)?),
        None => None,
    };
    let old_fields = stored.as_ref().map(|file| files::frontmatter(&file.content)).unwrap_or_default();
    let text = page_text(cx, &article, &title, (&url, request.tags), old_fields)?;
    let text = files::format_new_page(cx, &path, text)?;
    let precondition = stored.map_or(Precondition::Absent, |file| Precondition::OneOf(vec![file.etag]));
    let caller = cx.named_caller(None, DEFAULT_ACTOR);
    let message = format!("{}: clip {path}", caller.actor());
    let change = Change::put(path.clone(), text).with_precondition(precondition);
    cx.apply_as(&caller, ChangeSet::from(change).with_message(message))?;
    Ok(ClippedPage { path, title, excerpt: article.excerpt })
}

/// The page: our frontmatter, what else the last version had there, and the article.
fn page_text(
    cx: &OperationContext<'_>,
    article: &Article,
    title: &str,
    (url, tags): (&str, Vec<String>),
    old_fields: Map<String, Value>,
) -> Result<String, Fault> {
    let mut fields = vec![("title".to_owned(), json!(title))];
    fields.extend(article.author.as_ref().map(|author| ("author".to_owned(), json!(author))));
    if !tags.is_empty() {
        fields.push(("tags".to_owned(), json!(tags)));
    }
    fields.extend([
        ("trust".to_owned(), json!("external")),
        ("_source".to_owned(), json!(url)),
        ("_fetched_at".to_owned(), json!(cx.now().to_string())),
    ]);
    let is_new = |key: &String| fields.iter().all(|(known, _)| known != key);
    let retained: Vec<_> = old_fields.into_iter().filter(|(key, _)| key != "author" && is_new(key)).collect();
    fields.extend(retained);
    let body = article.markdown.trim();
    let heading = if body.starts_with("# ") { String::new() } else { format!("# {title}\n\n") };
    // The empty block is filled below; without it a body with one of its own would be read as ours.
    fields.iter().try_fold(format!("---\n---\n\n{heading}{body}\n"), |text, (key, value)| {
        frontmatter::set(&text, key, value).map_err(|error| Fault::internal(format!("`{key}`: {error}")))
    })
}

/// The page in a folder that was clipped from a URL.
fn existing_page(cx: &OperationContext<'_>, folder: &TreePath, url: &str) -> Result<Option<TreePath>, Fault> {
    let query = MetaQuery {
        conditions: vec![MetaCondition::parse(&format!("$._source=\"{url}\""))?],
        folder: Some(folder.clone()),
        ..MetaQuery::default()
    };
    let rows = cx.index().query_metadata(&query)?;
    let source = |metadata: &Value| metadata.get("_source").and_then(Value::as_str) == Some(url);
    Ok(rows.into_iter().find(|row| source(&row.metadata)).map(|row| row.path))
}

/// A path for a title where nothing is yet.
fn free_path(cx: &OperationContext<'_>, folder: &TreePath, title: &str) -> Result<TreePath, Fault> {
    let name = file_name(title);
    for number in 1..MAX_NAMES {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let path = TreePath::parse(&format!("{folder}/{name}{suffix}.md"))?;
        match cx.tree().stat(cx.caller.protocol, &path) {
            Err(fault) if fault.kind() == Kind::NotFound => return Ok(path),
            Err(fault) if fault.kind() != Kind::Forbidden => return Err(fault),
            Ok(_) | Err(_) => {}
        }
    }
    Err(Fault::invalid("title", format_args!("`{folder}` has too many pages named `{name}`; use another title")))
}

/// The file name for a title: letters and digits of every script, and single dashes.
fn file_name(title: &str) -> String {
    let separated: String =
        title.chars().map(|character| if character.is_alphanumeric() { character } else { ' ' }).collect();
    let words = separated.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut name: String = headings::slug(&words).chars().take(MAX_NAME_CHARS).collect();
    while name.len() > MAX_NAME_BYTES {
        name.pop();
    }
    let name = name.trim_matches('-');
    if name.is_empty() { "untitled".to_owned() } else { name.to_owned() }
}

fn one_line(text: &str) -> String {
    let words = text.split(|character: char| character.is_whitespace() || character.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(MAX_TITLE_CHARS).collect()
}

/// The URL as it is requested and stored: with a scheme, without a fragment, in ASCII.
fn normalized_url(url: &str) -> Result<String, Fault> {
    let url = url.trim();
    if url.is_empty() {
        return Err(Fault::new(Kind::Invalid, "url is required"));
    }
    let url = url.split('#').next().unwrap_or_default();
    let has_scheme = url.split_once(':').is_some_and(|(scheme, rest)| {
        // Not the port of `example.org:8080`.
        scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-'))
            && !rest.starts_with(|character: char| character.is_ascii_digit())
    });
    let url = if has_scheme { url.to_owned() } else { format!("https://{url}") };
    let url = with_ascii_host(&url).map_err(to_fault)?;
    let mut encoded = String::with_capacity(url.len());
    for byte in url.bytes() {
        match byte {
            b'!' | b'#'..=b';' | b'=' | b'?'..=b'[' | b']' | b'_' | b'a'..=b'z' | b'~' => {
                encoded.push(char::from(byte))
            }
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    Ok(encoded)
}

fn to_fault(error: NetError) -> Fault {
    let kind = match &error {
        NetError::Refused(_) => Kind::Forbidden,
        NetError::InvalidUrl { .. } => Kind::Invalid,
        NetError::TooLarge { .. } => Kind::TooLarge,
        NetError::Fetch { .. } | NetError::Decode { .. } => Kind::FetchFailed,
    };
    Fault::new(kind, format!("url: {error}"))
}
