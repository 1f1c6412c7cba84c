//! Parser of the event stream.
//!
//! Written by hand: it needs six lines of the standard (WHATWG HTML, 9.2.6), and the available
//! crates are asynchronous.

use std::io::{self, BufRead, ErrorKind, Read};

use serde::Deserialize;
use svcfs_base::{ETag, TreePath};

/// Longest event, in bytes: a bulk write names all its paths.
const MAX_EVENT_BYTES: u64 = 64 << 20;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ServerEvent {
    KeepAlive,
    /// A file has a new version.
    Written(TreePath, ETag),
    /// A file was removed.
    Removed(TreePath),
    /// These paths changed in some way.
    Changed(Vec<TreePath>),
    /// Unknown changes.
    Gap,
}

#[derive(Deserialize)]
struct EventPayload {
    op: Option<String>,
    path: Option<TreePath>,
    paths: Option<Vec<TreePath>>,
    etag: Option<ETag>,
}

/// Reads a stream to its end; stops when `on_event` returns false.
///
/// # Errors
/// Why it ended; `UnexpectedEof` when the server closed it.
pub(super) fn follow(mut stream: impl BufRead, mut on_event: impl FnMut(ServerEvent) -> bool) -> io::Error {
    let (mut name, mut data) = (String::new(), String::new());
    loop {
        let mut line = String::new();
        match stream.by_ref().take(MAX_EVENT_BYTES).read_line(&mut line) {
            Ok(0) => return ErrorKind::UnexpectedEof.into(),
            Ok(_) if line.ends_with('\n') && data.len() as u64 <= MAX_EVENT_BYTES => {}
            Ok(_) => return io::Error::new(ErrorKind::InvalidData, "the event stream has an event that does not end"),
            Err(error) => return error,
        }
        let line = line.trim_end_matches(['\n', '\r']);
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        let event = match field {
            "event" => {
                value.clone_into(&mut name);
                continue;
            }
            "data" => {
                data.push_str(value);
                continue;
            }
            "" if line.is_empty() && !data.is_empty() => {
                parse_event(&std::mem::take(&mut name), &std::mem::take(&mut data))
            }
            _ => ServerEvent::KeepAlive,
        };
        if !on_event(event) {
            return ErrorKind::Interrupted.into();
        }
    }
}

/// An event that cannot be parsed may be any change.
fn parse_event(name: &str, data: &str) -> ServerEvent {
    let Ok(payload) = serde_json::from_str::<EventPayload>(data) else { return ServerEvent::Gap };
    match payload {
        EventPayload { path: Some(path), etag: Some(etag), .. } if name == "write" => ServerEvent::Written(path, etag),
        EventPayload { path: Some(path), .. } if name == "delete" => ServerEvent::Removed(path),
        EventPayload { paths: Some(paths), .. } => ServerEvent::Changed(paths),
        EventPayload { path: Some(path), .. } => ServerEvent::Changed(vec![path]),
        EventPayload { op, .. } => {
            tracing::debug!(name, op, "event without a path");
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
        (told.into_iter().filter(|news| *news != ServerEvent::KeepAlive).collect(), end.kind())
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
