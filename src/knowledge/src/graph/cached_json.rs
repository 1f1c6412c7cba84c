//! An output that is kept as it is written out.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use svcfs_base::Fault;

/// A `T` as JSON. One that tells of the whole graph is megabytes long: whoever asks again before anything changed gets the same text.
pub struct CachedJson<T> {
    text: Arc<RawValue>,
    of: PhantomData<fn() -> T>,
}

impl<T: Serialize> CachedJson<T> {
    /// A value, written out.
    ///
    /// # Errors
    /// `Internal` when it cannot be.
    pub fn of(value: &T) -> Result<Self, Fault> {
        Ok(Self { text: to_raw_value(value).map_err(Fault::internal)?.into(), of: PhantomData })
    }
}

impl<T> CachedJson<T> {
    /// How long its text is.
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
