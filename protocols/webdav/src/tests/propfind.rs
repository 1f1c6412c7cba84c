//! Properties that are asked for: those are told, and those alone.

use std::collections::BTreeMap;

use xmltree::{Element, XMLNode};

use super::*;
use crate::locks::WebdavLocks;

/// What is told of one address: properties and their texts, by status.
type Told = BTreeMap<String, BTreeMap<String, String>>;

fn children(parent: &Element) -> impl Iterator<Item = &Element> {
    parent.children.iter().filter_map(XMLNode::as_element)
}

fn all_text(element: &Element) -> String {
    let told = element.children.iter().map(|node| match node {
        XMLNode::Element(child) => format!("<{}>{}", child.name, all_text(child)),
        other => other.as_text().unwrap_or_default().to_owned(),
    });
    told.collect()
}

/// An answer, by address.
fn told(reply: &Reply) -> BTreeMap<String, Told> {
    assert_eq!(reply.status, 207, "{}", reply.text());
    let whole = Element::parse(&reply.body[..]).unwrap();
    let responses = children(&whole).map(|response| {
        let parts: Vec<_> = children(response).collect();
        assert_eq!(parts[0].name, "href");
        let by_status = parts[1..].iter().map(|part| {
            let properties = children(part.get_child("prop").unwrap());
            let properties: Vec<_> = properties.map(|property| (property.name.clone(), all_text(property))).collect();
            let (count, properties) = (properties.len(), BTreeMap::from_iter(properties));
            assert_eq!(count, properties.len(), "each is told once");
            (all_text(part.get_child("status").unwrap()), properties)
        });
        (all_text(parts[0]), by_status.collect())
    });
    responses.collect()
}

impl Served {
    fn ask(&self, target: &str, depth: &str, wanted: &str) -> BTreeMap<String, Told> {
        let body = format!("<propfind xmlns='DAV:' xmlns:X='urn:x'>{wanted}</propfind>");
        told(&self.send("PROPFIND", target, &[("depth", depth)], body))
    }

    /// Gives a file two properties.
    fn paint(&self, target: &str) {
        let body = "<propertyupdate xmlns='DAV:' xmlns:X='urn:x'><set><prop><X:colour>sea &amp; sky</X:colour>\
                    <X:mood/></prop></set></propertyupdate>";
        assert_eq!(self.send("PROPPATCH", target, &[], body).status, 207);
    }
}

fn names(properties: &BTreeMap<String, String>) -> Vec<&str> {
    properties.keys().map(String::as_str).collect()
}

const OK: &str = "HTTP/1.1 200 OK";
const MISSING: &str = "HTTP/1.1 404 Not Found";

#[test]
fn requested_properties_are_returned_and_unknown_ones_are_404() {
    let served = Served::new();
    served.put("/a.md", "# A\n");
    served.paint("/a.md");
    let etag = served.get("/a.md").header("etag").to_owned();
    let wanted = "<prop><getetag/><X:colour/><X:none/><nothing/><plain xmlns=''/></prop>";
    let file = &served.ask("/a.md", "0", wanted)["/a.md"];
    let expected = [("colour".to_owned(), "sea & sky".to_owned()), ("getetag".to_owned(), etag)];
    assert_eq!(file[OK], BTreeMap::from(expected), "an ETag is one as GET tells it");
    assert_eq!(names(&file[MISSING]), ["none", "nothing", "plain"]);
    let file = &served.ask("/a.md", "0", "<prop><getcontentlength/></prop>")["/a.md"];
    assert_eq!((names(&file[OK]), file.len()), (vec!["getcontentlength"], 1), "nothing that nobody asked for");
    let folder = &served.ask("/", "0", "<prop><getcontentlength/><getetag/></prop>")["/"];
    assert_eq!((names(&folder[MISSING]), folder.len()), (vec!["getcontentlength", "getetag"], 1));
    assert!(served.ask("/a.md", "0", "<prop/>")["/a.md"][OK].is_empty());
}

#[test]
fn allprop_returns_live_and_dead_properties_and_propname_names() {
    let served = Served::new();
    served.put("/a.md", "# A\n");
    served.paint("/a.md");
    let defined = ["creationdate", "getcontentlength", "getcontenttype", "getetag", "getlastmodified"];
    let others = ["lockdiscovery", "mood", "resourcetype", "supportedlock"];
    let expected = [&["colour"][..], &defined, &others].concat();
    let mut expected: Vec<_> = expected.clone();
    expected.sort_unstable();
    let bare = told(&served.send("PROPFIND", "/a.md", &[("depth", "0")], ""));
    for all in [&bare["/a.md"], &served.ask("/a.md", "0", "<allprop/>")["/a.md"]] {
        assert_eq!((names(&all[OK]), all.len()), (expected.clone(), 1));
    }
    let more = "<allprop/><include><quota-used-bytes/><getetag/></include>";
    assert!(served.ask("/a.md", "0", more)["/a.md"][OK].contains_key("quota-used-bytes"));
    let named = &served.ask("/a.md", "0", "<propname/>")["/a.md"][OK];
    assert!(expected.iter().all(|name| named.contains_key(*name)), "{named:?}");
    assert!(named.values().all(String::is_empty), "{named:?}");
}

