//! XML as clients wrote it: xmltree drops the prefixes of attributes (`xml:lang` among them) and
//! blank texts, which a server must keep in properties (RFC 4918 4.3).

use xml::attribute::OwnedAttribute;
use xml::reader::{EventReader, ParserConfig, XmlEvent};
use xmltree::{Element, EmitterConfig, XMLNode};

/// Deepest nesting of elements: element trees are processed recursively, and the stack is limited.
pub(crate) const MAX_DEPTH: usize = 64;
/// The start of a document type declaration.
const DECLARATIONS: &[u8] = b"<!DOCTYPE";

/// The attribute for the language of a text.
pub(crate) const LANGUAGE: &str = "xml:lang";

/// Whether a document declares entities. This protocol needs none, and a few lines can expand to
/// unlimited text (RFC 4918 20.6): check this before parsing XML of a client.
pub(crate) fn has_declarations(document: &[u8]) -> bool {
    // In UTF-16, which the parser accepts, every other byte is zero here.
    let text: Vec<u8> = document.iter().copied().filter(|byte| *byte != 0).collect();
    text.windows(DECLARATIONS.len()).any(|part| part == DECLARATIONS)
}

/// Parses a document; `None` if it is invalid, has declarations, or is nested too deeply.
pub(crate) fn parse(document: &[u8]) -> Option<Element> {
    if has_declarations(document) {
        return None;
    }
    let config = ParserConfig::new().whitespace_to_characters(true).cdata_to_characters(true);
    let mut open: Vec<Element> = Vec::new();
    for event in EventReader::new_with_config(document, config) {
        match event.ok()? {
            XmlEvent::StartElement { .. } if open.len() >= MAX_DEPTH => return None,
            XmlEvent::StartElement { name, attributes, namespace } => {
                let mut element = Element::new(&name.local_name);
                (element.prefix, element.namespace) = (name.prefix, name.namespace);
                element.namespaces = Some(namespace).filter(|namespace| !namespace.is_essentially_empty());
                element.attributes = attributes.into_iter().map(attribute).collect();
                open.push(element);
            }
            XmlEvent::Characters(text) => {
                open.iter_mut()
                    .last()
                    .into_iter()
                    .for_each(|element| element.children.push(XMLNode::Text(text.clone())));
            }
            XmlEvent::EndElement { .. } => {
                let element = open.pop()?;
                match open.last_mut() {
                    Some(parent) => parent.children.push(XMLNode::Element(element)),
                    None => return Some(element),
                }
            }
            _ => {}
        }
    }
    None
}

fn attribute(OwnedAttribute { name, value }: OwnedAttribute) -> (String, String) {
    match name.prefix {
        Some(prefix) => (format!("{prefix}:{}", name.local_name), value),
        None => (name.local_name, value),
    }
}

/// Serializes an element, without the XML declaration.
pub(crate) fn to_xml(element: &Element) -> Option<String> {
    let mut text = Vec::new();
    element.write_with_config(&mut text, EmitterConfig::new().write_document_declaration(false)).ok()?;
    String::from_utf8(text).ok()
}

/// The child elements.
pub(crate) fn elements(parent: &Element) -> impl Iterator<Item = &Element> {
    parent.children.iter().filter_map(XMLNode::as_element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_is_written_back_with_prefixes_attributes_and_whitespace() {
        let text =
            "<a:b xmlns:a=\"urn:a\" xmlns:n=\"urn:n\" xml:lang=\"de\"> <c n:d=\"1\" /> &amp;<![CDATA[<x>]]></a:b>";
        let element = parse(text.as_bytes()).unwrap();
        let again = to_xml(&element).unwrap();
        for part in ["xml:lang=\"de\"", "n:d=\"1\"", "xmlns:n=\"urn:n\"", "> <c", "> &amp;&lt;x"] {
            assert!(again.contains(part), "{part}: {again}");
        }
        assert_eq!(parse(again.as_bytes()).unwrap(), element);
        for none in ["", "<a>", "<a></b>", "text", "<a x='1' x='2'/>"] {
            assert!(parse(none.as_bytes()).is_none(), "{none}");
        }
    }
    #[test]
    fn what_anybody_may_have_written_is_not_read_at_any_price() {
        let nested = |depth| format!("{}{}", "<a>".repeat(depth), "</a>".repeat(depth));
        assert!(parse(nested(MAX_DEPTH).as_bytes()).is_some());
        assert!(parse(nested(MAX_DEPTH + 1).as_bytes()).is_none());
        let declared = "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>";
        assert!(parse(declared.as_bytes()).is_none());
        let wide: Vec<u8> = declared.encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert!(has_declarations(&wide) && !has_declarations(b"<a>DOCTYPE</a>"));
    }
}
