//! Relative addresses: parsing, encoding and computation.

/// Splits a destination into the decoded path and the fragment.
///
/// None when it has a scheme or a host, or no path (a link into the page itself).
pub(super) fn path_and_fragment(destination: &str) -> Option<(String, Option<String>)> {
    if has_scheme(destination) || destination.starts_with("//") {
        return None;
    }
    let (address, fragment) = match destination.split_once('#') {
        Some((address, fragment)) => (address, Some(decode(fragment)).filter(|fragment| !fragment.is_empty())),
        None => (destination, None),
    };
    let path = address.split_once('?').map_or(address, |(path, _)| path);
    (!path.is_empty()).then(|| (decode(path), fragment))
}

/// End of the path in a destination; entities (`&#35;`) and escapes (`\#`) are not fragments.
pub(super) fn path_end(source: &str) -> usize {
    let bytes = source.as_bytes();
    let is_end = |at: &usize| match bytes[*at] {
        b'?' => true,
        b'#' => *at == 0 || !matches!(bytes[*at - 1], b'&' | b'\\'),
        _ => false,
    };
    (0..bytes.len()).find(is_end).unwrap_or(bytes.len())
}

/// Whether an address begins with a scheme (RFC 3986): a letter, then letters, digits, `+-.`, `:`.
fn has_scheme(address: &str) -> bool {
    address.split_once(':').is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    })
}

/// Percent-decodes a text; one that would not be UTF-8 stays unchanged.
fn decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3).filter(|_| *byte == b'%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) => {
                decoded.push(value);
                at += 3;
            }
            None => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).unwrap_or_else(|_| text.to_owned())
}

/// Encodes a path as a markdown destination: white space and markup characters become `%XX`.
///
/// Letters of all scripts stay readable.
pub(super) fn encode(path: &str) -> String {
    encode_unless(path, |character| {
        is_unreserved(character) || (!character.is_ascii() && !character.is_whitespace() && !character.is_control())
    })
}

/// Encodes a path for a full address, in ASCII.
pub(super) fn encode_ascii(path: &str) -> String {
    encode_unless(path, is_unreserved)
}

fn is_unreserved(character: char) -> bool {
    character.is_ascii_alphanumeric()
        || matches!(character, '-' | '.' | '_' | '~' | '/' | '+' | ',' | '=' | '@' | '!' | '$' | ':')
}

fn encode_unless(path: &str, is_plain: impl Fn(char) -> bool) -> String {
    let mut encoded = String::with_capacity(path.len());
    for character in path.chars() {
        if is_plain(character) {
            encoded.push(character);
        } else {
            let mut buffer = [0; 4];
            for byte in character.encode_utf8(&mut buffer).bytes() {
                encoded.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    encoded
}

/// Encodes a path for use between `<` and `>`, where white space is allowed.
pub(super) fn encode_angled(path: &str) -> String {
    let special =
        |character: char| matches!(character, '<' | '>' | '%' | '#' | '?' | '\\' | '&') || character.is_control();
    path.split_inclusive(special)
        .map(|part| match part.char_indices().next_back() {
            Some((at, last)) if special(last) => [&part[..at], &encode(&part[at..])].concat(),
            Some(_) | None => part.to_owned(),
        })
        .collect()
}

/// The folder of a path; empty for the root.
pub(super) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The path to which `address` in `folder` refers; a leading `/` is the root. None when it leads
/// out of the tree or to a folder.
pub(super) fn join(folder: &str, address: &str) -> Option<String> {
    let parts = join_parts(folder, address)?;
    (!is_folder(address) && !parts.is_empty()).then(|| parts.join("/"))
}

/// The folder to which an address that ends like one refers (`../guide/`); empty for the root. None
/// when it leads out of the tree or to a file.
pub(super) fn join_folder(folder: &str, address: &str) -> Option<String> {
    let parts = join_parts(folder, address)?;
    is_folder(address).then(|| parts.join("/"))
}

fn join_parts<'a>(folder: &'a str, address: &'a str) -> Option<Vec<&'a str>> {
    let (from, address) = address.strip_prefix('/').map_or((folder, address), |rest| ("", rest));
    let mut parts: Vec<&str> = from.split('/').filter(|part| !part.is_empty()).collect();
    for part in address.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts)
}

/// Whether an address can only name a folder.
pub(super) fn is_folder(address: &str) -> bool {
    matches!(address.rsplit('/').next(), None | Some("" | "." | ".."))
}

/// Whether an address shows by its start that it is one.
pub(super) fn is_marked(target: &str) -> bool {
    ["/", "./", "../"].iter().any(|start| target.starts_with(start)) || matches!(target, "." | "..")
}

/// The shortest relative address of `path` for a page in `folder`.
pub(super) fn relative(folder: &str, path: &str) -> String {
    let from: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    let to: Vec<&str> = path.split('/').collect();
    let shared = from.iter().zip(&to[..to.len() - 1]).take_while(|(from, to)| from == to).count();
    let up = std::iter::repeat_n("..", from.len() - shared);
    up.chain(to[shared..].iter().copied()).collect::<Vec<_>>().join("/")
}

/// The path of a page without `.md` (in any case); other files keep their extension.
pub(super) fn without_extension(path: &str) -> &str {
    match path.len().checked_sub(3) {
        Some(end) if end > 0 && path.is_char_boundary(end) && path[end..].eq_ignore_ascii_case(".md") => {
            let stem = &path[..end];
            if stem.ends_with('/') { path } else { stem }
        }
        Some(_) | None => path,
    }
}
