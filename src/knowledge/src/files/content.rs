//! JSON representation of the content of a file.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The bytes of a file. In JSON a string if they are UTF-8 text, else `{"base64": "…"}`; both forms
/// are accepted.
///
/// A protocol with raw bodies decodes the second form, so that binary files are unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TextOrBytes(pub Bytes);

impl TextOrBytes {
    /// The content, if it is text.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl Serialize for TextOrBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(text) = self.text() {
            return serializer.serialize_str(text);
        }
        let mut object = serializer.serialize_map(Some(1))?;
        object.serialize_entry("base64", &STANDARD.encode(&self.0))?;
        object.end()
    }
}

impl<'de> Deserialize<'de> for TextOrBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> de::Visitor<'de> for ContentVisitor {
    type Value = TextOrBytes;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("text, or `{\"base64\": …}` with standard base64")
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<TextOrBytes, E> {
        Ok(TextOrBytes(Bytes::copy_from_slice(text.as_bytes())))
    }
    fn visit_string<E: de::Error>(self, text: String) -> Result<TextOrBytes, E> {
        Ok(TextOrBytes(text.into()))
    }
    fn visit_map<A: de::MapAccess<'de>>(self, mut object: A) -> Result<TextOrBytes, A::Error> {
        let Some((key, encoded)) = object.next_entry::<String, String>()? else {
            return Err(de::Error::missing_field("base64"));
        };
        if key != "base64" || object.next_key::<de::IgnoredAny>()?.is_some() {
            return Err(de::Error::custom("the object must have exactly one member, `base64`"));
        }
        let bytes = STANDARD
            .decode(encoded)
            .map_err(|error| de::Error::custom(format_args!("`base64` cannot be decoded: {error}")))?;
        Ok(TextOrBytes(bytes.into()))
    }
}

impl JsonSchema for TextOrBytes {
    fn schema_name() -> Cow<'static, str> {
        "Content".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Text as a string; other bytes as an object with their base64",
            "anyOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": { "base64": { "type": "string", "contentEncoding": "base64" } },
                    "required": ["base64"],
                    "additionalProperties": false
                }
            ]
        })
    }
}
