use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use svcfs_base::Fault;

/// A `T` as JSON. An answer about the full graph has megabytes: it is serialized once.
pub struct CachedJson<T> {
    text: Arc<RawValue>,
    of: PhantomData<fn() -> T>,
}

impl<T: Serialize> CachedJson<T> {
    /// Serializes a value.
    pub fn of(value: &T) -> Result<Self, Fault> {
        Ok(Self { text: to_raw_value(value).map_err(Fault::internal)?.into(), of: PhantomData })
    }
}

impl<T> CachedJson<T> {
    /// Length of the JSON.
    pub fn bytes(&self) -> usize {
        self.text.get().len()
    }
}

impl<T> Clone for CachedJson<T> {
    fn clone(&self) -> Self {
        Self { text: Arc::clone(&self.text), of: PhantomData }
    }
}

impl<T> Serialize for CachedJson<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<T: JsonSchema> JsonSchema for CachedJson<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
