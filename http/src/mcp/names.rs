//! Names that clients mistype: of tools and of arguments.

/// Prefix of tool names.
pub(super) const PREFIX: &str = "svc_";

/// The name of the operation of a tool. Clients that add a prefix of their own may remove ours.
pub(super) fn operation(name: &str) -> &str {
    name.strip_prefix(PREFIX).unwrap_or(name)
}

/// How similar a name must be to be suggested.
const MIN_SIMILARITY: f64 = 0.75;

/// The tool for a name without prefix or with small mistakes; none if several letters differ.
pub(super) fn nearest<'n>(name: &str, candidates: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let plain = |name: &str| name.replace(['-', '.', ' '], "_").to_lowercase();
    let name = plain(name);
    let similarity = |candidate: &str| {
        // `read_file` means `read`, and `list_tree` means `tree`.
        let is_part = name.split('_').any(|part| part == candidate);
        let similarity =
            strsim::jaro_winkler(&name, candidate).max(strsim::normalized_damerau_levenshtein(&name, candidate));
        if is_part { similarity.max(MIN_SIMILARITY) } else { similarity }
    };
    let rated = candidates.map(|candidate| (similarity(candidate), candidate));
    let best = rated.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= MIN_SIMILARITY).then_some(best.1)
}

/// Names that models give arguments, and the names of those here, by preference.
const SYNONYMS: &[(&[&str], &[&str])] = &[
    (&["file", "filepath", "filename", "page", "uri", "pagepath", "note", "id"], &["path", "draft_id"]),
    (&["text", "body", "markdown", "data", "newcontent", "filetext", "contents"], &["content", "message", "query"]),
    (&["q", "search", "searchquery", "term", "terms", "keywords", "question", "text", "pattern"], &["query"]),
    (&["maxresults", "topk", "count", "n", "num", "max", "size", "pagesize"], &["limit"]),
    (&["start", "skip", "cursor", "from"], &["offset"]),
    (&["folder", "dir", "directory", "prefix", "path", "pathprefix", "scope", "in"], &["path_prefix", "path"]),
    (&["oldpath", "source", "src", "path", "old", "oldname"], &["from"]),
    (&["newpath", "destination", "dest", "target", "dst", "new", "newname"], &["to"]),
    (&["author", "user", "agent", "agentid", "owner"], &["actor"]),
    (&["etag", "ifmatch", "expectedetag", "version"], &["if_match"]),
    (&["section", "title", "anchor", "name"], &["heading"]),
    (&["state", "status", "to", "target", "newstate"], &["target_state"]),
    (&["draft"], &["draft_id"]),
    (&["workflow", "view"], &["name"]),
    (&["commit", "hash", "revision", "rev", "sha"], &["version", "as_of"]),
    (&["lease", "duration", "leaseduration", "ttl"], &["lease_duration", "lease"]),
    (&["note", "progress", "text"], &["message"]),
];

/// The argument that a wrong name means, among those that are not given.
pub(super) fn meant_argument<'n>(name: &str, free: &[&'n str]) -> Option<&'n str> {
    let plain = |name: &str| name.replace(['-', '_', ' '], "").to_lowercase();
    let wrong = plain(name);
    if wrong == "ifnonematch" {
        // The opposite of `if_match`: with that name the page would be overwritten.
        return None;
    }
    let find = |wanted: &str| free.iter().copied().find(|candidate| *candidate == wanted);
    let same = || free.iter().copied().find(|candidate| plain(candidate) == wrong);
    let synonyms = || {
        let rows = SYNONYMS.iter().filter(|(wrong_names, _)| wrong_names.contains(&wrong.as_str()));
        rows.flat_map(|(_, meant)| meant.iter()).find_map(|meant| find(meant))
    };
    same().or_else(synonyms).or_else(|| nearest(name, free.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistyped_names_have_one_meaning() {
        let tools =
            ["read", "write", "search", "search_semantic", "query", "query_meta", "tree", "delete", "task_next"];
        for (name, meant) in [
            ("raed", Some("read")),
            ("read_file", Some("read")),
            ("Read", Some("read")),
            ("serach", Some("search")),
            ("semantic-search", Some("search_semantic")),
            ("list_tree", Some("tree")),
            ("querymeta", Some("query_meta")),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, tools.into_iter()), meant, "{name}");
        }
        for (name, free, meant) in [
            ("pth", &["path", "content"][..], Some("path")),
            ("file_path", &["path", "content"], Some("path")),
            ("filename", &["path"], Some("path")),
            ("text", &["content"], Some("content")),
            ("ifMatch", &["if_match", "actor"], Some("if_match")),
            ("max_results", &["limit", "offset"], Some("limit")),
            ("oldPath", &["from", "to"], Some("from")),
            ("zzz", &["path"], None),
            ("if_none_match", &["if_match", "actor"], None),
            ("path", &[], None),
        ] {
            assert_eq!(meant_argument(name, free), meant, "{name}");
        }
    }
}
