//! `/llms.txt` (gaps.md 4.2): an index of all pages, for agents that look for one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::Value;
use svcfs_base::{Caller, Fault, Kind, Protocol, TreePath};
use svcfs_config::SpaceVisibility;
use svcfs_knowledge::access::CallerIdentity;
use svcfs_knowledge::kernel::{OperationContext, Space};
use svcfs_work::Lane;
use warp::reply::Response;

use crate::app::AppState;
use crate::{media, reply};

/// Longest index, in bytes; what is beyond is counted instead of listed.
const MAX_BYTES: usize = 5 << 20;
/// Longest summary of a page, in characters.
const MAX_SUMMARY: usize = 200;
/// What a path may not hold as it is, inside a markdown link.
const IN_LINK: &AsciiSet = &CONTROLS.add(b' ').add(b'(').add(b')').add(b'<').add(b'>').add(b'%').add(b'?').add(b'#');

const HEAD: &str = "# svcfs

> A knowledge base of markdown pages, versioned and searchable.

Pages are read at the links below; `GET /api/svc/search?q=…` finds them by content, `/api/openapi.json` describes every \
endpoint, and `/mcp` offers the same as agent tools.
";

/// The index: a section for each top folder, a line for each page that the caller may read where its link leads.
///
/// # Errors
/// What the index refuses; `Unauthenticated` for a stranger, unless the space is public.
pub(super) async fn index(
    app: &Arc<AppState>,
    space: Arc<Space>,
    identity: &CallerIdentity,
) -> Result<Response, Fault> {
    let server = Arc::clone(&app.server);
    let reach = identity.permissions.clone();
    let is_stranger = identity.token.is_none() && !server.access().is_open();
    if is_stranger && space.visibility() != SpaceVisibility::Public {
        // The pages themselves are refused, and as everywhere: who has no key learns not even which spaces there are.
        return Err(Fault::new(Kind::Unauthenticated, "missing bearer token"));
    }
    let work = move || {
        let caller = Caller { permissions: reach, ..Caller::new(Protocol::Http) };
        write_index(&OperationContext::new(&server, &space, &caller))
    };
    let text = app.blocking(Lane::Slow, work).await?;
    Ok(reply::text(media::PLAIN, text))
}

fn write_index(cx: &OperationContext<'_>) -> Result<String, Fault> {
    let index = cx.index();
    let mut sections = BTreeMap::<String, Vec<TreePath>>::new();
    let folder = cx.caller.permissions.folder.clone().unwrap_or_else(TreePath::root);
    for path in index.paths(&folder)? {
        let top = path.components().next().filter(|top| *top != path.as_str());
        sections.entry(top.unwrap_or("Root").to_owned()).or_default().push(path);
    }
    let base = cx.public_url().map_or("", |url| url.as_str());
    let mut text = HEAD.to_owned();
    let mut left_out = 0_usize;
    for (title, paths) in sections {
        let head = format!("\n## {title}\n\n");
        let mut lines = head.clone();
        for path in paths {
            if text.len() + lines.len() > MAX_BYTES {
                left_out += 1;
                continue;
            }
            // A page may have gone since the list was made.
            let Some(page) = index.page(&path)? else { continue };
            let description = page.frontmatter.get("description").and_then(Value::as_str);
            let (title, summary) = (one_line(&page.title), shortened(description.unwrap_or(&page.excerpt)));
            let link = utf8_percent_encode(path.as_str(), IN_LINK);
            let mark = if summary.is_empty() { "" } else { ": " };
            writeln!(lines, "- [{title}]({base}/raw/{link}){mark}{summary}").map_err(Fault::internal)?;
        }
        if lines.len() > head.len() {
            text.push_str(&lines);
        }
    }
    if left_out > 0 {
        writeln!(text, "\n<!-- {left_out} more pages are left out -->").map_err(Fault::internal)?;
    }
    Ok(text)
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn shortened(text: &str) -> String {
    let line = one_line(text);
    match line.char_indices().nth(MAX_SUMMARY) {
        None => line,
        Some((end, _)) => format!("{}…", &line[..end]),
    }
}
