//! The event stream as it comes over the line.
//!
//! Read by hand, because it is six lines of the standard (WHATWG HTML, 9.2.6) as our own server writes them, and what reads such streams
//! in the registry is asynchronous.

use std::io::{self, BufRead, ErrorKind, Read};

use serde::Deserialize;
use svcfs_base::{ETag, TreePath};

/// Longest event taken, in bytes: one of a bulk write names all its paths.
const MAX_EVENT_BYTES: u64 = 64 << 20;

/// What the stream tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServerEvent {
    /// The connection is alive.
    Nothing,
    /// A file has a new version.
    Written(TreePath, ETag),
    /// A file is gone.
    Removed(TreePath),
    /// Something happened to these.
    Changed(Vec<TreePath>),
    /// Something happened that is not told.
    Gap,
}

#[derive(Deserialize)]
struct EventPayload {
    op: Option<String>,
    path: Option<TreePath>,
    paths: Option<Vec<TreePath>>,
    etag: Option<ETag>,
}

/// Reads a stream to its end, and hands on what it tells.
///
/// # Errors
/// Why it ended; `UnexpectedEof` when the server ended it.
pub(super) fn follow(mut stream: impl BufRead, mut tell: impl FnMut(ServerEvent) -> bool) -> io::Error {
    let (mut name, mut data) = (String::new(), String::new());
    loop {
        let mut line = String::new();
        match stream.by_ref().take(MAX_EVENT_BYTES).read_line(&mut line) {
            Ok(0) => return ErrorKind::UnexpectedEof.into(),
            Ok(_) if line.ends_with('\n') && data.len() as u64 <= MAX_EVENT_BYTES => {}
            Ok(_) => return io::Error::new(ErrorKind::InvalidData, "the event stream has an event without an end"),
            Err(error) => return error,
        }
        let line = line.trim_end_matches(['\n', '\r']);
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        let news = match field {
            "event" => {
                value.clone_into(&mut name);
                continue;
            }
            "data" => {
                data.push_str(value);
                continue;
            }
            "" if line.is_empty() && !data.is_empty() => news(&std::mem::take(&mut name), &std::mem::take(&mut data)),
            _ => ServerEvent::Nothing,
        };
        if !tell(news) {
            return ErrorKind::Interrupted.into();
        }
    }
}

/// What is not understood may be anything.
fn news(name: &str, data: &str) -> ServerEvent {
    let Ok(told) = serde_json::from_str::<EventPayload>(data) else { return ServerEvent::Gap };
    match told {
        EventPayload { path: Some(path), etag: Some(etag), .. } if name == "write" => ServerEvent::Written(path, etag),
        EventPayload { path: Some(path), .. } if name == "delete" => ServerEvent::Removed(path),
        EventPayload { paths: Some(paths), .. } => ServerEvent::Changed(paths),
        EventPayload { path: Some(path), .. } => ServerEvent::Changed(vec![path]),
        EventPayload { op, .. } => {
            tracing::debug!(name, op, "an event about no path");
            ServerEvent::Gap
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(stream: &str) -> (Vec<ServerEvent>, ErrorKind) {
        let mut told = Vec::new();
        let end = follow(stream.as_bytes(), |news| {
            told.push(news);
            true
        });
        (told.into_iter().filter(|news| *news != ServerEvent::Nothing).collect(), end.kind())
    }

    #[test]
    fn events_are_read_as_the_server_writes_them() {
        let path = |text| TreePath::parse(text).unwrap();
        let etag = ETag::from_content(b"x");
        let stream = format!(
            ":keep-alive\n\nevent:write\ndata:{{\"op\":\"write\",\"path\":\"a/b.md\",\"etag\":\"{etag}\"}}\nid:7\n\n\
             id: 8\r\nevent: delete\r\ndata: {{\"path\":\"c.md\"}}\r\n\r\n\
             event:bulk\ndata:{{\"paths\":[\"d.md\",\ndata:\"e.md\"]}}\n\n"
        );
        let expected = vec![
            ServerEvent::Written(path("a/b.md"), etag),
            ServerEvent::Removed(path("c.md")),
            ServerEvent::Changed(vec![path("d.md"), path("e.md")]),
        ];
        assert_eq!(read(&stream), (expected, ErrorKind::UnexpectedEof));
    }

    #[test]
    fn what_is_not_understood_may_be_anything() {
        for stream in [
            "event:lagged\ndata:{\"resume\":\"7\"}\n\n",
            "event:write\ndata:{\"path\":\"../x\"}\n\n",
            "event:write\ndata:no JSON\n\n",
            "data:[]\n\n",
        ] {
            assert_eq!(read(stream).0, [ServerEvent::Gap], "{stream:?}");
        }
        let (told, end) = read("event:write\ndata:{\"path\":\"a\"}");
        assert_eq!((told, end), (Vec::new(), ErrorKind::InvalidData), "cut in the middle");
    }
}
