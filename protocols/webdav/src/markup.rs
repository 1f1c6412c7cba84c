//! XML as clients wrote it: xmltree's own reading lets go of the prefixes of attributes (`xml:lang` among them) and of texts that are blank, which a
//! server keeps of a property (RFC 4918 4.3).

use xml::attribute::OwnedAttribute;
use xml::reader::{EventReader, ParserConfig, XmlEvent};
use xmltree::{Element, EmitterConfig, XMLNode};

/// The language of a text, in the names of attributes.
pub(crate) const LANGUAGE: &str = "xml:lang";

/// The element that a document is; none of what is no document.
pub(crate) fn parse(document: &[u8]) -> Option<Element> {
    let config = ParserConfig::new().whitespace_to_characters(true).cdata_to_characters(true);
    let mut open: Vec<Element> = Vec::new();
    for event in EventReader::new_with_config(document, config) {
        match event.ok()? {
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

/// An element as a document, without the declaration.
pub(crate) fn written(element: &Element) -> Option<String> {
    let mut text = Vec::new();
    element.write_with_config(&mut text, EmitterConfig::new().write_document_declaration(false)).ok()?;
    String::from_utf8(text).ok()
}

/// The elements in another.
pub(crate) fn elements(parent: &Element) -> impl Iterator<Item = &Element> {
    parent.children.iter().filter_map(XMLNode::as_element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_with_prefixes_of_attributes_and_blanks() {
        let text =
            "<a:b xmlns:a=\"urn:a\" xmlns:n=\"urn:n\" xml:lang=\"de\"> <c n:d=\"1\" /> &amp;<![CDATA[<x>]]></a:b>";
        let element = parse(text.as_bytes()).unwrap();
        let again = written(&element).unwrap();
        for part in ["xml:lang=\"de\"", "n:d=\"1\"", "xmlns:n=\"urn:n\"", "> <c", "> &amp;&lt;x"] {
            assert!(again.contains(part), "{part}: {again}");
        }
        assert_eq!(parse(again.as_bytes()).unwrap(), element);
        for none in ["", "<a>", "<a></b>", "text", "<a x='1' x='2'/>"] {
            assert!(parse(none.as_bytes()).is_none(), "{none}");
        }
    }
}