#[test]
fn a_folder_lists_its_members_and_infinite_depth_is_refused() {
    let served = Served::new();
    served.send("MKCOL", "/all", &[], "");
    served.send("MKCOL", "/all/docs", &[], "");
    served.put("/all/odd%20n%C3%A4me.md", "# A\n");
    let type_of = |told: &Told| told[OK]["resourcetype"].clone();
    let listed = served.ask("/all", "1", "<prop><resourcetype/></prop>");
    let listed: Vec<_> = listed.iter().map(|(address, told)| (address.as_str(), type_of(told))).collect();
    let expected = [("/all/", "<collection>"), ("/all/docs/", "<collection>"), ("/all/odd%20n%C3%A4me.md", "")];
    assert_eq!(listed, expected.map(|(address, kind)| (address, kind.to_owned())));
    assert_eq!(served.ask("/~team", "0", "<propname/>").into_keys().collect::<Vec<_>>(), ["/~team/"]);
    for headers in [&[][..], &[("depth", "infinity")]] {
        let refused = served.send("PROPFIND", "/", headers, "");
        assert_eq!(refused.status, 403);
        assert!(refused.text().contains("propfind-finite-depth"), "{}", refused.text());
        assert_eq!(
            served.send("PROPFIND", "/all/odd%20n%C3%A4me.md", headers, "").status,
            207,
            "nothing is below a file"
        );
    }
    for depth in ["2", "", "1,noroot"] {
        assert_eq!(served.send("PROPFIND", "/", &[("depth", depth)], "").status, 400, "{depth}");
    }
    for body in [
        "<propfind xmlns='DAV:'/>",
        "<propfind><prop/></propfind>",
        "<x",
        "<propfind xmlns='DAV:'><prop/><allprop/></propfind>",
    ] {
        assert_eq!(served.send("PROPFIND", "/", &[("depth", "0")], body).status, 400, "{body}");
    }
}

#[test]
fn a_large_folder_is_listed_completely() {
    let served = Served::new();
    served.send("MKCOL", "/all", &[], "");
    for number in 0..200 {
        served.put(&format!("/all/{number}.md"), "# A\n");
    }
    assert_eq!(served.ask("/all", "1", "<prop><getetag/></prop>").len(), 201);
}

#[test]
fn property_language_whitespace_and_attributes_are_preserved() {
    let served = Served::new();
    served.put("/a.md", "# A\n");
    let body = "<propertyupdate xmlns='DAV:' xmlns:X='urn:x' xml:lang='en'><set><prop xml:lang='de'><X:mood>ruhig</X:mood>\
                <X:sea xml:lang='fr' X:depth='9'>la <X:b/> <X:b/> mer</X:sea></prop><prop><X:tide>ebb</X:tide></prop></set>\
                <set><prop><X:mood>still</X:mood></prop></set></propertyupdate>";
    let told = served.send("PROPPATCH", "/a.md", &[], body);
    assert!(told.status == 207 && !told.text().contains("40"), "{}", told.text());
    assert_eq!(served.send("COPY", "/a.md", &[("destination", "/b.md")], "").status, 201);
    served.put("/b.md", "# B\n");
    for wanted in ["<allprop/>", "<prop><X:mood/><X:sea/><X:tide/></prop>"] {
        let body = format!("<propfind xmlns='DAV:' xmlns:X='urn:x'>{wanted}</propfind>");
        let told = served.send("PROPFIND", "/b.md", &[("depth", "0")], body).text();
        let whole = crate::markup::parse(told.as_bytes()).unwrap();
        let property = |name: &str| {
            let parts = children(&whole).flat_map(children).flat_map(children).flat_map(children);
            parts.filter(|property| property.name == name).cloned().collect::<Vec<_>>()
        };
        let said = |name: &str| {
            let property = property(name);
            assert_eq!(property.len(), 1, "{told}");
            (property[0].attributes["xml:lang"].clone(), all_text(&property[0]))
        };
        assert_eq!(said("mood"), ("en".into(), "still".into()));
        assert_eq!(said("tide"), ("en".into(), "ebb".into()));
        assert_eq!(said("sea"), ("fr".into(), "la <b> <b> mer".into()));
        assert!(told.contains("depth=\"9\"") && told.contains(":depth"), "{told}");
    }
}

