//! Fields that are indexed with their first page, so that the first query on them needs no full
//! scan.
//!
//! Invariant: an indexed field has rows for every page. So a field is added here only while no page
//! has it.

use std::collections::HashSet;

use parking_lot::Mutex;
use rusqlite::Transaction;
use serde_json::Value;

use super::{add, field_name, hot_fields, presence_token};
use crate::IndexError;
use crate::document::PageDocument;
use crate::dql::ValueStep;

/// Longer texts are prose; queries compare fields with short texts.
const MAX_TEXT_BYTES: usize = 80;

/// Longer lists are data.
const MAX_ITEMS: usize = 32;

/// Limit of the cache of keys that are not eligible.
const MAX_DECLINED: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct EarlyFields {
    /// Limit of indexed fields; 0 turns early indexes off.
    pub(crate) max_fields: usize,
    /// Keys that pages have already without an index, or that are not eligible.
    declined: Mutex<HashSet<String>>,
}

impl EarlyFields {
    pub(crate) fn with_limit(max_fields: usize) -> Self {
        Self { max_fields, declined: Mutex::default() }
    }

    /// Adds the new fields of these pages, before any of the pages is written.
    pub(crate) fn register<'d>(
        &self,
        transaction: &Transaction<'_>,
        documents: impl Iterator<Item = &'d PageDocument>,
    ) -> Result<(), IndexError> {
        if self.max_fields == 0 {
            return Ok(());
        }
        let mut indexed: Option<HashSet<String>> = None;
        let mut declined = self.declined.lock();
        for (key, is_eligible) in documents.flat_map(|document| &document.fields) {
            if declined.contains(key) {
                continue;
            }
            let indexed = match &mut indexed {
                Some(indexed) => indexed,
                None => indexed.insert(hot_fields(transaction)?.into_iter().map(|(_, name)| name).collect()),
            };
            let Some(name) = field_name(&[ValueStep::Key(key.clone())]) else { continue };
            if indexed.contains(&name) {
                continue;
            }
            if indexed.len() < self.max_fields && *is_eligible && is_new(transaction, key)? {
                add(transaction, &name)?;
                indexed.insert(name);
            } else {
                if declined.len() >= MAX_DECLINED {
                    declined.clear();
                }
                declined.insert(key.clone());
            }
        }
        Ok(())
    }
}

fn is_new(transaction: &Transaction<'_>, key: &str) -> Result<bool, IndexError> {
    let Some(word) = presence_token(key) else { return Ok(false) };
    let mut rows = transaction.prepare_cached("SELECT 1 FROM texts WHERE texts MATCH ?1 LIMIT 1")?;
    Ok(!rows.exists([format!("{{fields}} : {word}")])?)
}

/// Whether a field with this value may be indexed early.
pub(crate) fn is_short(value: &Value) -> bool {
    match value {
        Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => text.len() <= MAX_TEXT_BYTES,
        Value::Array(items) => items.len() <= MAX_ITEMS && items.iter().all(|item| !item.is_array() && is_short(item)),
        Value::Null | Value::Object(_) => false,
    }
}