#[test]
fn windows_times_and_attributes_are_returned_as_they_were_set() {
    let served = Served::new();
    served.put("/a.md", "# A\n");
    let said = [
        ("Win32CreationTime", "Sun, 01 Jan 2006 12:00:00 GMT"),
        ("Win32LastModifiedTime", "Mon, 02 Jan 2006 12:00:00 GMT"),
        ("Win32FileAttributes", "00000022"),
    ];
    let set = |said: &[(&str, &str)], more: &str| {
        let properties: String = said.iter().map(|(name, text)| format!("<Z:{name}>{text}</Z:{name}>")).collect();
        let body = format!(
            "<propertyupdate xmlns='DAV:' xmlns:Z='urn:schemas-microsoft-com:'><set><prop>{properties}{more}</prop></set></propertyupdate>"
        );
        served.send("PROPPATCH", "/a.md", &[], body)
    };
    let agent = ("user-agent", "Microsoft-WebDAV-MiniRedir/10.0.19045");
    let read = || {
        let all = told(&served.send("PROPFIND", "/a.md", &[agent, ("depth", "0")], ""))["/a.md"][OK].clone();
        let names = "<prop xmlns:Z='urn:schemas-microsoft-com:'><Z:Win32CreationTime/>\
                     <Z:Win32LastModifiedTime/><Z:Win32FileAttributes/></prop>";
        let named = served.ask("/a.md", "0", names)["/a.md"][OK].clone();
        said.map(|(name, _)| {
            assert_eq!(all[name], named[name]);
            named[name].clone()
        })
    };
    // With one that is refused, none is set.
    let before = read();
    assert!(set(&said, "<getetag>x</getetag>").text().contains("424"));
    assert_eq!(set(&[("Win32LastModifiedTime", "yesterday")], "").status, 400);
    assert_eq!(read(), before);

    let etag = served.get("/a.md").header("etag").to_owned();
    // Whoever looks at a file after that may be seen in the time of access.
    let accessed = "<Z:Win32LastAccessTime>Tue, 03 Jan 2006 12:00:00 GMT</Z:Win32LastAccessTime>";
    let done = set(&said, accessed);
    let on_disk = || std::fs::metadata(served.folder.path().join("default/a.md")).unwrap();
    assert_eq!(on_disk().accessed().unwrap(), std::time::UNIX_EPOCH + Duration::from_secs(1_136_289_600));
    assert!(done.status == 207 && done.text().contains("200 OK"), "{}", done.text());
    assert_eq!(read(), said.map(|(_, text)| text.to_owned()));
    let got = served.get("/a.md");
    assert_eq!((got.header("last-modified"), got.header("etag")), (said[1].1, etag.as_str()));
    assert_eq!(on_disk().modified().unwrap(), std::time::UNIX_EPOCH + Duration::from_secs(1_136_203_200));
    // What is written later has its own time, and was made when it was made.
    served.put("/a.md", "# B\n");
    let now = read();
    assert!(now[1] != said[1].1 && now[0] == said[0].1, "{now:?}");
    assert_eq!(served.send("MKCOL", "/docs", &[], "").status, 201);
    let folder = "<propertyupdate xmlns='DAV:' xmlns:Z='urn:schemas-microsoft-com:'><set><prop>\
                  <Z:Win32LastModifiedTime>Mon, 02 Jan 2006 12:00:00 GMT</Z:Win32LastModifiedTime></prop></set></propertyupdate>";
    assert_eq!(served.send("PROPPATCH", "/docs/", &[], folder).status, 207);
    let told = &served.ask("/docs", "0", "<prop><getlastmodified/></prop>")["/docs/"];
    assert_eq!(told[OK]["getlastmodified"], "Mon, 02 Jan 2006 12:00:00 GMT");
}

#[test]
fn a_listing_begins_before_all_files_of_the_folder_are_read() {
    let served = Served::new();
    for number in 0..200 {
        served.put(&format!("/{number:03}.txt"), "early\n");
    }
    let asked = served.asked("PROPFIND", "/");
    let locks = WebdavLocks { context: asked.clone(), prefix: String::new() };
    let (head, ()) = Request::builder().header("depth", "1").body(()).unwrap().into_parts();
    let listed = crate::propfind::answer((&asked, &locks), TreePath::root(), (&head, b""));
    let mut body = served.runtime.block_on(listed).unwrap().into_body();
    let mut next = || Some(served.runtime.block_on(body.frame())?.unwrap().into_data().unwrap());
    let mut text = String::new();
    while !text.contains("/001.txt<") {
        text += &String::from_utf8_lossy(&next().unwrap());
    }
    served.put("/199.txt", "written in between\n");
    while let Some(part) = next() {
        text += &String::from_utf8_lossy(&part);
    }
    let (early, late) =
        (ETag::from_content(b"early\n").to_string(), ETag::from_content(b"written in between\n").to_string());
    assert_eq!((text.matches(&early).count(), text.matches(&late).count()), (199, 1));
    // What is told of it is of one moment.
    assert_eq!(text.matches("<D:getcontentlength>19<").count(), 1, "{text}");
}
